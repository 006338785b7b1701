"""``ProduceRequestResult``: the outcome of one batch, told once and read by all its deliveries.

Owns the outcome of a batch's records, and its waiters: tasks, callbacks, counters. It knows neither bytes nor
brokers, and no event loop: tasks are woken through the port of ``waiting.py``. Kafka's counterpart has the same name;
``SettlementCounter`` has the place of Java's ``ProduceRequestResult.await`` in ``flush``.

Rules:

- Each reader of an error gets a copy of its own, so that tracebacks do not grow into each other.
- Callbacks run on the loop they were added on, by ``call_soon``; a closed loop is passed over.
- A batch belongs to the loop that it was begun on: waiting for its records on another one is refused. The
  producer's own calls refuse another loop themselves and skip this check.
- The records of a batch that is split, or loses some (KIP-467), move to other results, and their waiters move along.
- Compiled, results and deliveries are invisible to the cyclic collector. A lasting cycle could form only through the
  waiters: a waiter holds its task, which may hold the delivery. So all are released with the outcome, or by
  ``abandon()`` when the producer is thrown away without one. Nothing else refers back: errors are kept and raised as
  copies, causes too, so no kept error refers to a traceback, whose frames may hold deliveries.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from ... import _form as cython
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import TopicPartition
from ...errors import IllegalStateError, WrongEventLoopError
from ..records import INVALID_OFFSET, RecordMetadata
from .kept_errors import fresh_error, kept_error
from .record_metadata import record_metadata
from .record_timing import MetadataMaker
from .status import FAILED, MOVED, PENDING, SUCCEEDED
from .waiting import waiting

if TYPE_CHECKING:
    from contextvars import Context

    from .waiting import Awaiter, CallsSoon

    Callback = tuple[int, object, Callable[[Any], object], CallsSoon, Context]
    """A record's index, its delivery, the function to call with it, the loop and the context of the call."""

__all__ = [
    "COST_OF_ERROR",
    "Job",
    "Move",
    "ProduceRequestResult",
    "SettlementCounter",
    "Teller",
    "call_soon",
    "new_result",
]

COST_OF_ERROR: Final = 4
"""The number of results that take the time of one error: each task gets its own copy of an error."""
FIRST_PRUNE: Final = 1024
"""Waiters whose tasks were cancelled are thrown out when this many have gathered, and then at each doubling."""

RecordErrors = Callable[[int], BaseException]
Job = Callable[[int], int]
"""Tells as many tasks as it is given, or all that are left; returns their number."""


class Move(NamedTuple):
    """The records from ``first`` on, up to the next move's, live on as those of ``result``, from ``index_there`` on."""

    first: int
    result: ProduceRequestResult
    index_there: int


class Teller:
    """Spreads the waking of many tasks over turns of the loop: ``OutcomeTeller``. This one spreads nothing."""

    __slots__ = ()

    def may_tell_now(self, count: int, cost: int = 1) -> bool:
        """True when ``count`` tasks may be woken here and now."""
        return True

    def tell_later(self, job: Job, cost: int = 1) -> None:
        """Have ``job`` tell its tasks, some at each of the coming turns of the loop."""
        while job(1):
            pass


