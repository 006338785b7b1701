"""Transactional producers of a dev broker, quick to try again, and the records that their transactions committed."""

from __future__ import annotations

from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from tests.reading import committed_values

__all__ = ["committed", "transactional"]


def transactional(broker: DevBroker, name: str = "one", **options: Any) -> KafkaProducer[Any, Any]:
    """A producer that is not started yet."""
    options = {"linger_ms": 0, "retry_backoff_ms": 1, "retry_backoff_max_ms": 10} | options
    return KafkaProducer(broker.bootstrap_servers, transactional_id=name, **options)


async def committed(broker: DevBroker, topic: str = "t") -> list[bytes | None]:
    """The values of a topic to its end; an open transaction is waited for."""
    return await committed_values(broker.bootstrap_servers, topic)
