"""The parts of a producer, a relay or a dev broker that tests and benchmarks look at: only this module knows where they
are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any
from uuid import UUID

from aiokafkapy.producer.producer import KafkaProducer
from aiokafkapy.producer.tables.arrow_send import ArrowSend

if TYPE_CHECKING:
    import pytest

    from aiokafkapy.blocking.blocking_producer import BlockingProducer
    from aiokafkapy.broker import DevBroker
    from aiokafkapy.broker.broker_node import BrokerNode
    from aiokafkapy.broker.context import BrokerState
    from aiokafkapy.broker.storage.log import PartitionLog
    from aiokafkapy.common import Node
    from aiokafkapy.integrations.outbox.database import RelayDatabase
    from aiokafkapy.integrations.outbox.relay import OutboxRelay
    from aiokafkapy.integrations.outbox.transactional_publisher import TransactionalPublisher
    from aiokafkapy.producer.spool.spool import Spool
    from aiokafkapy.reader.group_offsets import GroupOffsets
    from aiokafkapy.record.batch import RecordBatch

__all__ = [
    "batches_of",
    "coordinator_of",
    "database_of",
    "is_starting",
    "leave_unmarked",
    "opened_without_sockets",
    "producers_of",
    "running_nodes_of",
    "runtime_of",
    "setting_of_server",
    "slices_of_tables",
    "spool_of",
    "task_of",
    "thread_sender_of",
    "transaction_version_of",
]


def runtime_of(producer: KafkaProducer[Any, Any]) -> Any:
    """The ``ProducerRuntime``, parts of which tests replace; None before a start."""
    return producer._life.runtime


def spool_of(producer: KafkaProducer[Any, Any]) -> Spool:
    """The files and the bounds of the spool of a producer that was started with one."""
    spool: Spool = runtime_of(producer).spooling._spool
    return spool


def thread_sender_of(producer: KafkaProducer[Any, Any]) -> Any:
    """The object that takes the records of ``send_from_thread``; there is none before the first."""
    return producer._thread_senders[0]


def transaction_version_of(producer: KafkaProducer[Any, Any]) -> int:
    """The version of the cluster's transactions (KIP-890)."""
    version: int = producer._transactions()._transaction.version
    return version


def is_starting(producer: BlockingProducer[Any, Any]) -> bool:
    """True if a thread is in ``start``."""
    return producer._starting is not None


def slices_of_tables(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Gets the rows of each step of ``send_arrow`` from now on."""
    slices: list[Any] = []
    send_some = ArrowSend._send_some

    async def noted(self: ArrowSend, rows: Any) -> None:
        slices.append(rows)
        await send_some(self, rows)

    monkeypatch.setattr(ArrowSend, "_send_some", noted)
    return slices


def task_of(relay: OutboxRelay) -> asyncio.Task[None]:
    """The task of a relay that was started."""
    assert relay._task is not None
    return relay._task


def database_of(relay: OutboxRelay) -> RelayDatabase:
    """A relay's connection to its database, and its statements."""
    return relay._database


async def setting_of_server(relay: OutboxRelay, name: str) -> str:
    """A setting of the database's server, as the relay's own connection has it."""
    import sqlalchemy as sa

    shown = await relay._database._execute(sa.text(f"SHOW {name}"))
    value: str = shown.scalar_one()
    return value


def leave_unmarked(relay: OutboxRelay, rows: Mapping[int, UUID]) -> None:
    """Let a relay know rows that are published, as it does from markers, and that it has to mark."""
    relay._unmarked |= rows


def producers_of(publisher: TransactionalPublisher) -> list[KafkaProducer[Any, Any]]:
    """The producers, one for each shard that the publisher has taken."""
    return list(publisher._shards.values())


def running_nodes_of(broker: DevBroker) -> dict[int, BrokerNode]:
    """The nodes of a dev broker that run, by id."""
    return broker._running


def batches_of(log: PartitionLog) -> Iterator[RecordBatch]:
    """All batches of a partition of a dev broker, from its first."""
    return log._batches(0)


def coordinator_of(offsets: GroupOffsets, group: str) -> Node:
    """The coordinator that was found for a group."""
    return offsets._coordinators[group]


async def opened_without_sockets(broker: DevBroker) -> BrokerState:
    """A dev broker's state, with the addresses of all its nodes, as ``start`` makes it; ``stop`` closes it."""
    broker._state = state = await broker._open_state()
    for node_id in broker._node_ids:
        broker._ports[node_id] = dict.fromkeys(broker._endpoints, 9090 + node_id)
        broker._advertise(state, node_id)
    return state
