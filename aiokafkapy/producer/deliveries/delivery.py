"""A record's answer: ``Delivery``, the light awaitable that ``send_nowait`` and ``enqueue`` return.

Owns who waits for which record and how they are told. It knows neither bytes nor brokers: the batch says once what
became of it, in its ``ProduceRequestResult``, and every delivery of the batch reads it there. Kafka's counterparts are
``FutureRecordMetadata`` and ``ProduceRequestResult`` (a delivery keeps the result alive, never the batch's bytes).

Rules:

- Nothing to wait on is made unless somebody awaits before the answer; then a waiter for each task (``waiter.py``), so
  that cancelling one harms neither the others nor the record. ``cancel()`` never cancels a record.
- The waiter only wakes; the answer is made when its task looks. A thousand answers made at once, and kept until each
  task had its turn, would be a thousand objects more for the cyclic collector to visit.
- Every waiter raises its own copy of the error, so that tracebacks do not grow into each other.
- Waiters are told on their loop, by ``call_soon``; a closed loop is passed over.
- A batch that is split, or loses records (KIP-467), says where each record went; deliveries follow when they look.
- Compiled, deliveries and results are invisible to the cyclic collector, which makes a million of them cheap. What
  could tie a lasting knot through one is who waits for it, and holds his task; all are told, and let go of, with the
  answer, or by ``abandon()`` when the producer is thrown away without one. Nothing else refers back: errors are raised
  as copies only, so no traceback of a user's frame, which may hold deliveries, comes to hang on what is kept here.
"""

from __future__ import annotations

import asyncio
import copy
from bisect import bisect_right
from collections.abc import Callable, Generator, Sequence
from contextvars import Context
from functools import partial
from typing import Any, Final, Literal

try:
    import cython
except ImportError:  # interpreted, where there is no Cython
    from ... import _form as cython

from ...common import TopicPartition
from ...errors import KafkaError
from ..records import INVALID_OFFSET, RecordMetadata
from .outcome_teller import COST_OF_ERROR, OutcomeTeller
from .shortcuts import record_metadata, running_loop
from .waiter import Waiter, new_waiter, wake

__all__ = ["Delivery", "ProduceRequestResult", "SettlementCounter", "new_delivery", "place_of", "waiter_for"]

# What a result's ``status`` says. Small ints: the compiled form compares them in C.
PENDING: Final = 0
SUCCEEDED: Final = 1
FAILED: Final = 2
MOVED: Final = 3
# Waiters that gave up are thrown out when this many have gathered, and then at each doubling.
FIRST_PRUNE: Final = 1024

RecordErrors = Callable[[int], BaseException]


