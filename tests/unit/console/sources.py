"""A source whose answers a test gives."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

from aiokafkapy.common import ConsumedRecord
from aiokafkapy.console.model import (
    Client,
    Cluster,
    Group,
    GroupDetail,
    Node,
    RequestRow,
    Sample,
    Topic,
    TopicDetail,
    Transaction,
)
from aiokafkapy.console.request_log import RequestLog
from aiokafkapy.console.source import Abilities, NewRecord, Outcome, Place, Polled, Start, Written
from aiokafkapy.errors import KafkaError, UnknownTopicOrPartitionError

__all__ = ["FakeFeed", "FakeSource", "request_row"]


def request_row(number: int, api: str = "FETCH", *, ms: float = 1.0, outcome: str = "ok") -> RequestRow:
    return RequestRow(
        number=number,
        at_ms=0,
        node_id=1,
        client_id="c",
        connection_id="h:1",
        api=api,
        version=9,
        size=1,
        answer_size=1,
        queue_ms=0,
        local_ms=0,
        remote_ms=0,
        send_ms=0,
        throttle_ms=0,
        total_ms=ms,
        outcome=outcome,
    )


class FakeFeed:
    """Records of a list: each poll gives the next, or the newest of ``batch`` that came."""

    def __init__(self, records: list[ConsumedRecord], batch: int = 10**9) -> None:
        self.records = records
        self.batch = batch
        self.polls: list[tuple[int, bool]] = []
        self.known: dict[Place, Outcome] = {}
        self.asked_outcomes: list[set[Place]] = []
        self.is_closed = False
        self._at = 0

    async def poll(self, most: int, *, newest: bool) -> Polled:
        self.polls.append((most, newest))
        came = self.records[self._at : self._at + (self.batch if newest else most)]
        self._at += len(came)
        shown = came[-most:]
        return Polled(shown, len(came) - len(shown), self._at >= len(self.records))

    def positions(self) -> Mapping[int, int]:
        return {0: self._at}

    async def outcomes(self, places: Collection[Place]) -> Mapping[Place, Outcome]:
        self.asked_outcomes.append(set(places))
        return {place: self.known[place] for place in places if place in self.known}

    async def close(self) -> None:
        self.is_closed = True


class FakeSource:
    """One topic, whose records are ``total``; ``error`` is raised by a sample."""

    abilities = Abilities(faults=True, requests=True, clients=True)
    broker = None
    tick = 1.0

    def __init__(self, *, samples_always: bool = True) -> None:
        self.samples_always = samples_always
        self.request_log: RequestLog | None = RequestLog()
        self.total = 0
        self.samples = 0
        self.error: KafkaError | None = None
        self.feeds: list[FakeFeed] = []
        self.was_committed = False

    async def start(self) -> None:
        """Nothing to open."""

    async def stop(self) -> None:
        """Nothing to close."""

    async def sample(self) -> Sample:
        self.samples += 1
        if self.error is not None:
            raise self.error
        return Sample({"orders": self.total}, {"orders": 10 * self.total}, 0, 0, 1, 1)

    async def cluster(self) -> Cluster:
        return Cluster("id", "fake", [Node(1, "h:1")], 1)

    async def topics(self) -> list[Topic]:
        return [
            Topic(name="orders", partitions=1, replicas=1, records=self.total, size=10 * self.total, without_leader=0)
        ]

    async def topic(self, name: str) -> TopicDetail:
        if name != "orders":
            raise UnknownTopicOrPartitionError(f"there is no topic {name!r}")
        (topic,) = await self.topics()
        return TopicDetail(topic, [], {})

    async def groups(self) -> list[Group]:
        return [Group("billing", "Stable", "consumer", "range", 1, 5)]

    async def group(self, group_id: str) -> GroupDetail:
        (group,) = await self.groups()
        return GroupDetail(group, [], [])

    async def transactions(self) -> list[Transaction]:
        return []

    async def clients(self) -> list[Client]:
        return []

    async def feed(self, topic: str, partition: int | None, start: Start, *, is_committed: bool = False) -> FakeFeed:
        self.was_committed = is_committed
        return self.feeds[0]

    async def produce(self, record: NewRecord) -> Written:
        return Written(0, 0)

    def describe_faults(self) -> Any:
        return {}
