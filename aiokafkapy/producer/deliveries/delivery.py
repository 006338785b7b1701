"""``Delivery``: the light awaitable that ``send_nowait`` and ``enqueue`` return, for the outcome of one record.

Owns a record's place in its batch, and its sizes. The outcome is the batch's: every delivery of the batch reads it from
the same ``ProduceRequestResult`` and keeps that alive, never the batch's bytes. It knows no event loop: a task that
awaits it waits through the port of ``waiting.py``. Kafka's counterpart is ``FutureRecordMetadata``.

Rules:

- Nothing to wait on is made unless a task awaits before the outcome is there; then each task gets a waiter of its own,
  so that cancelling one harms neither the others nor the record. ``cancel()`` never cancels a record.
- A waiter only wakes; the metadata is made when its task looks. A thousand made at once, and kept until each task had
  its turn, would be a thousand objects more for the cyclic collector to visit.
- A batch that is split, or loses records (KIP-467), says where each record went; deliveries follow when they look.
- Compiled, deliveries are invisible to the cyclic collector, which makes a million of them cheap; the docstring of
  ``produce_request_result`` says why that is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from ... import _form as cython
    from .waiting import Awaiter
else:
    try:
        import cython
    except ImportError:  # interpreted, where there is no Cython
        from ... import _form as cython

from ...common import TopicPartition
from ..records import RecordMetadata
from .produce_request_result import ProduceRequestResult, call_soon
from .returned import outcome_after, returned
from .status import FAILED, MOVED, PENDING, SUCCEEDED
from .waiting import waiting

__all__ = ["Delivery", "new_delivery", "place_of", "waiter_for"]


# Here and not in the .pxd, for Cython takes these two from the source only.
@cython.freelist(4096)
@cython.no_gc
@cython.final
@cython.cclass
class Delivery:
    """The outcome of one accepted record: await it, or ask ``done()``, ``result()``, ``exception()``.

    Works with ``asyncio.gather``, ``wait``, ``wait_for``, ``shield``, ``ensure_future`` and ``as_completed``.
    Cancelling a task that awaits it stops the waiting only: the record stays on its way. Await it on its producer's
    event loop: before there is an outcome, WrongEventLoopError is raised on another.
    """

    __slots__ = ("_index", "_key_size", "_result", "_timestamp_ms", "value_size")

    _result: ProduceRequestResult
    _index: int
    _timestamp_ms: int
    _key_size: int
    value_size: int

    def __await__(self) -> Generator[Any, None, RecordMetadata]:
        status = self._result.status
        if status == SUCCEEDED:
            return returned(self._metadata())
        if status != PENDING and self.done():
            return self._settled()
        return outcome_after(waiter_for(self), self)

    def done(self) -> bool:
        """True once the record is delivered or has failed."""
        if self._result.status == MOVED:
            self._follow()
        return self._result.status != PENDING

    def result(self) -> RecordMetadata:
        """The record's metadata; raises the record's error, or ``asyncio.InvalidStateError`` without an outcome."""
        if self._result.status != SUCCEEDED:  # asked first, for nearly all come to it
            if not self.done():
                raise waiting().no_outcome_error()
            if self._result.status == FAILED:
                raise self._result.error(self._index)
        return self._metadata()

    def exception(self) -> BaseException | None:
        """The record's error, None when it was delivered; raises ``asyncio.InvalidStateError`` without an outcome."""
        if not self.done():
            raise waiting().no_outcome_error()
        return self._result.error(self._index) if self._result.status == FAILED else None

    def add_done_callback(self, fn: Callable[[Delivery], object], *, context: Context | None = None) -> None:
        """Call ``fn(self)`` on the running loop, the producer's, soon, once there is an outcome; in ``context``, by
        default a copy of the caller's.

        Raises RuntimeError if no event loop runs, and WrongEventLoopError on another loop than the producer's while
        there is no outcome. An exception of ``fn`` goes to the loop's exception handler.
        """
        loop = waiting().running_loop()
        if context is None:
            context = copy_context()  # or it would be the context of the answer
        if self.done():
            call_soon(loop, fn, self, context)
        else:
            self._result.check_loop(loop)
            self._result.add_callback(self._index, self, fn, loop, context)

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
        """The record's topic and partition; known at once."""
        return self._result.topic_partition

    @property
    def timestamp_ms(self) -> int:
        """The record's own timestamp."""
        return self._timestamp_ms

    def __repr__(self) -> str:
        state = "pending" if not self.done() else "failed" if self._result.status == FAILED else "delivered"
        return f"<Delivery {self._result.topic_partition} {state}>"

    # internals

    def _settled(self) -> Generator[Any, None, RecordMetadata]:
        return self.result()
        yield  # type: ignore[unreachable]  # makes it a generator

    def _metadata(self) -> RecordMetadata:
        return self._result.metadata(self._index, self._timestamp_ms, self._key_size, self.value_size)

    def _follow(self) -> None:
        # Shortens the path for good: a batch that is halved again and again does not make look-ups longer.
        self._result, self._index = self._result.follow(self._index)


def new_delivery(
    result: ProduceRequestResult, index: int, timestamp_ms: int, key_size: int, value_size: int
) -> Delivery:
    """The delivery of record ``index`` of a batch; sizes are -1 for None."""
    delivery = Delivery.__new__(Delivery)
    delivery._result = result
    delivery._index = index
    delivery._timestamp_ms = timestamp_ms
    delivery._key_size = key_size
    delivery.value_size = value_size
    return delivery


def waiter_for(delivery: Delivery) -> Awaiter:
    """An awaitable for the running task, until any delivery without an outcome has one."""
    port = waiting()
    loop = port.running_loop()
    result = delivery._result
    if result._loop_id != id(loop):  # rarely: it saves a call
        result.check_loop(loop)
    waiter = port.new_waiter(loop)
    result.add_waiter(delivery._index, waiter)
    return waiter


def place_of(delivery: Delivery) -> tuple[ProduceRequestResult, int]:
    """The result that a delivery reads, and the record's index there."""
    return delivery._result, delivery._index