# Here and not in the .pxd, for Cython takes these two from the source only.
@cython.freelist(4096)
@cython.no_gc
@cython.final
@cython.cclass
class Delivery:
    """The outcome of one accepted record: await it, or ask ``done()``, ``result()``, ``exception()``.

    Works with ``asyncio.gather``, ``wait``, ``wait_for``, ``shield``, ``ensure_future`` and ``as_completed``.
    Cancelling a task that awaits it stops the waiting only: the record stays on its way.
    """

    __slots__ = ("_index", "_key_size", "_result", "_timestamp_ms", "_value_size")

    _result: ProduceRequestResult
    _index: int
    _timestamp_ms: int
    _key_size: int
    _value_size: int

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        if self._result.status != SUCCEEDED and not self.done():
            yield from waiter_for(self)
        return self.result()

    def done(self) -> bool:
        """True once the record is delivered or has failed."""
        if self._result.status == MOVED:
            self._follow()
        return self._result.status != PENDING

    def result(self) -> RecordMetadata:
        """Where the record is; raises the record's error, or ``asyncio.InvalidStateError`` without an answer."""
        if self._result.status != SUCCEEDED:  # asked first, for it is what nearly all come to
            if not self.done():
                raise asyncio.InvalidStateError("the record is still on its way: await it")
            if self._result.status == FAILED:
                raise self._result.error(self._index)
        return self._result.metadata(self._index, self._timestamp_ms, self._key_size, self._value_size)

    def exception(self) -> BaseException | None:
        """The record's error, None when it was delivered; raises ``asyncio.InvalidStateError`` without an answer."""
        if not self.done():
            raise asyncio.InvalidStateError("the record is still on its way: await it")
        return self._result.error(self._index) if self._result.status == FAILED else None

    def add_done_callback(self, fn: Callable[[Delivery], object], *, context: Context | None = None) -> None:
        """Call ``fn(self)`` on the running loop, soon, once there is an answer; needs a running loop."""
        loop = _loop_here()
        if self.done():
            _call_soon(loop, fn, self, context)
        else:
            self._result.add_callback(self, fn, loop, context)

    def remove_done_callback(self, fn: Callable[[Delivery], object]) -> int:
        """Forget ``fn``; returns how many times it had been added through this very object."""
        return 0 if self.done() else self._result.remove_callback(self, fn)

    def cancel(self, msg: object = None) -> Literal[False]:
        """Always False: an accepted record is not taken back."""
        return False

    def cancelled(self) -> Literal[False]:
        """Always False."""
        return False

    @property
    def topic_partition(self) -> TopicPartition:
        """Where the record goes; known at once."""
        return self._result.topic_partition

    @property
    def timestamp_ms(self) -> int:
        """The record's own time stamp."""
        return self._timestamp_ms

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self._result.status == FAILED else "delivered"
        return f"<Delivery {self._result.topic_partition} {state}>"

    # internals

    def _follow(self) -> None:
        # Shortens the path for good: a batch that is halved again and again does not make look-ups longer.
        result = self._result
        index = self._index
        while result.status == MOVED:
            result, index = result.locate(index)
        self._result = result
        self._index = index


def new_delivery(
    result: ProduceRequestResult, index: int, timestamp_ms: int, key_size: int, value_size: int
) -> Delivery:
    """The delivery of record ``index`` of a batch; sizes are -1 for None."""
    delivery = Delivery.__new__(Delivery)
    delivery._result = result
    delivery._index = index
    delivery._timestamp_ms = timestamp_ms
    delivery._key_size = key_size
    delivery._value_size = value_size
    return delivery


def waiter_for(delivery: Delivery) -> Waiter:
    """What one task awaits until a delivery that has no answer yet has one, whichever it is; see ``waiter.py``."""
    waiter = new_waiter(_loop_here())
    delivery._result.add_waiter(delivery, waiter)
    return waiter


def place_of(delivery: Delivery) -> tuple[ProduceRequestResult, int]:
    """The result that a delivery reads, and the record's index there."""
    return delivery._result, delivery._index


