"""``KafkaCluster``: the cluster that ``pytest --kafka=`` chose for a test.

Owns the common part of all kinds: addresses, topics with unique names, records read back. The cluster is a dev broker,
one in memory, one behind a ``FaultProxy``, or a Kafka that already runs. It must not know pytest.

Rules:

- a topic's name is unique, also among the processes of pytest-xdist and the users of a shared real cluster, and so are
  the names that ``unique`` makes, for groups and transactional ids;
- on a cluster that already ran, only the topics that were made here are deleted at the end.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, Final, Literal, Unpack

from ..admin.topics import TopicAdmin
from ..common import ConsumedRecord, TopicPartition
from ..errors import UnknownTopicOrPartitionError
from ..reader import PartitionReader
from ..reader.existing_topics import existing_partitions
from .assertions import WantedRecord, assert_produced

if TYPE_CHECKING:
    from ..broker import DevBroker
    from .fault_proxy import FaultProxy

__all__ = ["KafkaCluster", "Kind", "kafka_cluster"]

Kind = Literal["dev", "memory", "proxy", "real"]
_TIMEOUT: Final = 30.0
"""Seconds for making, reading and deleting a topic."""


class KafkaCluster:
    """Clients connect to ``bootstrap_servers``. ``broker`` is the ``DevBroker``, if it is one, and ``proxy`` the
    ``FaultProxy`` before it, with ``--kafka=proxy``.
    """

    def __init__(
        self, kind: Kind, servers: str, *, broker: DevBroker | None = None, proxy: FaultProxy | None = None
    ) -> None:
        self.kind = kind
        self.bootstrap_servers = servers if proxy is None else proxy.bootstrap_servers
        self.broker = broker
        self.proxy = proxy
        # The proxy's faults are for the service under test, not for the test.
        self._own_servers = servers
        self._topics: list[str] = []

    def unique(self, name: str) -> str:
        """The name with a unique end, for a group or a transactional id. It has only characters that a topic's name
        may have.
        """
        worker = os.environ.get("PYTEST_XDIST_WORKER", "main")
        return f"{re.sub(r'[^A-Za-z0-9._-]', '-', name)[:180]}-{worker}-{secrets.token_hex(6)}"

    async def create_topic(self, name: str = "topic", partitions: int = 1, **config: object) -> str:
        """Make a topic and return its name, which is unique and begins with ``name``. Options have underscores
        (``max_message_bytes=1000``). Raises the broker's error.
        """
        topic = self.unique(name)
        options = {option.replace("_", "."): _text(value) for option, value in config.items()}
        async with TopicAdmin(self._own_servers) as admin:
            await admin.create(topic, partitions=partitions, configs=options, timeout=_TIMEOUT)
        self._topics.append(topic)
        return topic

    async def records(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """The present records of a topic, or of a partition, as in ``DevBroker.records``. A transaction's come with
        its commit; a missing topic has none.
        """
        async with PartitionReader(self._own_servers, isolation_level="read_committed") as reader:
            try:
                found = await existing_partitions(reader, topic, _TIMEOUT)
            except UnknownTopicOrPartitionError:
                return []
            chosen = [TopicPartition(topic, each.partition) for each in found if partition in (None, each.partition)]
            begins = await reader.beginning_offsets(chosen, _TIMEOUT)
            ends = await reader.end_offsets(chosen, _TIMEOUT)
            reader.assign(chosen)
            for each in chosen:
                reader.seek(each, begins[each])
                reader.stop_at(each, ends[each])
            records = [record async for record in reader] if chosen else []
        return sorted(records, key=lambda record: (record.partition, record.offset))

    async def assert_produced(self, topic: str, **wanted: Unpack[WantedRecord]) -> list[ConsumedRecord]:
        """``aiokafkapy.testing.assert_produced`` for the present records."""
        __tracebackhide__ = True  # pytest hides this frame
        return assert_produced(_Read(await self.records(topic)), topic, **wanted)

    async def delete_topics(self) -> None:
        """Delete the topics that were made here, if others use the cluster too."""
        topics, self._topics = self._topics, []
        if self.broker is None and topics:
            async with TopicAdmin(self._own_servers) as admin:
                for topic in topics:
                    await admin.delete(topic, timeout=_TIMEOUT)


@contextlib.asynccontextmanager
async def kafka_cluster(
    kind: Kind, bootstrap_servers: str | None = None, broker_options: dict[str, Any] | None = None
) -> AsyncIterator[KafkaCluster]:
    """A cluster of this kind for the block. ``bootstrap_servers`` are the addresses of a real one, also behind
    ``proxy``; the other kinds are dev brokers with ``broker_options``.
    """
    async with contextlib.AsyncExitStack() as stack:
        broker = None
        if bootstrap_servers is None:
            from ..broker import DevBroker

            if kind == "memory":
                from .memory_network import in_memory

                stack.enter_context(in_memory())
            broker = await stack.enter_async_context(DevBroker(**(broker_options or {})))
        servers = bootstrap_servers if broker is None else broker.bootstrap_servers
        assert servers is not None
        proxy = None
        if kind == "proxy":
            from .fault_proxy import FaultProxy

            proxy = await stack.enter_async_context(FaultProxy(servers))
        cluster = KafkaCluster(kind, servers, broker=broker, proxy=proxy)
        try:
            yield cluster
        finally:
            await cluster.delete_topics()


class _Read:
    """Records that were read."""

    def __init__(self, records: list[ConsumedRecord]) -> None:
        self._records = records

    def records(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        return [record for record in self._records if partition in (None, record.partition)]


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
