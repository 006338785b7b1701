"""A producer for the length of a command.

Owns its beginning (is there a broker at all? said within the time the user gives) and its end (when the user has
pressed Ctrl-C twice nothing is waited for). Knows no command.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ..producer.producer import KafkaProducer

__all__ = ["started_producer"]


@asynccontextmanager
async def started_producer(options: Mapping[str, Any], timeout: float) -> AsyncIterator[KafkaProducer[Any, Any]]:
    """A started producer of these properties; KafkaTimeoutError with the cause when no broker answers in `timeout` s.

    At the end what was accepted is delivered or fails; cancelled, it fails at once.
    """
    from ..admin import TopicAdmin
    from ..producer.config import ProducerConfig
    from ..producer.producer import KafkaProducer

    config = ProducerConfig.from_properties(options)
    # Not left to the producer, which gives a broker a minute, as it should in a service.
    async with TopicAdmin(config.bootstrap_servers, timeout=timeout) as admin:
        await admin.ping()
    async with KafkaProducer(config=config) as producer:
        try:
            yield producer
        except asyncio.CancelledError:
            await producer.close(0)
            raise