# Not seen by the cyclic collector, see above.
@cython.no_gc
@cython.final
@cython.cclass
class ProduceRequestResult:
    """What became of one batch, told once. ``status`` is PENDING, SUCCEEDED, FAILED or MOVED: its records live on in
    others.
    """

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_counters",
        "_errors",
        "_moves",
        "_partition",
        "_prune_at",
        "_starts",
        "_topic",
        "_waiters",
        "_waiting_deliveries",
        "base_offset",
        "log_append_time_ms",
        "record_count",
        "status",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        # Here, too, for a record's answer asks for them.
        self._topic = topic_partition.topic
        self._partition = topic_partition.partition
        self.status = PENDING
        self.record_count = 0
        # The answer
        self.base_offset = INVALID_OFFSET
        self.log_append_time_ms = -1
        self._errors: BaseException | RecordErrors | None = None
        self._starts: list[int] | None = None
        self._moves: list[tuple[int, ProduceRequestResult, int]] | None = None
        # Who wants to know
        # Waiters stand beside their deliveries in two lists: a tuple for each would be one more object for the cyclic
        # collector to visit, which is what tens of thousands of awaiting tasks spend their time on.
        self._waiting_deliveries: list[Delivery] | None = None
        self._waiters: list[Waiter] | None = None
        self._callbacks: list[tuple[Delivery, Any, Any, Any]] | None = None
        self._prune_at = FIRST_PRUNE
        self._counters: list[SettlementCounter] | None = None

    def succeed(self, base_offset: int, log_append_time_ms: int, teller: OutcomeTeller | None = None) -> None:
        """The broker has the batch; -1 for an offset it did not tell, and for create time.

        Many waiters are told a slice at a time by ``teller``; all at once without one.
        """
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._settle(SUCCEEDED, teller)

    def fail(self, errors: BaseException | RecordErrors, teller: OutcomeTeller | None = None) -> None:
        """The batch failed: one error for all, or a function from a record's index to its error. As ``succeed``."""
        self._errors = errors
        self._settle(FAILED, teller)

    def move(self, moves: Sequence[tuple[int, ProduceRequestResult, int]]) -> None:
        """The records live on elsewhere: (first index, its new result, its index there), ascending from index 0."""
        self._moves = list(moves)
        self._starts = [first for first, _, _ in self._moves]
        self.status = MOVED
        deliveries, waiters, callbacks = self._take_waiters()
        for delivery, waiter in zip(deliveries, waiters, strict=True):
            if delivery.done():
                wake(waiter)
            else:
                delivery._result.add_waiter(delivery, waiter)
        for delivery, fn, loop, context in callbacks:
            if delivery.done():
                _call_soon(loop, fn, delivery, context)
            else:
                delivery._result.add_callback(delivery, fn, loop, context)
        counters, self._counters = self._counters, None
        for counter in counters or ():
            for result in self.successors():
                counter.watch(result)
            counter.count_down()

    def locate(self, index: int) -> tuple[ProduceRequestResult, int]:
        """Where record ``index`` of a moved batch is now."""
        starts, moves = self._starts, self._moves
        if starts is None or moves is None:
            raise asyncio.InvalidStateError(f"the batch of {self.topic_partition} was not moved")
        first, result, index_there = moves[bisect_right(starts, index) - 1]
        return result, index_there + index - first

    def successors(self) -> list[ProduceRequestResult]:
        """The results that a moved batch's records went to, each once, in order."""
        return list({id(result): result for _, result, _ in self._moves or ()}.values())

    @property
    def has_succeeded(self) -> bool:
        """True when the broker has the batch, whole."""
        return self.status == SUCCEEDED

    @property
    def is_moved(self) -> bool:
        """True when the records live on elsewhere, see ``locate``."""
        return self.status == MOVED

    @property
    def is_settled(self) -> bool:
        """True when every record has its answer, wherever it went."""
        if self.status == MOVED:
            return all(result.is_settled for result in self.successors())
        return self.status != PENDING

    def metadata(self, index: int, timestamp_ms: int, key_size: int, value_size: int) -> RecordMetadata:
        """The place of record ``index``; log append time wins over the record's own time stamp."""
        offset = self.base_offset + index if self.base_offset >= 0 else INVALID_OFFSET
        if self.log_append_time_ms >= 0:
            timestamp_ms = self.log_append_time_ms
        return record_metadata(self._topic, self._partition, offset, timestamp_ms, key_size, value_size)

    def error(self, index: int) -> BaseException:
        """A copy of record ``index``'s error for one waiter."""
        return _fresh(self._error_of(index))

    def add_waiter(self, delivery: Delivery, waiter: Waiter) -> None:
        """Wake ``waiter`` when there is an answer."""
        if self._waiters is None or self._waiting_deliveries is None:
            self._waiting_deliveries, self._waiters = [], []
        self._waiting_deliveries.append(delivery)
        self._waiters.append(waiter)
        if len(self._waiters) >= self._prune_at:
            self._prune()

    def add_callback(self, delivery: Delivery, fn: Any, loop: Any, context: Any) -> None:
        """Call ``fn(delivery)`` on ``loop`` when there is an answer."""
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((delivery, fn, loop, context))

    def remove_callback(self, delivery: Delivery, fn: Any) -> int:
        """Forget a callback; returns how many there were."""
        callbacks = self._callbacks or []
        kept = [entry for entry in callbacks if not (entry[0] is delivery and entry[1] == fn)]
        self._callbacks = kept
        return len(callbacks) - len(kept)

    def add_counter(self, counter: SettlementCounter) -> None:
        """Count ``counter`` down when there is an answer; it follows the records when they move."""
        if self._counters is None:
            self._counters = []
        self._counters.append(counter)

    def abandon(self) -> None:
        """There will be no answer: let go of everybody who waits."""
        _, waiters, _ = self._take_waiters()
        for waiter in waiters:
            wake(waiter)
        self._counters = None

    # internals

    def _error_of(self, index: int) -> BaseException:
        errors = self._errors
        if isinstance(errors, BaseException):
            return errors
        if errors is None:
            raise asyncio.InvalidStateError(f"the batch of {self.topic_partition} did not fail")
        return errors(index)

    def _take_waiters(self) -> tuple[Sequence[Any], Sequence[Any], Sequence[Any]]:
        deliveries, self._waiting_deliveries = self._waiting_deliveries, None
        waiters, self._waiters = self._waiters, None
        callbacks, self._callbacks = self._callbacks, None
        return deliveries or (), waiters or (), callbacks or ()

    def _prune(self) -> None:
        """Throw out those who gave up."""
        deliveries, waiters = self._waiting_deliveries or [], self._waiters or []
        kept = [index for index, waiter in enumerate(waiters) if not waiter.done()]
        self._waiting_deliveries = [deliveries[index] for index in kept]
        self._waiters = [waiters[index] for index in kept]
        self._prune_at = max(FIRST_PRUNE, 2 * len(kept))

    def _settle(self, status: int, teller: Any) -> None:
        self.status = status
        if self._waiters is not None or self._callbacks is not None:
            self._tell(status, teller)
        counters, self._counters = self._counters, None
        if counters is not None:
            for counter in counters:
                counter.count_down()

    def _tell(self, status: int, teller: Any) -> None:
        _, waiters, callbacks = self._take_waiters()
        cost = COST_OF_ERROR if status == FAILED else 1
        if teller is None or not waiters or teller.may_tell_now(len(waiters), cost):
            for waiter in waiters:
                wake(waiter)
        else:
            teller.tell_later(map(wake, waiters), cost)
        for delivery, fn, loop, context in callbacks:
            _call_soon(loop, fn, delivery, context)


