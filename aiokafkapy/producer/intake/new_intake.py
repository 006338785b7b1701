"""``new_intake``: the way in that a configuration asks for.

Owns the choice of an intake's serializers, partitioner and interceptors. It knows no calls and no runtime. Kafka's
counterpart is the head of ``KafkaProducer``'s constructor.

Events: ``producer.interceptor_failed`` (error; hook, error).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import time
from typing import TYPE_CHECKING

from ...errors import KafkaError
from ...observability import RateLimitedLogger, describe_error, get_logger
from ..serializers import PreparedSerializer, prepare
from .intercepted_intake import InterceptedIntake
from .interceptors import ProducerInterceptors
from .partitioners import Partitioner, RoundRobinPartitioner, partitioner_for
from .record_intake import RecordIntake

if TYPE_CHECKING:
    from ..config import ProducerConfig

__all__ = ["new_intake", "new_interceptors", "new_partitioner", "new_serializers"]

_logger = get_logger(__name__)


def new_intake(
    config: ProducerConfig, interceptors: ProducerInterceptors, why_unusable: Callable[[], KafkaError]
) -> RecordIntake:
    """The intake for a configuration, with interceptors before it if there are any."""
    serializers = new_serializers(config)
    partitioner = new_partitioner(config)
    if config.circuit_breaker is not None:
        from .guarded_intake import GuardedIntake, GuardedInterceptedIntake

        if interceptors:
            return GuardedInterceptedIntake(*serializers, partitioner, why_unusable, interceptors)
        return GuardedIntake(*serializers, partitioner, why_unusable)
    if interceptors:
        return InterceptedIntake(*serializers, partitioner, why_unusable, interceptors)
    return RecordIntake(*serializers, partitioner, why_unusable)


def new_serializers(config: ProducerConfig) -> tuple[PreparedSerializer | None, PreparedSerializer | None]:
    """The serializers of keys and values, in the form in which they are called."""
    key, value = prepare(config.key_serializer), prepare(config.value_serializer)
    limit = config.serialize_in_thread_above
    if limit is None:
        return key, value
    from .serializer_threads import ThreadedSerializer

    return (
        None if key is None else ThreadedSerializer(key, limit),
        None if value is None else ThreadedSerializer(value, limit),
    )


def new_partitioner(config: ProducerConfig) -> Partitioner:
    """The partitioner of a configuration."""
    chosen = config.partitioner
    if isinstance(chosen, str):
        from ..hash_partitioners import ROUND_ROBIN, named_partitioner

        chosen = RoundRobinPartitioner() if chosen == ROUND_ROBIN else named_partitioner(chosen)
    return partitioner_for(chosen, ignore_keys=config.partitioner_ignore_keys)


def new_interceptors(config: ProducerConfig) -> ProducerInterceptors:
    """The chain of a configuration; its failures are logged, rate-limited."""
    return ProducerInterceptors(config.interceptors, partial(_log_error, RateLimitedLogger(_logger)))


def _log_error(log: RateLimitedLogger, hook: str, error: BaseException) -> None:
    log.log(hook, time(), logging.ERROR, "producer.interceptor_failed", hook=hook, error=describe_error(error))
