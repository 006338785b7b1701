"""``AccumulatorConfig``: the options that the accumulator reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

__all__ = ["AccumulatorConfig"]


class AccumulatorConfig(Protocol):
    """The options of ``ProducerConfig`` that are read here."""

    batch_size: int
    buffer_memory: int
    buffer_records: int | None
    compression_type: Any
    delivery_timeout_ms: int
    linger_ms: Any
    manual_flush: bool
    overflow: Any
    max_request_size: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    priority_reserve_percent: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int
    topics: Mapping[str, Any]

    @property
    def drops_oldest(self) -> bool:
        """True when records of any topic may be dropped after they were accepted."""

    @property
    def priority_topics(self) -> Collection[str]:
        """The topics whose records get room, and leave, before others."""

    def for_topic(self, topic: str) -> AccumulatorConfig:
        """The options as they are for one topic."""
