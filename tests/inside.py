"""What tests and benchmarks look at within a producer or a relay: the one place that knows where their parts are."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from aiokafkapy.producer.producer import KafkaProducer

if TYPE_CHECKING:
    from aiokafkapy.integrations.outbox.database import RelayDatabase
    from aiokafkapy.integrations.outbox.relay import OutboxRelay
    from aiokafkapy.integrations.outbox.transactional_publisher import TransactionalPublisher

__all__ = ["database_of", "leave_unmarked", "producers_of", "runtime_of", "task_of"]


def runtime_of(producer: KafkaProducer[Any, Any]) -> Any:
    """The ``ProducerRuntime``, parts of which tests replace; None before a start."""
    return producer._life.runtime


def task_of(relay: OutboxRelay) -> asyncio.Task[None]:
    """The task of a relay that was started."""
    assert relay._task is not None
    return relay._task


def database_of(relay: OutboxRelay) -> RelayDatabase:
    """A relay's connection to its database, and its statements."""
    return relay._database


def leave_unmarked(relay: OutboxRelay, rows: Mapping[int, UUID]) -> None:
    """Let a relay know rows that are published, as it does from markers, and that it has to mark."""
    relay._unmarked |= rows


def producers_of(publisher: TransactionalPublisher) -> list[KafkaProducer[Any, Any]]:
    """One for each shard that the publisher has taken."""
    return list(publisher._shards.values())
