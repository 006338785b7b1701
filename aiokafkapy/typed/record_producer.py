"""``RecordProducer``: the calls of a producer that a typed topic makes, and their options, ``RecordOptions``;
``header_pairs`` is for one of these.

Knows no producer: ``KafkaProducer`` and ``GuardedProducer`` have these calls. Java's counterpart is the interface
``org.apache.kafka.clients.producer.Producer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypedDict, overload

from ..producer.records import CallOverflow, HeadersLike, RecordMetadata, Timestamp

if TYPE_CHECKING:
    from .. import Delivery, ProducerConfig

__all__ = ["RecordOptions", "RecordProducer", "header_pairs"]


class RecordOptions(TypedDict, total=False):
    """The options of a call that sends one record, as ``KafkaProducer.send`` describes them."""

    key: Any
    partition: int | None
    timestamp_ms: Timestamp | None
    headers: HeadersLike | None
    delivery_timeout_ms: int | None
    overflow: CallOverflow | None


class RecordProducer(Protocol):
    """Takes records, one per call or many.

    The CancelledError of a call has ``deliveries``: those of its records that still go on.

    The options are written out: for pyright a producer without ``**options`` would not fit ``**options:
    Unpack[RecordOptions]``, since a TypedDict may have more keys.
    """

    @property
    def config(self) -> ProducerConfig:
        """The options in force."""

    async def send(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> RecordMetadata:
        """Send one record and wait until it is delivered."""

    async def enqueue(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """Wait until the record is accepted."""

    def send_nowait(
        self,
        topic: str,
        value: Any = None,
        *,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> Delivery:
        """Never wait."""

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[Any],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[Any],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[Any],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send many and wait for all."""


def header_pairs(headers: HeadersLike | None) -> list[tuple[str, bytes | None]]:
    """A record's headers as pairs, given as pairs or as a mapping."""
    if headers is None:
        return []
    return list(headers.items() if hasattr(headers, "items") else headers)
