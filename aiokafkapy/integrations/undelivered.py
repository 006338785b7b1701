"""Keeps the records that a service had not delivered when it ended, in a file from which ``aiokafkapy produce --resume
FILE`` sends them.

Owns the form of the file, and the keeping of records until their outcome, by an interceptor: a batch has only bytes,
and a failed batch not even those. Without a file no record is kept. Kafka has no counterpart.

The file is JSON lines, one for each record, in the order in which they were sent:

    {"sent": false, "topic": "orders", "partition": null, "key": "ann", "value": {"base64": "/w=="}, "headers": [], ...}

Text is text, bytes that are not UTF-8 are base64, and null is null. ``outcome_unknown`` says that the record may have
been written: sent again, it may be written twice. ``sent`` comes first and is marked in place when the record is
acknowledged, so that a run that ends half-way does not send it again.

Rules: the file is only added to, by one writer at a time, and is on disk when the drain returns; it is the user's data,
readable by its owner alone (0600), and no value in it is hidden. A line that a crash has torn does not affect others.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeAlias

from .. import ProducerRecord, RecordMetadata
from ..errors import ConfigurationError, KafkaError, PurgedError
from ..producer.arguments import headers_of, partition_of, plain_data, time_of
from ..producer.records import PlainRecord
from ..producer.serializers import Serializer, prepare, with_own_headers
from ..producer.undelivered_line import PENDING, SENT, undelivered_line

if TYPE_CHECKING:
    from .. import ProducerConfig

try:
    import fcntl
except ImportError:  # Windows, where no lock keeps two writers apart
    fcntl = None  # type: ignore[assignment]

__all__ = ["StoredRecord", "UndeliveredFile", "UndeliveredRecords", "checked_path"]

TOLD_WITHIN: Final = 1.0
"""Seconds after the producer has closed, for the outcomes of its records: some turns of the loop."""
SERIALIZED_WITHIN: Final = 5.0
"""Seconds for all async serializers, whose registry may be down."""

# Bytes far behind any file's end, locked while a file is added to, or resumed: both may happen at the same time.
_ADDING: Final = 2**62
_RESUMING: Final = 2**62 + 1

Outcome: TypeAlias = Callable[[RecordMetadata | None, BaseException | None], None]


def checked_path(path: str | os.PathLike[str]) -> Path:
    """The path of a file that can be written. Raises ConfigurationError at once, and not at the end of the service."""
    found = Path(path)
    if found.is_dir() or not found.parent.is_dir():
        what = "is a directory" if found.is_dir() else "is in no directory that exists"
        raise ConfigurationError(f"undelivered_path={str(path)!r} {what}: write the path of a file")
    if not os.access(found if found.exists() else found.parent, os.W_OK):
        raise ConfigurationError(f"undelivered_path={str(path)!r} cannot be written")
    return found


class UndeliveredRecords:
    """Keeps one producer's records until their outcome, as its last interceptor, and writes the failed ones at the
    end.
    """

    def __init__(self, path: Path, config: ProducerConfig) -> None:
        self.path = path
        self._config = config
        self._kept: dict[int, _Kept] = {}  # records without an outcome
        self._failed: dict[int, tuple[_Kept, BaseException | None]] = {}
        self._count = 0
        self.missing = 0
        """The number of records that ``write`` had to write."""
        self._is_closing = False
        self._is_told = asyncio.Event()  # set while no record is kept

    def track(self, record: ProducerRecord) -> tuple[ProducerRecord, Outcome]:
        """Keep the record with the bytes it has now: its caller may change a buffer while the record waits; the
        producer copies it for the same reason. Data with a serializer is serialized at the end.
        """
        self._count = number = self._count + 1
        headers = _copied_headers(record)
        key = _copied(record.key, self._config.key_serializer)
        value = _copied(record.value, self._config.value_serializer)
        is_plain = headers is record.headers and key is record.key and value is record.value
        kept = record if is_plain else replace(record, key=key, value=value, headers=headers)
        self._kept[number] = _Kept(kept, time.time_ns() // 1_000_000)
        return record, partial(self._on_outcome, number)

    def begin_closing(self) -> None:
        """From now on a record that fails has no caller that could send it again."""
        self._is_closing = True

    async def write(self) -> int:
        """Write the records that failed since ``begin_closing``; call it when the producer is closed. Returns their
        number.

        Raises OSError if the file cannot be written. A record whose serializer fails is neither written nor counted.
        If it is cancelled, it writes the records at hand without waiting before it raises CancelledError; an OSError
        meanwhile is the CancelledError's cause.
        """
        cancelled = None
        try:
            await self._wait_until_told()
        except asyncio.CancelledError as error:
            cancelled = error
        # Outcomes that did not come in time may be of any kind.
        failed = {**{number: (kept, None) for number, kept in self._kept.items()}, **self._failed}
        self.missing = len(failed)
        lines: list[bytes] = []
        try:
            async with asyncio.timeout(SERIALIZED_WITHIN):
                for number in sorted(failed):
                    line = await self._line_of(*failed[number])
                    if line is not None:
                        lines.append(line)
        except TimeoutError:
            pass  # the serialized ones are better than none
        except asyncio.CancelledError as error:
            cancelled = error
        if cancelled is not None:
            try:
                _add(self.path, lines)
            except OSError as error:
                raise cancelled from error
            raise cancelled
        await _in_thread(partial(_add, self.path, lines))
        return len(lines)

    # internals

    def _on_outcome(self, number: int, metadata: RecordMetadata | None, error: BaseException | None) -> None:
        kept = self._kept.pop(number, None)
        # A record that its caller took back, or gave up, does not count as missing.
        is_missing = error is not None and not isinstance(error, asyncio.CancelledError | PurgedError)
        if self._is_closing and kept is not None and is_missing:
            self._failed[number] = kept, error
        if not self._kept:
            self._is_told.set()

    async def _wait_until_told(self) -> None:
        self._is_told.clear()
        if self._kept:
            with suppress(TimeoutError):
                async with asyncio.timeout(TOLD_WITHIN):
                    await self._is_told.wait()

    async def _line_of(self, kept: _Kept, error: BaseException | None) -> bytes | None:
        record = kept.record
        try:
            key = await _serialized(self._config.key_serializer, record.topic, record.key)
            value = await _serialized(self._config.value_serializer, record.topic, record.value)
            return _encoded(record, key, value, kept.sent_at, error)
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except Exception:  # the error of a serializer, or of an object that is not a record: its caller has it
            return None


class _Kept(NamedTuple):
    record: ProducerRecord
    sent_at: int


class StoredRecord(NamedTuple):
    """A line of a file, and its position. ``problem`` says why it cannot be sent."""

    position: int
    line: int
    topic: str = ""
    partition: int | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: Sequence[tuple[str, bytes | None]] = ()
    timestamp_ms: int | None = None
    problem: str | None = None


class UndeliveredFile:
    """A file that is being resumed, by one process at a time. Raises OSError; BlockingIOError when another
    resumes it.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b", buffering=0)
        try:
            _lock(self._file.fileno(), _RESUMING, wait=False)
        except OSError:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def pending(self) -> Iterator[StoredRecord]:
        """The records that were not acknowledged yet, in order, and the invalid lines, each with its problem."""
        position = 0
        with os.fdopen(self._file.fileno(), "rb", closefd=False) as lines:
            for number, text in enumerate(lines, 1):
                if not text.startswith(SENT) and text.strip():
                    yield _decoded(position, number, text)
                position += len(text)

    def mark(self, position: int) -> None:
        """Mark the record at this position as acknowledged."""
        descriptor = self._file.fileno()
        reading_at = os.lseek(descriptor, 0, os.SEEK_CUR)
        os.lseek(descriptor, position, os.SEEK_SET)
        os.write(descriptor, SENT)
        os.lseek(descriptor, reading_at, os.SEEK_SET)

    def sync(self) -> None:
        """Bring the marks to the disk."""
        os.fsync(self._file.fileno())


