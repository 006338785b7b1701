"""``TopicOptions``: the options that one topic may have in place of the producer's.

Owns the names of these options and their checks; ``ProducerConfig.topics`` has them by topic, and combines them with
the others. It knows no producer. Kafka's producer has no counterpart: librdkafka's topic configuration and franz-go's
``ProducerBatchMaxBytesFn`` are the nearest.

Rules: an option that is left out is the producer's, except for ``priority``, whose default is normal. Options of a
request (``acks``, time-outs) are the same for all topics, because a Produce request has records of many; so are those
of the producer as a whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from pydantic import BeforeValidator, Field

from ...client.options.config_fields import not_a_bool, shown_value
from ...common import MAX_INT
from ...errors import ConfigurationError
from ...record.compression import LEVEL_OPTIONS, Compression
from .option_values import CompressionName
from .overflow_policy import OverflowPolicy
from .strict_options import StrictOptions, json_of, options_of

__all__ = ["TopicOptions", "topics_of"]

_OF_REQUESTS: Final = frozenset({"acks", "request_timeout_ms", "max_request_size", "retries", "transactional_id"})


class TopicOptions(StrictOptions):
    """The options of one topic; immutable. Raises ConfigurationError for values that make no sense."""

    linger_ms: Annotated[int | None, BeforeValidator(not_a_bool), Field(ge=0, le=MAX_INT)] = None
    batch_size: Annotated[int | None, BeforeValidator(not_a_bool), Field(ge=0, le=MAX_INT)] = None
    compression_type: CompressionName | None = None
    compression_level: Annotated[int | None, BeforeValidator(not_a_bool)] = None
    overflow: OverflowPolicy | None = None
    priority: Literal["normal", "high"] | None = None

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: object) -> None:
            super().__init__(**options)
            self._check_level()

    @classmethod
    def why_unknown(cls, name: str) -> str:
        """As ``StrictOptions.why_unknown``; says which options a topic cannot have."""
        reason = "it is of a request, which has records of many topics" if name in _OF_REQUESTS else "it is unknown"
        return f"is not an option of a single topic: {reason}; there are {', '.join(cls.model_fields)}"

    def changes(self) -> dict[str, Any]:
        """The producer's options that differ for the topic, with their values."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        changes = {name: value for name, value in given.items() if value is not None}
        changes.pop("priority", None)  # an option among topics, not one of the producer
        level = changes.pop("compression_level", None)
        if level is not None:
            changes[LEVEL_OPTIONS[str(self.compression_type)]] = level
        return changes

    # internals

    def _check_level(self) -> None:
        level, codec = self.compression_level, self.compression_type
        if level is None:
            return
        if codec not in LEVEL_OPTIONS:
            raise ConfigurationError(
                f"compression_level={shown_value('', level)} needs a compression_type that has levels: write one of "
                f"{', '.join(LEVEL_OPTIONS)} beside it"
            )
        known = Compression.for_name(codec)
        if not known.has_level(level):
            raise ConfigurationError(
                f"compression_level={shown_value('', level)} of {codec} is out of range: write {known.levels_shown}"
            )


def topics_of(value: object) -> dict[str, TopicOptions]:
    """The option ``topics``: a mapping of TopicOptions, or of dicts with the same names, or such a mapping as JSON.

    Raises ValueError for anything else, and the error of a topic's options with its name.
    """
    if isinstance(value, str):
        value = json_of(value, '{"clicks": {"linger_ms": 50}}')
    if not isinstance(value, Mapping):
        raise ValueError(f"a mapping from topics to TopicOptions is needed, not {type(value).__name__}")
    return {_name(topic): _options(topic, options) for topic, options in value.items()}


# internals


def _name(topic: object) -> str:
    if not isinstance(topic, str) or not topic:
        raise ValueError(f"the name of a topic is a {type(topic).__name__}, not a str that is not empty")
    return topic


def _options(topic: str, options: object) -> TopicOptions:
    try:
        return options_of(options, TopicOptions)
    except ValueError as error:
        raise ValueError(f"{topic!r}: {error}") from None
