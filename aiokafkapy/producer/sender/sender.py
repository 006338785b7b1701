"""``Sender``: turns ready batches into Produce requests, pass by pass.

Owns the task, the passes, their timer, and the threads that compress. ``produce_requests`` makes the requests and takes
their answers; the network client has the bytes. Kafka's counterpart has the same name.

Rules:

- ``run_once(now)``, a pass, does all that can be done at ``now`` and returns the seconds until there is more to do by
  the clock; any other event that gives it work calls ``wakeup``. No code runs while there is no work.
- A pass is a plain callback of the loop, in the turn after the wake-up: a lone awaited send pays for each pass alone,
  and a task's step with its future would add a tenth. The task begins with the first pass and then waits for the last
  one, so that the Sender has an owner, which sees it end and may cancel it.
- No bad answer ends the task. If it must end, by a bug or because it was cancelled, ``on_crash`` gets the cause, and
  fails all pending records.

Events: ``sender.crashed`` (error; error), ``producer_id.bumped`` (info; epoch).
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from contextvars import Context, copy_context
from functools import partial
from typing import TYPE_CHECKING, Final

from ...client.nodes.sender_client import SenderClient
from ...observability import get_logger
from ..accumulator.producer_batch import ProducerBatch
from ..accumulator.record_accumulator import RecordAccumulator
from ..identity.transaction_manager import TransactionManager
from ..metrics import SenderMetrics
from ..producer_metadata import ProducerMetadata
from .in_flight_batches import InFlightBatches
from .produce_requests import ProduceRequests
from .producer_id import ProducerIdRequests

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from ..config import ProducerConfig

__all__ = ["Sender"]

COMPRESSION_THREADS: Final = 2
COMPRESSED_WITHIN: Final = 0.1
"""Seconds that a compression thread has to finish, once no task waits for its batch."""
NEVER: Final = math.inf

_logger = get_logger(__name__)


class Sender:
    """The background task of one producer. ``on_crash`` gets the error that ended it, unless it was stopped."""

    def __init__(
        self,
        config: ProducerConfig,
        client: SenderClient,
        metadata: ProducerMetadata,
        accumulator: RecordAccumulator,
        transaction_manager: TransactionManager | None,
        metrics: SenderMetrics,
        *,
        loop: asyncio.AbstractEventLoop,
        on_crash: Callable[[BaseException], None],
    ) -> None:
        self._accumulator = accumulator
        self._transaction_manager = transaction_manager
        self._metrics = metrics
        self._loop = loop
        self._time = loop.time
        self._on_crash = on_crash
        # Requests
        self.in_flight_batches = InFlightBatches(config, metadata, accumulator, transaction_manager, metrics)
        self._requests = ProduceRequests(
            config, client, metadata, accumulator, self.in_flight_batches, metrics,
            transaction=None if transaction_manager is None else transaction_manager.transaction,
            clock=loop.time, compress=self._start_compression, wakeup=self.wakeup,
        )  # fmt: skip
        self._producer_id_requests: ProducerIdRequests | None = None
        if transaction_manager is not None:
            self._producer_id_requests = ProducerIdRequests(
                client, metadata, accumulator, transaction_manager, clock=loop.time, wakeup=self.wakeup
            )
        # The passes; the first needs no wake-up, and none runs before it
        self._is_stopped = False
        self._is_woken = True
        self._woken_at = 0.0
        self._wakeup_callback = self._on_wakeup  # made once, for every pass is called through it
        self._last_pass: asyncio.Future[None] | None = None
        self._bug: BaseException | None = None
        self._context: Context | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._due = NEVER
        self._executor: Executor | None = None
        self._compressions: set[asyncio.Future[None]] = set()

    # the task

    async def run(self) -> None:
        """The task's body: until ``stop()``. Being cancelled counts as a crash."""
        try:
            if not self._is_stopped:
                self._last_pass = self._loop.create_future()
                self._context = copy_context()
                self._pass(self._loop.time())
                await self._last_pass
                bug, self._bug = self._bug, None  # its traceback leads back here
                if bug is not None:
                    raise bug
        except BaseException as cause:
            if self._is_stopped:
                return
            if not isinstance(cause, asyncio.CancelledError):
                _logger.error("sender.crashed", error=repr(cause), exc_info=cause)
            self._on_crash(cause)
            raise
        finally:
            self._release()

    def wakeup(self) -> None:
        """There may be something to do: run soon. Cheap; to be called on the loop."""
        if self._is_woken:
            return
        self._is_woken = True
        self._woken_at = self._time()
        # In the task's context: the context variables of the caller's task do not concern the Sender.
        self._loop.call_soon(self._wakeup_callback, context=self._context)

    def stop(self) -> None:
        """End the task soon, without failing anything."""
        self._is_stopped = self._is_woken = True
        self._end()

    def run_once(self, now: float) -> float:
        """Do the work that is due; returns the seconds until the clock gives more to do (infinity: nothing will)."""
        self._metrics.wake_ups += 1
        manager = self._transaction_manager
        delay = NEVER
        if manager is not None and manager.wants_attention():
            delay = self._tend_identity(manager, now)  # first: a bumped epoch lets batches go
        return min(delay, self.send_producer_data(now))

    def _tend_identity(self, manager: TransactionManager, now: float) -> float:
        """Settle sequences, bump the epoch, request a producer id, whichever is due. Returns as ``run_once``."""
        is_on_the_wire = self.in_flight_batches.partitions().__contains__
        manager.maybe_resolve_sequences(is_on_the_wire)
        if manager.bump_epoch_if_needed(is_on_the_wire):
            self._metrics.epoch_bumps += 1
            _logger.info("producer_id.bumped", epoch=manager.producer_id_and_epoch.epoch)
        return NEVER if self._producer_id_requests is None else self._producer_id_requests.maybe_send(now)

    async def settled(self) -> None:
        """Return when all compression threads have ended, or after ``COMPRESSED_WITHIN``; to be called at the end."""
        if self._compressions:
            await asyncio.wait(set(self._compressions), timeout=COMPRESSED_WITHIN)
            await asyncio.sleep(0)  # their callbacks

    # produce requests

    def send_producer_data(self, now: float) -> float:
        """Send ready batches to ready nodes; expire batches that are too old. Returns as ``run_once``."""
        return self._requests.send_ready(now)

    def in_flight_limits(self) -> dict[int, int]:
        """The limit of Produce requests of each node, if that adapts; else empty."""
        return self._requests.in_flight_limits()

    # compression in threads

    def _start_compression(self, batch: ProducerBatch) -> None:
        if self._executor is None:
            from concurrent.futures import ThreadPoolExecutor  # its threads' queues are imported, too

            self._executor = ThreadPoolExecutor(COMPRESSION_THREADS, thread_name_prefix="aiokafkapy-compress")
        try:
            future = self._loop.run_in_executor(self._executor, batch.compress)
        except RuntimeError:  # the interpreter ends, and starts no thread any more
            future = self._loop.create_future()
            try:
                batch.compress()
                future.set_result(None)
            except Exception as error:
                future.set_exception(error)
        self._compressions.add(future)
        future.add_done_callback(partial(self._on_compressed, batch))

    # asyncio callbacks

    def _on_wakeup(self) -> None:
        if self._is_stopped:
            return
        now = self._time()
        self._metrics.record_wake_up(now - self._woken_at, now)
        try:
            self._pass(now)
        except BaseException as bug:
            self._bug = bug
            self._is_woken = True  # no more passes
            self._end()
            if not isinstance(bug, Exception):
                raise  # the loop has to see it

    def _on_compressed(self, batch: ProducerBatch, future: asyncio.Future[None]) -> None:
        self._compressions.discard(future)
        error = None if future.cancelled() else future.exception()
        now = self._loop.time()
        if error is not None:
            self.in_flight_batches.fail(batch, error, now)
        self._accumulator.compressed(batch)

    def _on_timer(self) -> None:
        self._timer = None
        if self._due <= self._loop.time():
            self.wakeup()
        else:
            self._wake_at(self._due)

    # internals

    def _pass(self, now: float) -> None:
        """One pass, and the call of the next."""
        self._is_woken = False
        delay = self.run_once(now)
        if delay <= 0:
            self.wakeup()
        elif not self._is_woken:
            self._wake_at(now + delay)

    def _end(self) -> None:
        """Let the task finish."""
        last_pass = self._last_pass
        if last_pass is not None and not last_pass.done():
            last_pass.set_result(None)

    def _wake_at(self, due: float) -> None:
        """Set the timer that wakes the Sender. An earlier timer is left alone: it sets itself again."""
        self._due = due
        timer = self._timer
        if timer is not None and self._timer_at > due:
            timer.cancel()
            timer = None
        if timer is None and due < NEVER:
            self._timer = self._loop.call_at(due, self._on_timer)
            # Not timer.when(): below a millisecond uvloop gives a Handle, which has no such method.
            self._timer_at = due

    def _release(self) -> None:
        """Leave nothing behind."""
        self._is_stopped = self._is_woken = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._executor is not None:
            self._executor.shutdown(wait=False, cancel_futures=True)
            self._executor = None