# internals


def _copied_headers(record: ProducerRecord) -> Any:
    try:
        return None if record.headers is None else headers_of(record.topic, record.headers)
    except Exception:  # the producer will refuse them
        return record.headers


def _copied(data: object, serializer: Serializer[Any] | None) -> Any:
    """The data, copied if its owner may change it."""
    if data is None or isinstance(data, bytes):  # the result of a serializer, perhaps with headers
        return data
    if serializer is not None:
        return bytearray(data) if type(data) is bytearray else data  # a serializer may distinguish types
    try:
        return plain_data(data)
    except Exception:  # without bytes: the producer will refuse it
        return data


async def _serialized(serializer: Serializer[Any] | None, topic: str, data: object) -> Any:
    call = prepare(serializer)
    if data is None or call is None:
        return data
    data = call(topic, data)
    return await data if isawaitable(data) else data


def _encoded(record: ProducerRecord, key: object, value: object, sent_at: int, error: BaseException | None) -> bytes:
    """The line of a record, from its arguments as the producer takes them."""
    topic, headers = record.topic, record.headers
    headers = with_own_headers(topic, None if headers is None else headers_of(topic, headers), key, value)
    plain = PlainRecord(
        topic=topic,
        partition=None if record.partition is None else partition_of(topic, record.partition),
        timestamp_ms=sent_at if record.timestamp_ms is None else time_of(topic, record.timestamp_ms),
        key=plain_data(key),
        value=plain_data(value),
        headers=headers,
    )
    outcome_unknown = error is None or (isinstance(error, KafkaError) and error.outcome_unknown)
    return undelivered_line(plain, error, outcome_unknown=outcome_unknown)


