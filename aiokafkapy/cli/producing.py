"""A producer for the duration of a command.

Owns its start (which fails within the user's time-out if no broker answers) and its close (which waits for nothing
after a second Ctrl-C). Knows no command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Final

from ..errors import KafkaError, KafkaTimeoutError
from .running import Stop

if TYPE_CHECKING:
    from ..producer.producer import KafkaProducer

__all__ = ["started_producer"]

GRACE: Final = 0.25
"""Seconds added to the outer time-out, so that the look-up's own error, which has the cause, comes first."""


@asynccontextmanager
async def started_producer(
    options: Mapping[str, object], timeout: float, stop: Stop
) -> AsyncIterator[KafkaProducer[Any, Any]]:
    """A started producer with these properties; KafkaTimeoutError with the cause if no broker answers in ``timeout`` s.

    The first Ctrl-C ends the start at once. On exit all accepted records are delivered or fail; on cancellation they
    fail at once.
    """
    from ..admin import TopicAdmin
    from ..producer.config import ProducerConfig
    from ..producer.producer import KafkaProducer

    # A line of text is bytes already, whichever serializer a file of properties names for its own program.
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
