"""``send_many``: many records in one call, and an outcome for each, in the order of the input.

Owns the slicing of an iterable, and the collecting of outcomes. Bytes without keys go to the accumulator by the
slice, with one result object per batch instead of one per record; everything else goes the way of ``enqueue``, one by
one. It knows no sockets and no states. Java has no counterpart.

The outcomes are a sequence that makes a ``RecordMetadata`` when it is looked at: a million of them would cost more than
the sending.

Rules: no more is taken from the iterable than there is room for, plus one slice; outcomes are collected as they come,
so that values are not held longer than needed; a record that cannot be sent leaves its error in its place, and the
next goes on; once a record has timed out waiting for metadata or room, later ones do not wait for the same condition
again until it is met; between two slices other tasks run.
"""

from __future__ import annotations

import asyncio
import math
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple, overload

from ...errors import BufferExhaustedError, KafkaError, MetadataTimeoutError
from ...record.builder import LONGEST_RUN, plain_sizes
from ..arguments import check_items, topic_name
from ..deliveries.delivery import Delivery
from ..deliveries.delivery_list import DeliveryList
from ..deliveries.shortcuts import now_ms
from ..records import CallOverflow, ProducerRecord, RecordMetadata
from .async_serializers import finish_serializing
from .call_overflow import accept_specially, check_overflow
from .pending_record import GivenRecord, PendingRecord
from .record_deadlines import Accepted, enclosing_deadline, open_deadlines
from .record_intake import RecordIntake

if TYPE_CHECKING:
    from .intake_runtime import IntakeRuntime

__all__ = ["BulkSend", "Outcomes"]

SLICE_BYTES: Final = 1024 * 1024
FIRST_SLICE: Final = 64
"""Records in a slice, before their size is known."""
COLLECTED: Final = 1000
"""Outcomes that are read in one turn of the loop; a whole list of delivered records counts once."""

_Lack = tuple[str, int | None]
"""A condition that a record may lack: a partition of a topic, a topic (None), or room."""
_ROOM: Final[_Lack] = ("", None)


