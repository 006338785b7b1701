"""The options of a ``PartitionReader``: those of every client, and the consumer's options for fetching.

Owns names, defaults and checks. Kafka's counterpart is ``ConsumerConfig``, without the options of groups.

Rule: names and defaults are Kafka's, with dots as underscores.
"""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import Field, model_validator

from ..client.config import ClientConfig
from ..common import MAX_INT, MAX_LONG
from ..errors import ConfigurationError
from ..option_fields import default_of

__all__ = ["ReaderConfig"]

_AROUND_A_FETCH: Final = 512
"""Bytes of an answer beside its records: the same allowance as librdkafka's."""


class ReaderConfig(ClientConfig):
    """The options of a ``PartitionReader``; immutable. Raises ConfigurationError for an invalid option."""

    fetch_min_bytes: Annotated[
        int,
        Field(ge=0, le=MAX_INT, description="Bytes that the broker waits for, unless fetch_max_wait_ms is over."),
    ] = 1
    fetch_max_wait_ms: Annotated[
        int, Field(ge=0, le=MAX_INT, description="Milliseconds that the broker waits for fetch_min_bytes.")
    ] = 500
    fetch_max_bytes: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_INT,
            description="Bytes of one answer, so with N leaders the reader holds at most about N times this. A first "
            "batch that is larger is read all the same (KIP-74).",
        ),
    ] = 52_428_800
    max_partition_fetch_bytes: Annotated[
        int,
        Field(
            ge=0, le=MAX_INT, description="Bytes of one partition in an answer, but for a first batch that is larger."
        ),
    ] = 1_048_576
    check_crcs: Annotated[bool, Field(description="Check each batch's checksum.")] = True
    isolation_level: Annotated[
        Literal["read_uncommitted", "read_committed"],
        Field(description="read_committed hides records of transactions that are open or were aborted."),
    ] = "read_uncommitted"
    auto_offset_reset: Annotated[
        Literal["earliest", "latest", "none"],
        Field(
            description="The start without a seek, and the next position after one that is not in the log (any more); "
            "none raises OffsetOutOfRangeError. Kafka's default is latest: a reader that is given partitions by hand "
            "is expected to see their records."
        ),
    ] = "earliest"
    default_api_timeout_ms: Annotated[
        int,
        Field(
            ge=0,
            le=MAX_LONG,
            description="Milliseconds that a look-up of offsets or partitions goes on trying, when it is given no "
            "time-out of its own.",
        ),
    ] = 60_000

    @model_validator(mode="before")
    @classmethod
    def _normalize_reader(cls, values: Any) -> Any:
        return _with_room_for_fetches(cls, values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _check_reader(self) -> Self:
        needed, limit = _needed(self.fetch_max_bytes), self.receive_message_max_bytes
        if "fetch_max_bytes" in self.model_fields_set and needed > limit:
            raise ConfigurationError(
                f"fetch_max_bytes={self.fetch_max_bytes} contradicts receive_message_max_bytes={limit}: an answer may "
                f"be larger, and its connection would be closed: write receive_message_max_bytes={needed} or more"
            )
        return self


def _needed(fetch_max_bytes: int) -> int:
    return min(fetch_max_bytes + _AROUND_A_FETCH, MAX_INT)


def _with_room_for_fetches(config: type[ReaderConfig], values: dict[str, Any]) -> dict[str, Any]:
    """The values; if only one of the two limits was given, with the other one as it has to be."""
    limit, fetched = "receive_message_max_bytes", "fetch_max_bytes"
    given, other = (fetched, limit) if fetched in values else (limit, fetched)
    if given not in values or other in values:
        return values
    try:
        number = int(values[given])
    except (TypeError, ValueError, OverflowError):
        return values  # the field's own check has the better message
    if given == fetched and _needed(number) > default_of(config, limit):
        return {**values, limit: _needed(number)}
    if given == limit and number < _needed(default_of(config, fetched)):
        return {**values, fetched: max(0, number - _AROUND_A_FETCH)}
    return values
