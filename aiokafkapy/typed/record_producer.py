"""What a typed topic needs of a producer: ``KafkaProducer`` has it, and so has ``GuardedProducer``."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from aiokafkapy.producer.records import HeadersLike, RecordMetadata, Timestamp

if TYPE_CHECKING:
    from aiokafkapy import Delivery, ProducerConfig

__all__ = ["RecordProducer"]


class RecordProducer(Protocol):
    """Takes records, one a call or many."""

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
    ) -> Delivery:
        """Never wait."""

    async def send_many(
        self, topic: str, values_or_records: Iterable[Any], *, return_exceptions: bool = False
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send many and wait for all."""
