"""The timer that aborts transactions which are over their time.

Owns one timer, set to the first deadline; ``transaction_coordinator`` decides. Kafka's counterpart is the task
``transaction-abort`` of ``TransactionCoordinator``, which looks every ten seconds.
"""

from __future__ import annotations

from typing import Final

from ...errors import KafkaError
from ...observability import get_logger
from ..scheduler import Scheduler, TimerHandle
from .transaction_coordinator import TransactionCoordinator

__all__ = ["TransactionExpiry"]

logger = get_logger()

RETRY_AFTER: Final = 1.0
"""Seconds until the next try when the disk does not take the abort."""


class TransactionExpiry:
    """Runs from its creation until ``close``."""

    __slots__ = ("_coordinator", "_due", "_scheduler", "_timer")

    def __init__(self, coordinator: TransactionCoordinator, scheduler: Scheduler) -> None:
        self._coordinator = coordinator
        self._scheduler = scheduler
        self._due: float | None = None
        self._timer: TimerHandle | None = None
        coordinator.on_deadline = self.watch
        deadline = coordinator.next_deadline()
        if deadline is not None:
            self.watch(deadline)

    def watch(self, deadline: float) -> None:
        """Look at the transactions at this time, or before."""
        if self._due is None or deadline < self._due:
            self.close()
            self._due = deadline
            self._timer = self._scheduler.call_at(deadline, self._on_due)

    def close(self) -> None:
        """Stop the timer; idempotent."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._due = None

    # asyncio callbacks

    def _on_due(self) -> None:
        now = self._scheduler.time()
        self._timer = self._due = None
        deadline: float | None
        try:
            self._coordinator.expire(now)
            deadline = self._coordinator.next_deadline()
        except KafkaError as error:
            logger.warning("broker.transaction_expiry_failed", error=str(error))
            deadline = now + RETRY_AFTER
        if deadline is not None:
            self.watch(deadline)
