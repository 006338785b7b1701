"""Random histories: whatever brokers and time do, every future resolves once, in its node's order, and nothing is
left.
"""

from __future__ import annotations

import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable

import pytest

from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_request
from tests.unit.client.fakes import ClientUnderTest, FakeBroker, FakeCluster


class History:
    """One random sequence of events, and what came of the requests in it."""

    def __init__(self, seed: int, under_test: ClientUnderTest, cluster: FakeCluster) -> None:
        self.random = random.Random(seed)
        self.under_test = under_test
        self.brokers = list(cluster.brokers.values())
        self.sent: dict[int, list[int]] = defaultdict(list)
        self.resolved: dict[int, list[int]] = defaultdict(list)
        self.futures = []

    def send(self) -> None:
        for node in self.under_test.metadata.cluster.nodes:
            if node.node_id > 0 and self.under_test.client.ready(node, self.under_test.now):
                number = len(self.futures)
                request = ClientRequest(
                    node.node_id,
                    ApiKey.LIST_GROUPS,
                    lambda version: build_request(ApiKey.LIST_GROUPS, version),
                    callback=self._resolver(node.node_id, number),
                    timeout=self.random.choice([None, 0.5, 3.0]),
                )
                self.sent[node.node_id].append(number)
                self.futures.append(self.under_test.client.send(request, self.under_test.now))

    def _resolver(self, node_id: int, number: int) -> Callable[[ClientResponse], None]:
        def resolve(response: ClientResponse) -> None:
            self.resolved[node_id].append(number)
            if self.random.random() < 0.1:
                raise ValueError("a bad callback")

        return resolve

    def answer(self) -> None:
        broker = self.random.choice(self.brokers)
        for request in [request for request in broker.pending if not request.transport.is_closed][:3]:
            broker.pending.remove(request)
            frame = request.frame(**({"throttle_time": 300} if self.random.random() < 0.1 else {}))
            cut = self.random.randrange(len(frame))
            request.transport.receive(frame[:cut])
            request.answer(frame[cut:])

    def lose(self) -> None:
        for transport in list(self.random.choice(self.brokers).transports):
            transport.lose(self.random.choice([None, ConnectionResetError(104, "reset")]))

    def garble(self) -> None:
        for transport in list(self.random.choice(self.brokers).transports):
            transport.receive(self.random.randbytes(self.random.randrange(1, 40)))

    def stall(self) -> None:
        broker = self.random.choice(self.brokers)
        broker.takes_nothing = not broker.takes_nothing
        if not broker.takes_nothing:
            for transport in list(broker.transports):
                transport.resume()

    def refuse(self) -> None:
        broker: FakeBroker = self.random.choice(self.brokers)
        broker.behaviour = self.random.choice(["accept", "accept", "refuse", "hang"])

    def ask(self) -> None:
        self.under_test.metadata.request_update()

    async def run(self, steps: int) -> None:
        events = [self.send] * 8 + [self.answer] * 8 + [self.lose, self.garble, self.stall, self.refuse, self.ask]
        for _ in range(steps):
            self.random.choice(events)()
            if self.random.random() < 0.3:
                await self.under_test.loop.advance(self.random.choice([0.0, 0.01, 0.2, 1.0, 40.0]))


@pytest.mark.parametrize("seed", range(25))
async def test_every_future_resolves_once_and_in_order(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster, seed: int
):
    under_test = make_client(bootstrap="one:1,two:2,three:3", topics=["t"])
    history = History(seed, under_test, cluster)
    await history.run(150)
    await under_test.client.close()
    await under_test.loop.settle()
    assert all(future.done() for future in history.futures)
    assert history.resolved == {node_id: numbers for node_id, numbers in history.sent.items() if numbers}
    assert under_test.client.in_flight_count() == 0


async def test_after_any_history_a_healthy_cluster_serves_again(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster
):
    for seed in range(100, 110):
        under_test = make_client(bootstrap="one:1,two:2,three:3")
        history = History(seed, under_test, cluster)
        await history.run(100)
        for broker in cluster.brokers.values():
            broker.behaviour = "accept"
            broker.takes_nothing = False
            for transport in list(broker.transports):
                transport.lose()
        # An attempt that hangs is given up by its set-up time-out, 30 s at most.
        await under_test.loop.advance(37)
        for node in under_test.metadata.cluster.nodes:
            under_test.client.ready(node, under_test.now)
        await under_test.loop.advance(2)
        nodes = under_test.metadata.cluster.nodes
        assert all(under_test.client.ready(node, under_test.now) for node in nodes), seed
        await under_test.client.close()
        for broker in cluster.brokers.values():
            broker.pending.clear()


async def test_an_outage_of_a_minute_writes_about_ten_lines_a_broker(
    cluster: FakeCluster, make_client: Callable[..., ClientUnderTest], caplog: pytest.LogCaptureFixture
):
    """The whole client, whose nodes are asked for ten times a second, as a Sender with records for them would."""
    caplog.set_level(logging.WARNING)
    under_test = await make_client(reconnect_backoff_ms=50, reconnect_backoff_max_ms=50).connected(1, 2, 3)
    cluster.go_down()
    del cluster.attempts[:]
    for _ in range(600):
        for node in under_test.metadata.cluster.nodes:
            under_test.client.ready(node, under_test.now)
        under_test.metadata.request_update()
        await under_test.loop.advance(0.1)
    assert len(cluster.attempts) > 1_000
    lines = Counter(record.fields.get("node_id") for record in caplog.records)  # type: ignore[attr-defined]
    assert all(3 <= lines[node_id] <= 15 for node_id in (1, 2, 3)), lines
    assert sum(lines.values()) <= 5 * 15, lines
    told = sum(record.fields.get("suppressed", 0) for record in caplog.records)  # type: ignore[attr-defined]
    assert told + len(caplog.records) > 0.8 * len(cluster.attempts)
    cluster.come_back()
    caplog.set_level(logging.INFO)
    await under_test.loop.advance(1)
    assert [r for r in caplog.records if "connection.ready" in r.getMessage() and "suppressed" in r.getMessage()]