# Not seen by the cyclic collector, see above. Said here and not in the .pxd, for Cython takes it from the source only.
@cython.freelist(64)
@cython.no_gc
@cython.final
@cython.cclass
class ProduceRequestResult:
    """The outcome of one batch. ``status`` is PENDING, SUCCEEDED, FAILED, or MOVED: its records live on in others."""

    __slots__ = (
        "__weakref__",
        "_callbacks",
        "_counters",
        "_errors",
        "_loop_id",
        "_moves",
        "_partition",
        "_prune_at",
        "_starts",
        "_topic",
        "_waiters",
        "_waiting_indexes",
        "base_offset",
        "log_append_time_ms",
        "record_count",
        "status",
        "timing",
        "topic_partition",
    )

    def __init__(self, topic_partition: TopicPartition) -> None:
        self._begin(topic_partition)

    def _begin(self, topic_partition: TopicPartition) -> None:
        self.topic_partition = topic_partition
        # Here, too, because a record's metadata asks for them.
        self._topic = topic_partition.topic
        self._partition = topic_partition.partition
        self.status = PENDING
        self.record_count = 0
        # The outcome
        self.base_offset = INVALID_OFFSET
        self.log_append_time_ms = -1
        self._errors: BaseException | RecordErrors | None = None
        self._starts: list[int] | None = None
        self._moves: list[Move] | None = None
        self.timing: MetadataMaker | None = None
        # The id of the loop that the batch belongs to, 0 without one: no task of another loop may wait for it. A
        # reference to the loop would keep it for ever if it is thrown away before the outcome.
        loop = waiting().loop_here()
        self._loop_id = 0 if loop is None else id(loop)
        # Its waiters. They stand beside the indexes of their records in two lists: a tuple for each would be one more
        # object for the cyclic collector to visit, and with tens of thousands of awaiting tasks most of the time goes
        # to its visits. There are no indexes as long as each waiter's is its place in the list, as with records that
        # are awaited one after the other.
        self._waiters: list[Awaiter] | None = None
        self._waiting_indexes: list[int] | None = None
        self._callbacks: list[Callback] | None = None
        self._prune_at = FIRST_PRUNE
        self._counters: list[SettlementCounter] | None = None

    # settling

    def succeed(self, base_offset: int, log_append_time_ms: int, teller: Teller | None = None) -> None:
        """The broker has the batch; -1 for an offset it did not tell, and for create time.

        Many tasks are woken a slice at a time by ``teller``; all at once without one.
        """
        self.base_offset = base_offset
        self.log_append_time_ms = log_append_time_ms
        self._settle(SUCCEEDED, teller)

    def fail(self, errors: BaseException | RecordErrors, teller: Teller | None = None) -> None:
        """The batch failed: one error for all, or a function from a record's index to its error. As ``succeed``."""
        self._errors = kept_error(errors) if isinstance(errors, BaseException) else errors
        self._settle(FAILED, teller)

    def move(self, moves: Sequence[Move]) -> None:
        """The records live on elsewhere; ``moves`` ascend from index 0."""
        self._moves = list(moves)
        self._starts = [move.first for move in self._moves]
        self.status = MOVED
        waiters, callbacks = self._waiters or [], self._callbacks
        indexes = self._indexes_of(waiters)
        self._waiting_indexes = self._waiters = self._callbacks = None
        for index, waiter in zip(indexes, waiters, strict=True):
            result, index_there = self.follow(index)
            if result.status == PENDING:
                result.add_waiter(index_there, waiter)
            else:
                waiting().wake(waiter)
        for index, delivery, fn, loop, context in callbacks or ():
            result, index_there = self.follow(index)
            if result.status == PENDING:
                result.add_callback(index_there, delivery, fn, loop, context)
            else:
                call_soon(loop, fn, delivery, context)
        counters, self._counters = self._counters, None
        for counter in counters or ():
            for result in self.successors():
                counter.watch(result)
            counter.count_down()

    def move_all_but(self, indexes: Sequence[int], told: ProduceRequestResult, rest: ProduceRequestResult) -> None:
        """The records live on as those of ``rest``, each at its own index; those of ``indexes``, ascending, as those of
        ``told``, which gets its outcome next.

        The waiters go as they are: of thousands of records, each may leave by itself.
        """
        moves: list[Move] = []
        position = 0
        for index_there, index in enumerate(indexes):
            if position < index:
                moves.append(Move(position, rest, position))
            moves.append(Move(index, told, index_there))
            position = index + 1
        moves.append(Move(position, rest, position))  # behind the last record, too, for the sake of flushes
        self._moves, self._starts = moves, [move.first for move in moves]
        self.status = MOVED
        waiters, all_indexes, callbacks = self._waiters, self._waiting_indexes, self._callbacks
        rest._waiters, rest._waiting_indexes, rest._prune_at = waiters, all_indexes, self._prune_at
        rest._counters = self._counters
        self._waiters = self._waiting_indexes = self._callbacks = self._counters = None
        told_index = {index: index_there for index_there, index in enumerate(indexes)}
        if waiters is not None and all_indexes is None:
            for index, index_there in told_index.items():
                if index < len(waiters):
                    told.add_waiter(index_there, waiters[index])
        elif waiters is not None:
            for index, waiter in zip(all_indexes or (), waiters, strict=True):
                if index in told_index:
                    told.add_waiter(told_index[index], waiter)
        for index, delivery, fn, loop, context in callbacks or ():
            result, there = (told, told_index[index]) if index in told_index else (rest, index)
            result.add_callback(there, delivery, fn, loop, context)

    def abandon(self) -> None:
        """There will be no outcome: wake the tasks, and release all waiters."""
        waiters, self._waiters = self._waiters, None
        self._waiting_indexes = self._callbacks = self._counters = None
        waiting().wake_all(waiters or [])

    # reading

    @property
    def has_succeeded(self) -> bool:
        """True when the broker has the batch, whole."""
        return self.status == SUCCEEDED

    @property
    def is_moved(self) -> bool:
        """True when the records live on elsewhere, see ``follow``."""
        return self.status == MOVED

    @property
    def is_settled(self) -> bool:
        """True when every record has its outcome, wherever it went."""
        if self.status == MOVED:
            return all(result.status != PENDING for result in self.unmoved())
        return self.status != PENDING

    def metadata(self, index: int, timestamp_ms: int, key_size: int, value_size: int) -> RecordMetadata:
        """The place of record ``index``; log append time wins over the record's own timestamp."""
        offset = self.base_offset + index if self.base_offset >= 0 else INVALID_OFFSET
        if self.log_append_time_ms >= 0:
            timestamp_ms = self.log_append_time_ms
        if self.timing is not None:
            return self.timing.metadata(self._topic, self._partition, offset, timestamp_ms, key_size, value_size)
        return record_metadata(self._topic, self._partition, offset, timestamp_ms, key_size, value_size)

    def error(self, index: int) -> BaseException:
        """A copy of record ``index``'s error, for one reader."""
        return fresh_error(self._error_of(index))

    def follow(self, index: int) -> tuple[ProduceRequestResult, int]:
        """The current place of record ``index``: the result that has not moved, and the record's index there."""
        result = self
        while result.status == MOVED:
            result, index = result.locate(index)
        return result, index

    def locate(self, index: int) -> tuple[ProduceRequestResult, int]:
        """The place that record ``index`` of a moved batch went to; it may have moved on from there."""
        starts, moves = self._starts, self._moves
        if starts is None or moves is None:
            raise IllegalStateError(f"the batch of {self.topic_partition} was not moved")
        first, result, index_there = moves[bisect_right(starts, index) - 1]
        return result, index_there + index - first

    def successors(self) -> list[ProduceRequestResult]:
        """The results that a moved batch's records went to, each once, in order."""
        return list({id(result): result for _, result, _ in self._moves or ()}.values())

    def unmoved(self) -> list[ProduceRequestResult]:
        """The results at which a moved batch's records are by now: they may have moved on a thousand times."""
        found: dict[int, ProduceRequestResult] = {}
        left = [self]
        while left:
            result = left.pop()
            if id(result) not in found:
                found[id(result)] = result
                left += result.successors()
        return [result for result in found.values() if result.status != MOVED]

    # waiting

    def check_loop(self, loop: object) -> None:
        """Raise WrongEventLoopError if ``loop``, which is running, is not the batch's own. A waiter on another loop
        would never be woken, and these lists are not thread-safe.
        """
        if self._loop_id and self._loop_id != id(loop):
            raise WrongEventLoopError(
                f"a record of {self.topic_partition} is awaited on another event loop than its producer's: await it "
                "there, or send it by send_from_thread()"
            )

    def add_waiter(self, index: int, waiter: Awaiter) -> None:
        """Wake the task of ``waiter`` when record ``index`` has its outcome."""
        waiters = self._waiters
        if waiters is None:
            waiters = self._waiters = []
        if self._waiting_indexes is not None:
            self._waiting_indexes.append(index)
        elif index != len(waiters):
            self._waiting_indexes = [*range(len(waiters)), index]
        waiters.append(waiter)
        if len(waiters) >= self._prune_at:
            self._prune(waiters)

    def add_callback(
        self, index: int, delivery: object, fn: Callable[[Any], object], loop: CallsSoon, context: Context
    ) -> None:
        """Call ``fn(delivery)`` on ``loop`` when record ``index``, which is the delivery's, has its outcome."""
        if self._callbacks is None:
            self._callbacks = []
        self._callbacks.append((index, delivery, fn, loop, context))

    def remove_callback(self, delivery: object, fn: Callable[[Any], object]) -> int:
        """Forget a callback; returns how many there were."""
        callbacks = self._callbacks or []
        kept = [entry for entry in callbacks if not (entry[1] is delivery and entry[2] == fn)]
        self._callbacks = kept
        return len(callbacks) - len(kept)

    def add_counter(self, counter: SettlementCounter) -> None:
        """Count ``counter`` down when there is an outcome; it follows the records when they move."""
        if self._counters is None:
            self._counters = []
        self._counters.append(counter)

    # internals

    def _error_of(self, index: int) -> BaseException:
        errors = self._errors
        if isinstance(errors, BaseException):
            return errors
        if errors is None:
            raise IllegalStateError(f"the batch of {self.topic_partition} did not fail")
        return errors(index)

    def _indexes_of(self, waiters: Sequence[Awaiter]) -> Sequence[int]:
        return range(len(waiters)) if self._waiting_indexes is None else self._waiting_indexes

    def _prune(self, waiters: list[Awaiter]) -> None:
        """Throw out the waiters of cancelled tasks."""
        indexes = self._indexes_of(waiters)
        kept = [position for position, waiter in enumerate(waiters) if not waiter.done()]
        self._waiting_indexes = [indexes[position] for position in kept]
        self._waiters = [waiters[position] for position in kept]
        self._prune_at = max(FIRST_PRUNE, 2 * len(kept))

    def _settle(self, status: int, teller: Teller | None) -> None:
        self.status = status
        if self._waiters is not None:
            self._wake(COST_OF_ERROR if status == FAILED else 1, teller)
        if self._callbacks is not None:
            callbacks, self._callbacks = self._callbacks, None
            for _, delivery, fn, loop, context in callbacks:
                call_soon(loop, fn, delivery, context)
        if self._counters is not None:
            counters, self._counters = self._counters, None
            for counter in counters:
                counter.count_down()

    def _wake(self, cost: int, teller: Teller | None) -> None:
        waiters = self._waiters or []
        self._waiters = self._waiting_indexes = None
        if teller is None or not waiters or teller.may_tell_now(len(waiters), cost):
            waiting().wake_all(waiters)
        else:
            teller.tell_later(partial(_wake_some, iter(waiters)), cost)