class BulkSend:
    """One call of ``send_many``."""

    __slots__ = (
        "_intake",
        "_is_plain",
        "_length",
        "_opening",
        "_outcomes",
        "_overflow",
        "_parts",
        "_runtime",
        "_topic",
        "_waited_for",
        "_waiting",
    )

    def __init__(self, intake: RecordIntake, topic: str | None, overflow: CallOverflow | None = None) -> None:
        self._intake = intake
        self._runtime: IntakeRuntime = intake.accepting_runtime()
        self._overflow = overflow
        if overflow is not None:
            check_overflow(self._runtime.config, topic, overflow)
        self._opening = intake.opening
        # Records name their topic themselves; a value without one fails by itself.
        self._topic = None if topic is None else topic_name(topic)
        self._is_plain = intake.takes_plain_values and topic is not None
        self._length = FIRST_SLICE
        # Outcomes that are known, and behind them, in order, records on their way.
        self._outcomes = Outcomes()
        self._parts: deque[DeliveryList | Delivery | BaseException] = deque()
        # The record that waits to be accepted. If the call is cancelled, it may have been accepted in that very step.
        self._waiting: PendingRecord | None = None
        # The conditions that records of this call have waited for in vain, and the time since when.
        self._waited_for: dict[_Lack, float] = {}

    async def run(self, items: Iterable[Any]) -> Outcomes:
        """Send all and return their outcomes. Raises only errors of the iterable itself, and CancelledError."""
        await self._accept_all(_taker(items))
        while self._parts:
            part = self._parts[0]
            if isinstance(part, BaseException) or part.done():
                await asyncio.sleep(0)  # more outcomes are known than are collected in one turn
            elif isinstance(part, DeliveryList):
                await part
            else:
                await asyncio.wait([part])  # type: ignore[type-var]
            self._collect()
        return self._outcomes

    def unsettled(self) -> list[Accepted]:
        """The records taken without an outcome, when the call is given up."""
        records: list[Accepted] = [
            part for part in self._parts if not isinstance(part, BaseException) and not part.done()
        ]
        if self._waiting is not None:
            records.append(self._waiting)
        return records

    def taken(self) -> Iterator[DeliveryList | Delivery | PendingRecord | BaseException]:
        """The outcomes and deliveries of the records taken so far, in their order."""
        yield from self._outcomes.parts
        yield from self._parts
        if self._waiting is not None:
            yield self._waiting

    # internals

    async def _accept_all(self, take: Callable[[int], _Slice]) -> None:
        topic, accumulator = self._topic if self._is_plain else None, self._runtime.accumulator
        is_bulk = False
        try:
            while True:
                taken, sizes = self._next_slice(take)
                if taken.start == taken.stop:
                    return
                if sizes is not None and topic is not None:
                    await self._send_plain(topic, taken, sizes)
                    if not is_bulk:  # there may be more than a slice
                        accumulator.begin_bulk(topic)
                        is_bulk = True
                else:
                    for item in taken.items[taken.start : taken.stop]:
                        await self._send_one(item)
                self._collect()
                await asyncio.sleep(0)
        finally:
            if is_bulk and topic is not None:
                accumulator.end_bulk(topic)

    def _next_slice(self, take: Callable[[int], _Slice]) -> tuple[_Slice, array[int] | None]:
        """The next records, about SLICE_BYTES of them, and their values' sizes if they can go all at once."""
        taken = take(self._length)
        plain = plain_sizes(taken.items, taken.start, taken.stop) if self._is_plain else None
        if plain is None:
            self._length = FIRST_SLICE
            return taken, None
        sizes, total = plain
        self._length = max(1, min(LONGEST_RUN, 2 * self._length, SLICE_BYTES * len(sizes) // (total + 1)))
        return taken, sizes

    async def _send_plain(self, topic: str, taken: _Slice, sizes: array[int]) -> None:
        """Append by the slice. Only the sizes are kept: once in a batch, its bytes are all that may hold memory."""
        runtime = self._runtime
        values, start, stop = taken
        while start < stop:
            now = runtime.now()
            position = start
            # A runtime that has ended keeps ``topics`` empty, which tells the intake of the end: ``refresh`` must add
            # none.
            state = runtime.admission.refresh(topic, now) if self._intake.takes_records(self._opening) else None
            is_free = state is not None and state.waiting is None and state.partition_count
            if state is not None and is_free and self._intake.lets_through(topic):
                timestamp_ms = now_ms()
                deliveries = DeliveryList(sizes, timestamp_ms)
                self._parts.append(deliveries)
                try:
                    position = runtime.accumulator.appender.append_many(
                        deliveries, topic, timestamp_ms, values, start, stop, now, state.cluster
                    )
                except KafkaError as error:
                    position = start + len(deliveries) + 1
                    self._parts.append(error)
                if self._waited_for and deliveries:
                    self._is_there(topic, None)
                if open_deadlines:
                    self._inherit_deadline(deliveries)
            sizes = sizes[position - start :]
            start = position
            if position < stop:
                # No room, or no metadata: the next record waits for it, and the others after it. Meanwhile the caller's
                # list may change.
                values, sizes, start, stop = values[position:stop], sizes[1:], 1, stop - position
                await self._send_one(values[0])

    async def _send_one(self, item: object) -> None:
        topic, key, partition, timestamp_ms, headers = self._topic, None, None, None, None
        value = item
        intake = self._intake
        try:
            if intake.opening != self._opening:
                intake.accepting_runtime(self._opening)  # raises
            if isinstance(item, ProducerRecord):
                topic, value, key = item.topic, item.value, item.key
                partition, timestamp_ms, headers = item.partition, item.timestamp_ms, item.headers
            if open_deadlines or self._overflow is not None:
                given = GivenRecord(topic, value, key, partition, timestamp_ms, headers)
                accepted = accept_specially(intake, given, None, self._overflow)
            else:
                accepted = intake.accept(topic, value, key, partition, timestamp_ms, headers)
            if not isinstance(accepted, Delivery):
                self._waiting = accepted
                accepted = await self._admitted(accepted)
                self._waiting = None
        except Exception as error:
            self._waiting = None
            self._parts.append(error)
        else:
            self._parts.append(accepted)
            if self._waited_for:
                self._is_there(accepted.topic_partition.topic, partition)

    async def _admitted(self, record: PendingRecord) -> Delivery:
        """As ``record_sender.admitted``; after serialization the limit counts from the time when the call began to
        wait for the missing condition.
        """
        loop = record.get_loop()
        now = loop.time()
        began = min(self._waited_for.get(lack, now) for lack in _lacks(record.topic, record.partition))
        record.admission.enter(record, now)
        if not record.is_serialized:
            await finish_serializing(record)
        if began < now:
            record.deadline -= now - began
            loop.call_soon(_expire, record)
        try:
            return await record
        except MetadataTimeoutError as error:
            self._waited_for.setdefault((record.topic, error.partition), began)
            raise
        except BufferExhaustedError:
            self._waited_for.setdefault(_ROOM, began)
            raise

    def _is_there(self, topic: str, partition: int | None) -> None:
        """A record of the topic was accepted."""
        for lack in _lacks(topic, partition):
            self._waited_for.pop(lack, None)

    def _inherit_deadline(self, deliveries: DeliveryList) -> None:
        outer = enclosing_deadline.get()
        deadline = math.inf if outer is None else outer.ends_at(self._runtime.loop)
        if outer is not None and deadline < math.inf and not self._runtime.config.enable_gapless_guarantee:
            self._runtime.deadlines.add(deliveries, deadline, outer)
            outer.watched_by(self._runtime.deadlines)

    def _collect(self) -> None:
        """Move known outcomes from the front, as many as a turn has time for, and release their values."""
        parts = self._parts
        budget = COLLECTED
        while budget > 0 and parts and (isinstance(parts[0], BaseException) or parts[0].done()):
            budget -= 1 + self._outcomes.add(parts.popleft())


class _Slice(NamedTuple):
    """The records ``items[start:stop]``. The list may be the caller's: a copy would count a reference to each record,
    there and back.
    """

    items: list[Any]
    start: int
    stop: int


def _taker(items: Iterable[Any]) -> Callable[[int], _Slice]:
    """A function that takes the next items, up to a number."""
    check_items(items)
    if type(items) is not list:
        iterator = iter(items)

        def take_next(count: int) -> _Slice:
            taken = list(islice(iterator, count))
            return _Slice(taken, 0, len(taken))

        return take_next
    position = 0

    def take(count: int) -> _Slice:
        nonlocal position
        start = min(position, len(items))
        position = min(start + count, len(items))
        return _Slice(items, start, position)

    return take


class Outcomes(Sequence[RecordMetadata | BaseException]):
    """The outcome of each record of a ``send_many``, in the order of the input: a ``RecordMetadata`` or an error."""

    __slots__ = ("_length", "_starts", "failed", "first_error", "parts")

    def __init__(self) -> None:
        self.failed = 0
        self.first_error: BaseException | None = None
        self.parts: list[DeliveryList | Delivery | BaseException] = []
        # In step with the parts: the position of the first record of each.
        self._starts: list[int] = []
        self._length = 0

    def add(self, part: DeliveryList | Delivery | BaseException) -> int:
        """Add the outcomes of the next records, which must all be known. Returns how many of them failed."""
        count = 1
        if isinstance(part, DeliveryList):
            count = len(part)
        if count:
            self.parts.append(part)
            self._starts.append(self._length)
            self._length += count
        errors = _errors_of(part)
        if errors and self.first_error is None:
            self.first_error = errors[0]
        self.failed += len(errors)
        return len(errors)

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> RecordMetadata | BaseException: ...

    @overload
    def __getitem__(self, index: slice) -> list[RecordMetadata | BaseException]: ...

    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[position] for position in range(*index.indices(self._length))]
        position = index + self._length if index < 0 else index
        if not 0 <= position < self._length:
            raise IndexError(f"record {index} of {self._length}")
        index_of_part = bisect_right(self._starts, position) - 1
        part = self.parts[index_of_part]
        return _outcome_of(part[position - self._starts[index_of_part]] if isinstance(part, DeliveryList) else part)

    def __iter__(self) -> Iterator[RecordMetadata | BaseException]:
        for part in self.parts:
            if isinstance(part, DeliveryList):
                yield from part.results()
            else:
                yield _outcome_of(part)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence) or isinstance(other, str | bytes):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<outcomes of {self._length} records, {self.failed} failed>"


def _lacks(topic: str, partition: int | None) -> tuple[_Lack, _Lack, _Lack]:
    """The conditions that a record may have to wait for."""
    return (topic, partition), (topic, None), _ROOM


def _expire(record: PendingRecord) -> None:
    if not record.done():
        record.admission.expire(record)


def _errors_of(part: DeliveryList | Delivery | BaseException) -> Sequence[BaseException]:
    if isinstance(part, DeliveryList):
        return list(part.errors())
    error = part if isinstance(part, BaseException) else part.exception()
    return () if error is None else (error,)


def _outcome_of(part: Delivery | BaseException) -> RecordMetadata | BaseException:
    return part if isinstance(part, BaseException) else part.exception() or part.result()