class SettlementCounter:
    """Calls ``on_settled`` once every result it watches has an answer: what ``flush`` and ``send_many`` wait for."""

    __slots__ = ("on_settled", "remaining")

    def __init__(self, on_settled: Callable[[], object] | None = None) -> None:
        self.remaining = 0
        self.on_settled = on_settled

    def watch(self, result: ProduceRequestResult) -> None:
        """Wait for ``result`` too, wherever its records go."""
        if result.status == MOVED:
            for successor in result.successors():
                self.watch(successor)
        elif result.status == PENDING:
            self.remaining += 1
            result.add_counter(self)

    def count_down(self) -> None:
        """One of the results has its answer."""
        self.remaining -= 1
        if self.remaining == 0 and self.on_settled is not None:
            on_settled, self.on_settled = self.on_settled, None
            on_settled()

    @property
    def is_settled(self) -> bool:
        """True when nothing is being waited for."""
        return self.remaining == 0

    def wait(self) -> Waiter:
        """What one task awaits until the last of the answers, of which one must be missing; it takes ``on_settled``."""
        waiter = new_waiter(_loop_here())
        self.on_settled = partial(wake, waiter)
        return waiter


def _loop_here() -> asyncio.AbstractEventLoop:
    loop = running_loop()
    if loop is None:
        raise RuntimeError("no running event loop")
    return loop


def _call_soon(loop: Any, fn: Any, delivery: Delivery, context: Any) -> None:
    try:
        loop.call_soon(fn, delivery, context=context)
    except RuntimeError:  # the loop is closed
        pass


def _fresh(error: BaseException) -> BaseException:
    if isinstance(error, KafkaError):
        return error.fresh()
    twin = copy.copy(error)
    twin.__cause__ = error.__cause__
    return twin.with_traceback(None)
