"""``AccumulatorConfig``: the options that the accumulator reads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Literal, Protocol

from ...record.compression import Compression
from ..options.overflow_policy import OverflowPolicy

__all__ = ["AccumulatorConfig"]


class OwnLinger(Protocol):
    """The option of a topic that is read here; ``for_topic`` has the others."""

    @property
    def linger_ms(self) -> int | None:
        """None if it is the producer's."""


class AccumulatorConfig(Protocol):
    """The options of ``ProducerConfig`` that are read here."""

    batch_size: int
    buffer_memory: int
    buffer_records: int | None
    delivery_timeout_ms: int
    manual_flush: bool
    max_request_size: int
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    priority_reserve_percent: int
    retry_backoff_max_ms: int
    retry_backoff_ms: int

    @property
    def bulk_batch_size(self) -> int:
        """Bytes of a batch while a call brings many records at once."""

    @property
    def compression(self) -> Compression:
        """The codec; the first one, if the codec is chosen at run time."""

    @property
    def compression_level(self) -> int | None:
        """The codec's level; None for codecs that have none."""

    @property
    def chooses_codecs(self) -> bool:
        """True when the codec of any topic is chosen at run time, by ``use_codec``."""

    @property
    def linger_ms(self) -> int | Literal["auto"] | None:
        """Milliseconds; None adapts."""

    @property
    def overflow(self) -> OverflowPolicy:
        """The policy for a record without room."""

    @property
    def topics(self) -> Mapping[str, OwnLinger]:
        """The topics that have options of their own."""

    @property
    def drops_oldest(self) -> bool:
        """True when records of any topic may be dropped after they were accepted."""

    @property
    def priority_topics(self) -> Collection[str]:
        """The topics whose records get room, and leave, before others."""

    def for_topic(self, topic: str) -> AccumulatorConfig:
        """The options as they are for one topic."""
