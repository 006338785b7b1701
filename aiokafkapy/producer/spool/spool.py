"""``Spool``: the event loop's view of the records that are on disk, or on their way there.

Owns the bound, the accounts of each topic, the deliveries of records that are being written, and the one thread that
does the blocking calls. ``SpoolingAdmission`` chooses and offers the records, ``SpoolReplay`` takes and sends them.
Kafka has no counterpart.

Rules:

- A record's delivery is done when it is on disk, as far as ``spool_fsync`` says. Records that come while others are
  written share the next write, and the next fsync.
- A topic is here from its first offered record until its last one was dealt with: meanwhile ``has`` is true, and no
  record of it goes another way.
- Records written and not sent are bounded by ``spool_max_bytes``, those not written yet by ``MOST_UNWRITTEN``.
- After a failed write no record is taken for ``RETRY_AFTER`` seconds: the disk may be full, or gone.
- At the interpreter's end, if the thread stops taking work before the producer is closed, the loop waits for it and
  then does its work itself.

Events: ``producer.spool_failed`` (error; folder, records, error, retry_in), ``producer.spool_damaged`` (error; file,
position, bytes, kept_in), ``producer.spooling`` (warning; topic, reason).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeVar

from ...common import TopicPartition
from ...errors import SpoolError
from ...observability import RateLimitedLogger, get_logger
from ...worker_thread import done_here
from ..accumulator.serialized_record import WaitingRecord
from ..deliveries.delivery import Delivery, new_delivery
from ..deliveries.outcome_teller import OutcomeTeller
from ..deliveries.produce_request_result import ProduceRequestResult
from ..records import PlainRecord, RecordMetadata, serialized_size
from .format import FRAME_OVERHEAD, Mark, SpooledRecord, encode_record
from .spool_files import SYNC_INTERVAL, Recovered, SpoolFiles, TornWriteError
from .spool_segment import SetAside

if TYPE_CHECKING:
    from ...record.encoding import BatchRecord
    from ..config import ProducerConfig

__all__ = ["Spool", "SpooledRecordMetadata"]

MOST_UNWRITTEN: Final = 4 * 1024 * 1024
"""The most bytes that wait for the disk; further records wait in front of the spool."""
RETRY_AFTER: Final = 1.0
"""Seconds after which a disk that refused a write is tried again."""

_logger = get_logger(__name__)

T = TypeVar("T")


class SpooledRecordMetadata(RecordMetadata):
    """A ``RecordMetadata`` of a record that is in the spool."""

    @property
    def is_spooled(self) -> bool:
        """True."""
        return True


class _InTheSpool:
    """Makes the metadata of records that are in the spool."""

    def metadata(
        self, topic: str, partition: int, offset: int, timestamp_ms: int, key_size: int, value_size: int
    ) -> RecordMetadata:
        return SpooledRecordMetadata(topic, partition, offset, timestamp_ms, key_size, value_size)


_IN_THE_SPOOL: Final = _InTheSpool()


class _Unwritten(NamedTuple):
    """Records on their way to the disk that have one result."""

    first: int
    last: int
    frames: bytes | Callable[[], bytes]
    """The encoder of a batch, run in the thread: a buffer full of records would be too much work for the loop."""
    size: int
    result: ProduceRequestResult
    topic: str
    records: int


class Spool:
    """The spool of one producer, on one event loop. ``on_room`` is called when a record that did not fit may fit now,
    and ``on_free`` with a topic when its last record was dealt with.
    """

    def __init__(self, config: ProducerConfig, loop: asyncio.AbstractEventLoop, teller: OutcomeTeller) -> None:
        self.folder = Path(str(config.spool_dir))
        self.max_bytes = config.spool_max_bytes
        self.on_room: Callable[[], object] = lambda: None
        self.on_free: Callable[[str], object] = lambda _: None
        self._loop = loop
        self._teller = teller
        self._syncs_later = config.spool_fsync == "every_second"
        self._files = SpoolFiles(self.folder, config.spool_max_bytes, config.spool_fsync)
        self._thread = ThreadPoolExecutor(1, "aiokafkapy-spool")
        self._log = RateLimitedLogger(_logger)
        # The records in the spool: by topic, and in bytes
        self.topics: Counter[str] = Counter()
        self.size = 0
        self._next_sequence = 0
        self._sent_before = 0
        # Counted since the start
        self.spooled = 0
        self.replayed = 0
        self.repeated = 0
        self.refused = 0
        # On its way to the disk
        self._unwritten: list[_Unwritten] = []
        self._unwritten_bytes = 0
        self._groups: dict[asyncio.Future[int], list[_Unwritten]] = {}  # one, or two at the end
        self._write_handle: asyncio.Handle | None = None
        self._sync_timer: asyncio.TimerHandle | None = None
        self._retry_timer: asyncio.TimerHandle | None = None
        self._error: OSError | None = None
        self._readers: list[asyncio.Future[None]] = []
        self._is_open = self._has_ended = self._is_shut = False
        self._closing: asyncio.Future[None] | None = None

    async def open(self) -> Recovered:
        """Take the folder, and find the records that an earlier process has left. Raises SpoolError."""
        # Not ``_run``: a job that the executor took before it failed to start its thread would run twice.
        found = await self._loop.run_in_executor(self._thread, self._files.open)
        self._is_open = True
        self.topics, self.size = found.topics, found.size
        self._next_sequence, self._sent_before = found.next_sequence, found.mark.sent_to
        self._tell_damage(found.set_aside)
        return found

    @property
    def records(self) -> int:
        """Records in the spool, on disk or on their way there."""
        return self.topics.total()

    def has(self, topic: str) -> bool:
        """True while a record of the topic is in the spool."""
        return topic in self.topics

    # records come

    def offer(self, record: WaitingRecord, reason: str) -> Delivery | None:
        """Take a record, whose delivery is done when it is on disk; None when there is no room, see ``why_full``.

        ``reason`` says why it does not go to the accumulator.
        """
        topic, partition, key, value = record.topic, record.partition, record.key, record.value
        if not self._is_open or self._error is not None or not self._fits(record):
            return None
        sequence, self._next_sequence = self._next_sequence, self._next_sequence + 1
        to_spool = PlainRecord(topic, partition, record.timestamp_ms, key, value, record.headers)
        frame = encode_record(self._files.salt, sequence, to_spool)
        result = ProduceRequestResult(TopicPartition(topic, -1 if partition is None else partition))
        result.record_count = 1
        result.timing = _IN_THE_SPOOL
        self._take(_Unwritten(sequence, sequence, frame, len(frame), result, topic, 1), reason)
        return new_delivery(result, 0, record.timestamp_ms, serialized_size(key), serialized_size(value))

    def has_room_for(self, size: int, count: int) -> bool:
        """True when so many records of so many bytes may be adopted."""
        is_open = self._is_open and self._error is None
        return is_open and self.size + size + count * FRAME_OVERHEAD * 2 <= self.max_bytes

    def adopt(
        self,
        topic_partition: TopicPartition,
        records: Callable[[], Iterable[BatchRecord]],
        count: int,
        size: int,
        reason: str,
    ) -> ProduceRequestResult:
        """Take the ``count`` records of a batch, about ``size`` bytes, for which there must be room. The result is
        theirs, in this order. ``records`` gives them, on the spool's thread.
        """
        first = self._next_sequence
        self._next_sequence += count
        frames = partial(_frames_of, self._files.salt, first, topic_partition, records)
        result = ProduceRequestResult(topic_partition)
        result.record_count = count
        result.timing = _IN_THE_SPOOL
        size += count * FRAME_OVERHEAD  # until it is known
        topic = topic_partition.topic
        self._take(_Unwritten(first, self._next_sequence - 1, frames, size, result, topic, count), reason)
        return result

    def why_full(self) -> str:
        """The reason why a record is not taken, with the value and its limit, for messages."""
        if not self._is_open:
            return f"the spool {self.folder} is not open"
        if self._error is not None:
            return f"the spool {self.folder} could not be written: {self._error}"
        if self._unwritten_bytes >= MOST_UNWRITTEN:
            return f"the spool's disk is behind ({self._unwritten_bytes} bytes are not written yet in {self.folder})"
        return (
            f"spool_max_bytes is full ({self.size} of {self.max_bytes} bytes held by {self.records} records in "
            f"{self.folder})"
        )

    async def written(self) -> None:
        """Return when all records offered by now are on disk, or could not be written."""
        while self._unwritten or self._groups:
            if not self._groups:
                self._begin_write()
            await asyncio.wait(list(self._groups))
            await asyncio.sleep(0)  # their callbacks

    # records go

    async def readable(self) -> None:
        """Return when there is, or may be, a record on disk."""
        if self.records > _count(self._on_their_way()).total():
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._readers.append(waiter)
        await waiter

    def wake_readers(self) -> None:
        """Wake the callers that wait in ``readable``."""
        readers, self._readers = self._readers, []
        for reader in readers:
            if not reader.done():
                reader.set_result(None)

    async def read(self, max_bytes: int, max_records: int) -> list[SpooledRecord]:
        """The next records on disk, in order. Raises OSError."""
        written = self.topics - _count(self._on_their_way())
        records, set_aside = await self._run(partial(self._files.read, max_bytes, max_records))
        self._tell_damage(set_aside)
        if not records:
            self._forget(written)  # they were damaged or removed since they were counted
        return records

    async def mark(self, mark: Mark) -> None:
        """Write the progress of sending into the mark. Raises OSError."""
        freed, error = await self._run(partial(self._files.mark, mark))
        self.size -= freed
        self.on_room()
        if error is not None:
            raise error

    async def refuse(self, lines: Sequence[bytes]) -> Path:
        """Keep the lines of records that brokers refused. Raises OSError."""
        return await self._run(partial(self._files.refuse, lines))

    def note_sending(self, records: Iterable[SpooledRecord]) -> None:
        """These records are about to be sent; an earlier process may have sent them already."""
        self.repeated += sum(record.sequence < self._sent_before for record in records)

    def settle(self, records: Iterable[SpooledRecord]) -> None:
        """These records are dealt with. Topics without further records become free."""
        self._forget(Counter(record.topic for record in records))

    # end

    def release_lock(self) -> None:
        """This is the child of a fork: the lock is the parent's."""
        self._files.release()

    async def close(self, timeout: float | None) -> None:
        """Write the records that were taken, and release the folder; after ``timeout`` seconds, without waiting for a
        disk that does not answer: the outcome of records that it did not write is then unknown.
        """
        self.end()
        if self._closing is not None:
            await asyncio.wait([self._closing], timeout=timeout)
            await asyncio.sleep(0)  # the callbacks of the writes before it
        lost = [one for group in self._groups.values() for one in group]
        error = SpoolError("the producer was closed before the record was known to be on disk", outcome_unknown=True)
        for one in lost:
            if not one.result.is_settled:
                one.result.fail(error, self._teller)

    def end(self) -> None:
        """Take no more records, write those that were taken, and release the folder, without waiting; idempotent."""
        if self._has_ended:
            return
        self._has_ended, self._is_open = True, False
        for handle in (self._write_handle, self._sync_timer, self._retry_timer):
            if handle is not None:
                handle.cancel()
        self._write_handle = self._sync_timer = self._retry_timer = None
        try:
            self._write()
            self._closing = self._in_thread(self._files.close)
            self._closing.add_done_callback(_seen)
        finally:
            self._is_shut = True
            self._thread.shutdown(wait=False)

    # asyncio callbacks

    def _begin_write(self) -> None:
        self._write_handle = None
        if not self._groups:
            self._write()

    def _on_written(self, writing: asyncio.Future[int]) -> None:
        group = self._groups.pop(writing)
        error = OSError("the write was cancelled") if writing.cancelled() else writing.exception()
        if error is not None:
            self._fail(group, error if isinstance(error, OSError) else OSError(f"{type(error).__name__}: {error}"))
        else:
            self.spooled += sum(one.records for one in group)
            self.size += writing.result() - sum(one.size for one in group)
            for one in group:
                one.result.succeed(-1, -1, self._teller)
            self.wake_readers()
            if self._syncs_later and self._sync_timer is None and self._is_open:
                self._sync_timer = self._loop.call_later(SYNC_INTERVAL, self._on_sync_timer)
            self.on_room()
        if not self._has_ended:
            self._begin_write()

    def _on_sync_timer(self) -> None:
        self._sync_timer = None
        # The next write raises the error: no other caller could get it.
        self._in_thread(self._files.sync).add_done_callback(_seen)

    def _on_retry_timer(self) -> None:
        self._retry_timer = self._error = None
        self.on_room()

    # internals

    def _write(self) -> None:
        """Give the records that have gathered to the thread."""
        group, self._unwritten = self._unwritten, []
        self._unwritten_bytes = 0
        if not group:
            return
        writing = self._in_thread(partial(_append, self._files, group))
        self._groups[writing] = group
        writing.add_done_callback(self._on_written)

    def _on_their_way(self) -> list[_Unwritten]:
        return [one for group in (*self._groups.values(), self._unwritten) for one in group]

    async def _run(self, job: Callable[[], T]) -> T:
        """Run a job on the spool's thread. A job that has begun goes on when its caller is cancelled."""
        return await self._in_thread(job)

    def _in_thread(self, job: Callable[[], T]) -> asyncio.Future[T]:
        try:
            return self._loop.run_in_executor(self._thread, job)
        except RuntimeError:
            if self._is_shut:
                raise
            # The interpreter ends: the thread takes no more jobs, and may still run earlier ones. Only one job at a
            # time may use the files.
            self._thread.shutdown(wait=True)
            return done_here(self._loop, job)

    def _fits(self, record: WaitingRecord) -> bool:
        if self._unwritten_bytes >= MOST_UNWRITTEN:
            return False
        size = FRAME_OVERHEAD + len(record.topic) + len(record.key or b"") + len(record.value or b"")
        size += sum(8 + 4 * len(name) + len(data or b"") for name, data in record.headers or ())
        return self.size + size <= self.max_bytes

    def _take(self, taken: _Unwritten, reason: str) -> None:
        self._unwritten.append(taken)
        self._unwritten_bytes += taken.size
        self.size += taken.size
        topic = taken.topic
        if topic not in self.topics:
            self._log.log(topic, self._loop.time(), logging.WARNING, "producer.spooling", topic=topic, reason=reason)
        self.topics[topic] += taken.records
        self._write_soon()

    def _write_soon(self) -> None:
        if not self._groups and self._write_handle is None:
            self._write_handle = self._loop.call_soon(self._begin_write)

    def _fail(self, group: list[_Unwritten], cause: OSError) -> None:
        is_unknown = isinstance(cause, TornWriteError)
        for one in group:
            error = SpoolError(
                f"a record of topic {one.topic!r} could not be written to the spool {self.folder}: {cause}",
                topic=one.topic,
                outcome_unknown=is_unknown,
            )
            error.__cause__ = cause
            one.result.fail(error, self._teller)
        self.size -= sum(one.size for one in group)
        if self._is_open:
            self._error = cause
            if self._retry_timer is None:
                self._retry_timer = self._loop.call_later(RETRY_AFTER, self._on_retry_timer)
            fields = {
                "folder": str(self.folder),
                "records": sum(one.records for one in group),
                "error": str(cause),
                "retry_in": RETRY_AFTER,
            }
            self._log.log("write", self._loop.time(), logging.ERROR, "producer.spool_failed", **fields)
        self._forget(_count(group))

    def _forget(self, counts: Counter[str]) -> None:
        for topic, number in counts.items():
            left = self.topics[topic] - number
            if left > 0:
                self.topics[topic] = left
            else:
                del self.topics[topic]
                self.on_free(topic)

    def _tell_damage(self, set_aside: Sequence[SetAside]) -> None:
        for one in set_aside:
            _logger.error(
                "producer.spool_damaged",
                file=str(one.file),
                position=one.position,
                bytes=one.size,
                kept_in=None if one.kept_in is None else str(one.kept_in),
            )


def _append(files: SpoolFiles, group: Sequence[_Unwritten]) -> int:
    """Write a group, on the spool's thread; returns its bytes."""
    frames = [one.frames if isinstance(one.frames, bytes) else one.frames() for one in group]
    files.append(frames, group[0].first, group[-1].last)
    return sum(map(len, frames))


def _frames_of(
    salt: bytes, first: int, topic_partition: TopicPartition, records: Callable[[], Iterable[BatchRecord]]
) -> bytes:
    topic, partition = topic_partition
    return b"".join(
        encode_record(
            salt,
            number,
            PlainRecord(topic, partition, record.timestamp_ms, record.key, record.value, record.headers or None),
        )
        for number, record in enumerate(records(), first)
    )


def _count(unwritten: Iterable[_Unwritten]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for one in unwritten:
        counts[one.topic] += one.records
    return counts


def _seen(future: asyncio.Future[None]) -> None:
    if not future.cancelled():
        future.exception()