def _decoded(position: int, number: int, text: bytes) -> StoredRecord:
    if not text.startswith(PENDING):
        return StoredRecord(position, number, problem=f"the line does not begin with {PENDING.decode()!r}")
    try:
        fields = json.loads(text)
        headers = tuple((str(name), _of_json(data)) for name, data in fields["headers"])
        key, value = _of_json(fields["key"]), _of_json(fields["value"])
        partition, timestamp_ms = fields["partition"], fields["timestamp_ms"]
        return StoredRecord(position, number, fields["topic"], partition, key, value, headers, timestamp_ms)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        return StoredRecord(position, number, problem=f"the line is not a record: {type(error).__name__}: {error}")


def _of_json(data: Any) -> bytes | None:
    if data is None:
        return None
    if isinstance(data, str):
        return data.encode()
    return base64.b64decode(data["base64"], validate=True)


async def _in_thread(work: Callable[[], None]) -> None:
    try:
        running = asyncio.get_running_loop().run_in_executor(None, work)
    except RuntimeError:  # no thread can be started while the interpreter shuts down
        work()
    else:
        await running


def _add(path: Path, lines: Sequence[bytes]) -> None:
    """Add lines to the file; they are on disk when this returns. Without a line there is no file."""
    if not lines:
        return
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
    with os.fdopen(descriptor, "r+b", buffering=0) as file:
        if hasattr(os, "fchmod"):
            with suppress(PermissionError):  # another's file: its mode is that user's choice
                os.fchmod(descriptor, 0o600)  # the file may have existed
        _lock(descriptor, _ADDING, wait=True)
        data = b"".join(lines)
        if os.fstat(descriptor).st_size:
            os.lseek(descriptor, -1, os.SEEK_END)
            if os.read(descriptor, 1) != b"\n":
                data = b"\n" + data  # a crash has torn the last line
        view = memoryview(data)
        while view:
            view = view[file.write(view) or 0 :]
        os.fsync(descriptor)
    if hasattr(os, "O_DIRECTORY"):
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)  # the file's name too
        finally:
            os.close(directory)


def _lock(descriptor: int, position: int, *, wait: bool) -> None:
    if fcntl is not None:
        fcntl.lockf(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, position)
