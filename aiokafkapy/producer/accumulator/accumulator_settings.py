"""The accumulator's settings, which follow from several options each: the batches of a topic, and the pool.

Owns these bounds, and no state. Java has them in ``KafkaProducer`` and ``RecordAccumulator``.
"""

from __future__ import annotations

import math
from typing import Final

from ..options.overflow_policy import DROP_OLDEST
from .accumulator_config import AccumulatorConfig
from .buffer_pool import UNBOUNDED, BufferPool
from .partition_queue import NO_LINGER, TopicSettings

__all__ = ["credit_step", "new_pool", "settings_of"]

DROPPED_AT_ONCE: Final = 16
"""A batch has at most this fraction (one in so many) of the buffer if the oldest is dropped when there is no room."""
BULK_BATCHES: Final = 16
"""A bulk call's batches have at most this fraction of the buffer, so that some are filled while others are sent."""
COMPRESSION_RESERVE: Final = 8 * 1024 * 1024
"""The most bytes kept from records so that a full pool can still be compressed in threads, else an eighth of the pool.
"""


def settings_of(config: AccumulatorConfig, *, has_own_linger: bool, has_priority: bool = False) -> TopicSettings:
    """The settings of a topic's batches; ``has_own_linger`` if its ``linger_ms`` is not the producer's."""
    # A batch that could not be sent in one request, or not be paid for, would be of no use.
    most = min(config.max_request_size, config.buffer_memory)
    if config.overflow == DROP_OLDEST:
        most = min(most, config.buffer_memory // DROPPED_AT_ONCE)
    linger = NO_LINGER
    if config.manual_flush:
        linger = math.inf
    elif has_own_linger and isinstance(config.linger_ms, int):
        linger = config.linger_ms / 1000
    batch_size = max(1, min(config.batch_size, most))
    bulk_batch_size = max(batch_size, min(config.bulk_batch_size, most, config.buffer_memory // BULK_BATCHES))
    return TopicSettings(
        batch_size, config.compression, config.compression_level, linger, has_priority, bulk_batch_size
    )


def credit_step(config: AccumulatorConfig) -> int:
    """A batch is closed after so many records, so that the oldest are few at a time."""
    if not config.drops_oldest or config.buffer_records is None:
        return UNBOUNDED
    return max(1, config.buffer_records // DROPPED_AT_ONCE)


def new_pool(config: AccumulatorConfig, *, has_codec: bool) -> BufferPool:
    """The memory of a producer's records."""
    reserve = min(config.buffer_memory // 8, COMPRESSION_RESERVE) if has_codec else 0
    kept = config.priority_reserve_percent if config.priority_topics else 0
    return BufferPool(config.buffer_memory, reserve, config.buffer_records, kept_percent=kept)
