"""Retention and compaction of all logs and of committed offsets, periodically and when ``controls`` ask for it.

Owns the two timers and a cleaner for each compacted log; ``log`` and ``log_cleaner`` decide which records are deleted,
and ``expire_groups``, the group coordinator's, which offsets expire. Kafka's counterparts are ``LogManager`` and
the threads of ``LogCleaner``.

Rules:

- retention is checked every ``log.retention.check.interval.ms``, and every ``log.cleaner.backoff.ms`` the logs that
  have grown enough (``min.cleanable.dirty.ratio``) are compacted, except for the segments that are written to; ``run``
  does both at once, for any growth, and with ``even_active`` for those segments too;
- ages go by the wall clock of the cluster, which ``controls.advance_clock`` moves;
- a log that cannot be written is tried again the next time.

Events: ``broker.log_cleaning_failed`` (warning).
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from functools import partial

from ...errors import KafkaError
from ...observability import get_logger
from ..config import BrokerConfig
from ..scheduler import Scheduler, TimerHandle
from .log import PartitionLog
from .log_cleaner import LogCleaner
from .topics import Partition, TopicRegistry

__all__ = ["LogManager"]

logger = get_logger()


class LogManager:
    """The housekeeping of a cluster's logs."""

    def __init__(
        self,
        config: BrokerConfig,
        topics: TopicRegistry,
        expire_groups: Callable[[int], object],
        scheduler: Scheduler,
        clock: Callable[[], int],
    ) -> None:
        """``expire_groups`` is called with the time in milliseconds, and may raise KafkaError."""
        self._topics = topics
        self._expire_groups = expire_groups
        self._scheduler = scheduler
        self._clock = clock
        self._cleaners: weakref.WeakKeyDictionary[PartitionLog, LogCleaner] = weakref.WeakKeyDictionary()
        self._timers: dict[str, TimerHandle] = {}
        self._arm("retention", config.log_retention_check_interval_ms / 1000, self._delete_expired)
        self._arm("compaction", config.log_cleaner_backoff_ms / 1000, partial(self._compact, even_active=False))

    def run(self, *, even_active: bool) -> None:
        """Delete expired records and compact, now; with ``even_active`` the active segments too."""
        self._delete_expired()
        self._compact(even_active=even_active)

    def close(self) -> None:
        """Stop the timers; idempotent."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    # asyncio callbacks

    def _arm(self, name: str, interval: float, work: Callable[[], None]) -> None:
        def on_due() -> None:
            try:
                work()
            finally:
                self._arm(name, interval, work)

        self._timers[name] = self._scheduler.call_at(self._scheduler.time() + interval, on_due)

    # internals

    def _delete_expired(self) -> None:
        for partition in self._partitions():
            try:
                if partition.log.delete_expired(self._clock()):
                    self._topics.on_change(partition)
            except (KafkaError, OSError) as error:
                self._warn(error, partition)
        try:
            self._expire_groups(self._clock())
        except (KafkaError, OSError) as error:
            self._warn(error)

    def _compact(self, *, even_active: bool) -> None:
        for partition in self._partitions():
            log = partition.log
            if not log.config.is_compacted:
                continue
            cleaner = self._cleaners.get(log)
            if cleaner is None:
                cleaner = self._cleaners[log] = LogCleaner(log)
            try:
                if even_active or cleaner.is_due(self._clock()):
                    cleaner.compact(self._clock(), even_active=even_active)
            except (KafkaError, OSError) as error:
                self._warn(error, partition)

    def _partitions(self) -> list[Partition]:
        return [partition for topic in self._topics for partition in topic.partitions]

    def _warn(self, error: Exception, partition: Partition | None = None) -> None:
        place = {} if partition is None else {"topic": partition.topic_name, "partition": partition.index}
        logger.warning("broker.log_cleaning_failed", **place, error=str(error))
