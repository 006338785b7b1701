"""``ProducerConfig``: the options of the producer, which ``config_fields`` declares, as a pydantic model.

Owns the public class. It declares no option itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import model_validator

from ..client.config import ClientConfig
from ..client.options.config_fields import ClientConfigFields
from ..common import MAX_INT
from ..option_fields import declarations
from .options.circuit_options import CircuitBreaker, circuit_breaker_of
from .options.config_fields import ProducerConfigFields
from .options.linger_bounds import ADAPTIVE_LINGER_MS, AUTO_LINGER_MS
from .options.option_conflicts import MAX_IN_FLIGHT_FOR_IDEMPOTENCE
from .options.topic_options import TopicOptions, topics_of

if TYPE_CHECKING:

    class _Base(ProducerConfigFields, ClientConfig): ...
else:
    _Base = ClientConfig

__all__ = ["ADAPTIVE_LINGER_MS", "AUTO_LINGER_MS", "MAX_INT", "MAX_IN_FLIGHT_FOR_IDEMPOTENCE", "ProducerConfig"]


class ProducerConfig(_Base):
    """Everything that can be set on a producer; immutable. Raises ConfigurationError for values that make no sense."""

    environment_prefix: ClassVar[str] = "AIOKAFKAPY_"

    if not TYPE_CHECKING:  # checkers know the fields, and the constructor from them
        vars().update(
            declarations(
                ProducerConfigFields,
                ClientConfigFields,
                CircuitBreaker=CircuitBreaker,
                TopicOptions=TopicOptions,
                circuit_breaker_of=circuit_breaker_of,
                topics_of=topics_of,
            )
        )

    @model_validator(mode="before")
    @classmethod
    def _normalize_producer(cls, values: object) -> object:
        return cls.normalized_for_producer(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _check_producer(self) -> Self:
        self.check_producer()
        return self
