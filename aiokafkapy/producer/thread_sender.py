"""``ThreadSender``: sends through a producer from other threads than its loop's.

Owns the line of records that cross to the loop: the loop is woken once, however many are sent before it runs. Kafka's
counterpart is ``KafkaProducer.send`` itself, which any thread may call.

Rules:

- Records of one thread keep their order. They are taken on the loop as ``send`` takes them there, so a wrong argument
  is the record's own error.
- Each record is taken in the context of its own call: interceptors and serializers see that thread's context variables,
  a request's headers for example, and not those of the thread that woke the loop.
- A thread that sends faster than the loop accepts waits in ``send``, as Java's caller does while the buffer is full.
- A future that was not taken yet can be cancelled; from then on the record stays on its way, as everywhere.
- No thread waits for a loop that has ended without closing its producer, and the loop's own thread never waits: a
  callback of one record may send another, but not wait for it.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import math
import threading
import time
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from ..errors import BufferExhaustedError, ProducerClosedError, SerializationError
from .deliveries.delivery import Delivery
from .intake.async_serializers import finish_serializing
from .intake.call_overflow import check_overflow, with_overflow
from .intake.pending_record import GivenRecord, PendingRecord
from .intake.timed_calls import accept_until
from .records import RecordMetadata
from .state import ProducerState

if TYPE_CHECKING:
    from .intake.record_intake import RecordIntake
    from .runtime import ProducerRuntime
    from .state import Lifecycle

__all__ = ["ThreadSender"]

MOST_NOT_ACCEPTED: Final = 1_000
"""Records that cross or wait for room; the next ``send`` waits."""
LOOKS_AGAIN: Final = 1.0
"""Seconds after which a waiting thread checks whether the loop still exists."""


class ThreadSender:
    """Sends to one started producer; any number of threads may share it."""

    def __init__(self, intake: RecordIntake, life: Lifecycle[ProducerRuntime], loop: asyncio.AbstractEventLoop) -> None:
        self._intake = intake
        self._life = life
        self.loop = loop
        self._crossing: deque[_Crossing] = deque()
        self._is_woken = False
        self._room = threading.BoundedSemaphore(MOST_NOT_ACCEPTED)
        self._serializing: set[asyncio.Task[None]] = set()

    def send(
        self,
        given: GivenRecord,
        delivery_timeout_ms: object = None,
        overflow: object = None,
        ends_at: float = math.inf,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """See ``KafkaProducer.send_from_thread``. The record's own time begins when it has crossed; ``ends_at`` is the
        end of the caller's ``deadline()``.
        """
        self._check()
        if _runs_here(self.loop):
            if not self._room.acquire(blocking=False):
                raise BufferExhaustedError(
                    f"{MOST_NOT_ACCEPTED} records of send_from_thread() are not accepted yet, and the producer's own "
                    "event loop cannot wait for them: await send() there"
                )
        else:
            while not self._room.acquire(timeout=LOOKS_AGAIN):
                self._check()
        sent = _Sent(self.loop)
        # A copy for each record: a context can be entered once at a time.
        crossing = _Crossing(contextvars.copy_context(), given, delivery_timeout_ms, overflow, ends_at, sent)
        self._crossing.append(crossing)
        # Set before the loop is woken, and unset there before it reads: records appended by then are seen.
        if not self._is_woken:
            self._is_woken = True
            try:
                self.loop.call_soon_threadsafe(self.take)
            except RuntimeError:
                if not sent.running() and not sent.done():  # close() may have taken it before
                    self._check()
                    raise _loop_has_ended() from None
        return sent

    # on the loop

    def take(self) -> None:
        """Accept the records that have crossed, in order. Also before a flush or the end, because the thread that
        has set ``_is_woken`` may not have woken the loop yet.
        """
        self._is_woken = False
        crossing = self._crossing
        try:
            for _ in range(len(crossing)):
                record = crossing.popleft()
                record.context.run(self._take_one, record)
        finally:
            if crossing:  # or a callback of a future has raised SystemExit, which a LoopThread outlives
                self.loop.call_soon(self.take)

    # internals, on the caller's thread

    def _check(self) -> None:
        if self._life.state is not ProducerState.RUNNING:
            raise self._life.why_unusable()
        if self.loop.is_closed():
            raise _loop_has_ended()

    # internals, on the loop

    def _take_one(self, crossing: _Crossing) -> None:
        _, given, delivery_timeout_ms, overflow, ends_at, sent = crossing
        if not sent.set_running_or_notify_cancel():
            self._room.release()
            return
        intake = self._intake
        try:
            if overflow is not None:
                check_overflow(intake.accepting_runtime().config, given.topic, overflow)
            accepted = with_overflow(accept_until(intake, given, delivery_timeout_ms, ends_at), overflow)
        except BaseException as error:
            self._room.release()
            sent.set_exception(error)
            return
        if type(accepted) is Delivery:
            self._room.release()
            accepted.add_done_callback(sent.tell)
        else:
            self._admit(cast(PendingRecord, accepted), sent)

    def _admit(self, record: PendingRecord, sent: _Sent) -> None:
        # In this step, because the next record may find that it need not wait.
        record.admission.enter(record, self.loop.time())
        record.add_done_callback(partial(self._on_admitted, sent))
        if not record.is_serialized:
            task = self.loop.create_task(_serialized(record))
            self._serializing.add(task)
            task.add_done_callback(self._serializing.discard)

    def _on_admitted(self, sent: _Sent, record: asyncio.Future[Delivery]) -> None:
        self._room.release()
        if record.cancelled():
            sent.set_exception(asyncio.CancelledError())
        elif (error := record.exception()) is not None:
            sent.set_exception(error)
        else:
            record.result().add_done_callback(sent.tell)


async def _serialized(record: PendingRecord) -> None:
    with contextlib.suppress(SerializationError):  # the record has it
        await finish_serializing(record)


class _Crossing(NamedTuple):
    """A record that crosses to the loop, with the options of its call."""

    context: contextvars.Context
    given: GivenRecord
    delivery_timeout_ms: object
    overflow: object
    ends_at: float
    sent: _Sent


class _Sent(concurrent.futures.Future[RecordMetadata]):
    """The outcome of a record, for the thread that has sent it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop

    def tell(self, delivery: Delivery) -> None:
        """The record has its outcome. On the loop."""
        error = delivery.exception()
        if error is None:
            self.set_result(delivery.result())
        else:
            self.set_exception(error)

    def result(self, timeout: float | None = None) -> RecordMetadata:
        """Wait for the outcome, ``timeout`` seconds at most; raises TimeoutError, and the record's error."""
        self._wait(timeout)
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Wait for the outcome, ``timeout`` seconds at most; raises TimeoutError, and returns the record's error."""
        self._wait(timeout)
        return super().exception(0)

    def _wait(self, timeout: float | None) -> None:
        if not self.done() and _runs_here(self._loop):
            raise RuntimeError(
                "result() on the producer's own event loop would block it forever: use add_done_callback(), or "
                "await asyncio.wrap_future(future)"
            )
        deadline = None if timeout is None else time.monotonic() + timeout
        while not self.done():
            if self._loop.is_closed():
                with contextlib.suppress(concurrent.futures.InvalidStateError):  # another thread has seen it, too
                    self.set_exception(_loop_has_ended())
                return
            left = LOOKS_AGAIN if deadline is None else min(LOOKS_AGAIN, deadline - time.monotonic())
            if left <= 0:
                return
            concurrent.futures.wait([self], left)


def _runs_here(loop: asyncio.AbstractEventLoop) -> bool:
    return asyncio._get_running_loop() is loop


def _loop_has_ended() -> ProducerClosedError:
    return ProducerClosedError("the producer's event loop has ended, and the producer was not closed before")
