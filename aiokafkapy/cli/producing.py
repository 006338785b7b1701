"""A producer for the duration of a command, and the lines that are sent with it.

Owns its start (which fails within the user's time-out if no broker answers), its close (which does not wait after a
second Ctrl-C), and the list of open lines. It knows no command.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from ..common import Headers
from ..errors import KafkaError, KafkaTimeoutError
from .running import Stop

if TYPE_CHECKING:
    from ..producer.deliveries.delivery import Delivery
    from ..producer.producer import KafkaProducer
    from ..producer.records import RecordMetadata

__all__ = ["FIRST_FEW", "Line", "Sending", "started_producer"]

FIRST_FEW: Final = 10
"""The most failed lines that are reported on stderr."""

GRACE: Final = 0.25
"""Seconds added to the outer time-out, so that the look-up's own error, which has the cause, comes first."""


class Line(Protocol):
    """The record of a line."""

    @property
    def value(self) -> bytes | None:
        """None is a tombstone."""

    @property
    def key(self) -> bytes | None:
        """The record's key."""

    @property
    def partition(self) -> int | None:
        """None: the producer chooses."""

    @property
    def timestamp_ms(self) -> int | None:
        """None: now."""

    @property
    def headers(self) -> Headers:
        """The record's headers."""


LineT = TypeVar("LineT", bound=Line)


class Sending(Generic[LineT]):
    """The sent lines whose outcomes were not told yet, in order; ``len()`` is their number."""

    def __init__(
        self,
        producer: KafkaProducer[Any, Any],
        on_delivered: Callable[[LineT, RecordMetadata], None],
        on_failed: Callable[[LineT, str], None],
    ) -> None:
        self._producer = producer
        self._on_delivered = on_delivered
        self._on_failed = on_failed
        self._open: deque[tuple[Delivery, LineT]] = deque()

    def __len__(self) -> int:
        return len(self._open)

    async def send(self, topic: str, line: LineT) -> None:
        """Enqueue the line. A line that the producer refuses has failed."""
        try:
            delivery = await self._producer.enqueue(
                topic,
                line.value,
                key=line.key,
                partition=line.partition,
                timestamp_ms=line.timestamp_ms,
                headers=line.headers or None,
            )
        except (KafkaError, TypeError, ValueError) as error:  # a line may have any partition and time
            self._on_failed(line, str(error))
        else:
            self._open.append((delivery, line))

    async def confirm(self, most: int) -> None:
        """Tell the known outcomes, and wait for more until at most ``most`` are open."""
        while self._open and (len(self._open) > most or self._open[0][0].done()):
            delivery, line = self._open[0]
            try:
                metadata = await delivery
            except KafkaError as error:
                self._on_failed(line, str(error))
            else:
                self._on_delivered(line, metadata)
            self._open.popleft()

    def delivered(self) -> Iterator[LineT]:
        """The open lines that are delivered by now, whose outcomes were not told."""
        return (line for delivery, line in self._open if delivery.done() and delivery.exception() is None)


@asynccontextmanager
async def started_producer(
    options: Mapping[str, object], timeout: float, stop: Stop
) -> AsyncIterator[KafkaProducer[Any, Any]]:
    """A started producer with these properties; raises KafkaTimeoutError with the cause if no broker answers in
    ``timeout`` s.

    The first Ctrl-C ends the start at once. On exit all accepted records are delivered or fail; on cancellation they
    fail at once.
    """
    from ..admin import TopicAdmin
    from ..producer.config import ProducerConfig
    from ..producer.producer import KafkaProducer

    # A line of text is already bytes, whatever serializer a file of properties names for its own program.
    config = ProducerConfig.from_properties(options, key_serializer=None, value_serializer=None)
    # Not left to the producer, whose max_block_ms of a minute suits a service.
    producer: KafkaProducer[Any, Any] = KafkaProducer(config=config)
    with stop.ends_at_once():
        try:
            async with asyncio.timeout(timeout + GRACE):
                async with TopicAdmin(config=config, timeout=timeout) as admin:
                    await admin.ping()
                await producer.start()
        except TimeoutError as error:
            if isinstance(error, KafkaError):
                raise
            raise KafkaTimeoutError(
                f"no broker of {config.bootstrap_servers} was ready within {timeout:g} s: give a longer --timeout"
            ) from None
    async with producer:
        try:
            yield producer
        except asyncio.CancelledError:
            await producer.close(0)
            raise