class SettlementCounter:
    """Calls ``on_settled`` once every result it watches has an outcome: ``flush`` and ``send_many`` wait for that."""

    __slots__ = ("on_settled", "remaining")

    def __init__(self) -> None:
        self.remaining = 0
        self.on_settled: Callable[[], object] | None = None

    def watch(self, result: ProduceRequestResult) -> None:
        """Wait for ``result`` too, wherever its records go."""
        for unmoved in result.unmoved() if result.status == MOVED else (result,):
            if unmoved.status == PENDING:
                self.remaining += 1
                unmoved.add_counter(self)

    def count_down(self) -> None:
        """One of the results has its outcome."""
        self.remaining -= 1
        if self.remaining == 0 and self.on_settled is not None:
            on_settled, self.on_settled = self.on_settled, None
            on_settled()

    @property
    def is_settled(self) -> bool:
        """True when nothing is being waited for."""
        return self.remaining == 0

    def wait(self) -> Awaiter:
        """The waiter of the running task, woken by the last of the outcomes; at least one must be missing. It takes
        ``on_settled``.
        """
        port = waiting()
        waiter = port.new_waiter(port.running_loop())
        self.on_settled = partial(_wake, waiter)
        return waiter


def new_result(topic_partition: TopicPartition) -> ProduceRequestResult:
    """The result of a new batch, made without the constructor, which is a Python call."""
    result = ProduceRequestResult.__new__(ProduceRequestResult)
    result._begin(topic_partition)
    return result


def call_soon(loop: CallsSoon, fn: Callable[[Any], object], delivery: object, context: Context) -> None:
    """Call ``fn(delivery)`` at the next turn of ``loop``, unless it is closed."""
    try:
        loop.call_soon(fn, delivery, context=context)
    except RuntimeError:  # the loop is closed
        pass


def _wake(waiter: Awaiter) -> None:
    waiting().wake(waiter)


def _wake_some(waiters: Iterator[Awaiter], count: int) -> int:
    woken = list(islice(waiters, count))
    waiting().wake_all(woken)
    return len(woken)
