"""With any brokers, times and encoders every future resolves once, in its node's order, and nothing is left: first
in random histories, then with an encoder that fails at each kind of request in each state of the client.
"""

from __future__ import annotations

import logging
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.client.nodes import client_request
from aiokafkapy.client.nodes.client_request import ClientRequest, ClientResponse
from aiokafkapy.cluster import metadata as cluster_metadata
from aiokafkapy.errors import SerializationError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import encode_request
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.protocol.metadata import encode_metadata_request
from tests.unit.client.fakes import ClientUnderTest, FakeBroker, FakeCluster, FakeRequest


class Encoders:
    """The encoder of requests; raises for those whose API is in ``broken``."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.broken: set[int] = set()
        self.failures = 0
        monkeypatch.setattr(client_request, "encode_request", self.encode)
        monkeypatch.setattr(cluster_metadata, "encode_metadata_request", self.encode_metadata)

    def encode(self, body: Any, *args: Any) -> bytes:
        self.check(body.__api_key__)
        return encode_request(body, *args)

    def encode_metadata(self, *args: Any) -> list[bytes]:
        self.check(ApiKey.METADATA)
        return encode_metadata_request(*args)

    def whole_frame(self, version: int, correlation_id: int, client_id: str) -> list[bytes]:
        """The result of a caller's own ``encode``."""
        return [self.encode(build_request(ApiKey.LIST_GROUPS, version), correlation_id, client_id)]

    def check(self, api_key: int) -> None:
        if api_key in self.broken:
            self.failures += 1
            "\ud800".encode()


@pytest.fixture
def encoders(monkeypatch: pytest.MonkeyPatch) -> Encoders:
    return Encoders(monkeypatch)


class History:
    """One random sequence of events, and the outcomes of its requests."""

    def __init__(self, seed: int, under_test: ClientUnderTest, cluster: FakeCluster, encoders: Encoders) -> None:
        self.encoders = encoders
        self.random = random.Random(seed)
        self.under_test = under_test
        self.cluster = cluster
        self.brokers = list(cluster.brokers.values())
        self.sent: dict[int, list[int]] = defaultdict(list)
        self.resolved: dict[int, list[int]] = defaultdict(list)
        self.futures: list[Any] = []

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
            if response.was_sent:
                self.resolved[node_id].append(number)
            else:
                # It was never in the node's deque: it waits for nothing before it.
                self.sent[node_id].remove(number)
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

    def answer_oddly(self) -> None:
        """From now on, Metadata responses are of no use, or lead away from the cluster."""
        nowhere = [{"node_id": 1, "host": "", "port": 1}, {"node_id": 2, "host": "two", "port": -1}]
        self.cluster.odd_metadata = self.random.choice(
            [{}, {"error_code": 7}, {"error_code": 129}, {"brokers": []}, {"brokers": nowhere}, {"cluster_id": "other"}]
        )

    def heal(self) -> None:
        """The brokers answer everything from now on. No connection is lost by that."""
        self.encoders.broken.clear()
        self.cluster.odd_metadata = {}
        for broker in self.brokers:
            broker.behaviour = "accept"
            broker.takes_nothing = False
            for transport in list(broker.transports):
                transport.resume()
            for request in [request for request in broker.pending if not request.transport.is_closed]:
                request.respond()
            broker.pending.clear()
            broker.answering[ApiKey.LIST_GROUPS] = FakeRequest.respond

    def break_encoder(self) -> None:
        self.encoders.broken = set(
            self.random.choices([ApiKey.METADATA, ApiKey.API_VERSIONS, ApiKey.LIST_GROUPS], k=self.random.randrange(3))
        )

    async def run(self, steps: int) -> None:
        events = [self.send] * 8 + [self.answer] * 8 + [self.lose, self.garble, self.stall, self.refuse, self.ask]
        events += [self.break_encoder, self.answer_oddly, self.answer_oddly]
        for _ in range(steps):
            self.random.choice(events)()
            if self.random.random() < 0.3:
                await self.under_test.loop.advance(self.random.choice([0.0, 0.01, 0.2, 1.0, 40.0]))


@pytest.mark.parametrize("seed", range(25))
async def test_every_future_resolves_once_and_in_order(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster, encoders: Encoders, seed: int
) -> None:
    under_test = make_client(bootstrap="one:1,two:2,three:3", topics=["t"])
    history = History(seed, under_test, cluster, encoders)
    await history.run(150)
    await under_test.client.close()
    await under_test.loop.settle()
    assert all(future.done() for future in history.futures)
    assert {node_id: numbers for node_id, numbers in history.resolved.items() if numbers} == {
        node_id: numbers for node_id, numbers in history.sent.items() if numbers
    }
    assert under_test.client.nodes.in_flight_count() == 0


async def test_after_any_history_a_healthy_cluster_serves_again(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster, encoders: Encoders
) -> None:
    for seed in range(100, 110):
        under_test = make_client(bootstrap="one:1,two:2,three:3")
        history = History(seed, under_test, cluster, encoders)
        await history.run(100)
        encoders.broken.clear()
        cluster.odd_metadata = {}
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


@pytest.mark.parametrize("seed", range(200, 230))
async def test_after_any_history_metadata_that_is_wanted_comes(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster, encoders: Encoders, seed: int
) -> None:
    """It comes even if no connection ends, which would have it asked for again."""
    under_test = make_client(bootstrap="one:1,two:2,three:3", topics=["t"])
    history = History(seed, under_test, cluster, encoders)
    await history.run(40)
    history.heal()
    await under_test.loop.advance(20)
    assert not under_test.metadata.is_update_requested
    assert not under_test.metadata.cluster.is_bootstrap


async def test_an_outage_of_a_minute_writes_about_ten_lines_a_broker(
    cluster: FakeCluster, make_client: Callable[..., ClientUnderTest], caplog: pytest.LogCaptureFixture
) -> None:
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


def list_groups(node_id: int, **options: Any) -> ClientRequest:
    return ClientRequest(node_id, ApiKey.LIST_GROUPS, lambda v: build_request(ApiKey.LIST_GROUPS, v), **options)


class TestAnEncoderThatFails:
    """State by state: the request fails alone, the state is as before, and the next request goes."""

    @pytest.fixture(params=["idle", "busy", "silent", "being written"])
    async def under_test(
        self, request: pytest.FixtureRequest, make_client: Callable[..., ClientUnderTest], cluster: FakeCluster
    ) -> ClientUnderTest:
        under_test = await make_client(topics=["t"]).connected(1)
        if request.param == "busy":
            under_test.client.send(list_groups(1), under_test.now)
        elif request.param == "silent":
            await under_test.loop.advance(40)
        elif request.param == "being written":
            cluster[2].takes_nothing = True
            under_test.client.ready(under_test.node(2), under_test.now)
        return under_test

    @pytest.mark.parametrize("form", ["build", "encode", "acks 0", "probe"])
    async def test_of_a_callers_request_answers_with_the_error(
        self, under_test: ClientUnderTest, cluster: FakeCluster, encoders: Encoders, form: str
    ) -> None:
        client, now = under_test.client, under_test.now
        before = state_of(under_test)
        options: dict[str, Any] = {"expects_response": form != "acks 0"}
        if form == "encode":
            options["encode"] = encoders.whole_frame
        # On a connection that was silent, the probe before the request cannot be encoded.
        encoders.broken = {ApiKey.API_VERSIONS if form == "probe" else ApiKey.LIST_GROUPS}
        future = client.send(list_groups(1, **options), now)
        if encoders.failures:
            assert state_of(under_test) == before
            await under_test.loop.settle()
            response = future.result()
            assert isinstance(response.error, SerializationError)
            assert "surrogates" in str(response.error)
            assert not response.was_sent
        encoders.broken.clear()
        await under_test.loop.settle()
        if client.ready(under_test.node(1), now):
            again = client.send(list_groups(1), now)
            await under_test.loop.settle()
            for pending in list(cluster[1].pending):
                pending.respond()
            assert again.result().error is None

    async def test_of_a_metadata_request_is_a_failed_update_and_the_next_one_is_made(
        self, under_test: ClientUnderTest, cluster: FakeCluster, encoders: Encoders
    ) -> None:
        cluster[2].takes_nothing = False
        encoders.broken = {ApiKey.METADATA}
        under_test.metadata.request_update()
        in_flight = under_test.client.nodes.in_flight_count()
        await under_test.loop.advance(3)
        assert under_test.client.nodes.in_flight_count() <= in_flight
        assert 2 <= encoders.failures <= 10, "once per back-off"
        assert "METADATA" in under_test.metadata.describe_failure()
        assert under_test.client.ready(under_test.node(1), under_test.now), "other requests go meanwhile"
        for pending in list(cluster[1].pending):
            pending.respond()
        encoders.broken.clear()
        cluster.topics["u"] = {0: 1}
        under_test.metadata.add_topics(["u"])
        await under_test.loop.advance(2)
        assert under_test.metadata.cluster.topic("u")

    async def test_of_the_first_question_on_a_connection_ends_the_connection(
        self, under_test: ClientUnderTest, cluster: FakeCluster, encoders: Encoders
    ) -> None:
        encoders.broken = {ApiKey.API_VERSIONS}
        under_test.client.ready(under_test.node(3), under_test.now)
        await under_test.loop.settle()
        assert not cluster[3].transports
        assert under_test.client.nodes.connection_failed(under_test.node(3))
        encoders.broken.clear()
        cluster[2].takes_nothing = False
        await under_test.loop.advance(2)
        under_test.client.ready(under_test.node(3), under_test.now)
        await under_test.loop.settle()
        assert under_test.client.nodes.is_connection_ready(3, under_test.now)


def state_of(under_test: ClientUnderTest) -> Any:
    """All that a request which was never made must leave as it is."""
    client = under_test.client
    nodes = [1, 2, 3]
    return (
        client.nodes.connected_nodes,
        [client.nodes.in_flight_count(node_id) for node_id in nodes],
        [client.nodes.can_send_request(node_id, under_test.now) for node_id in nodes],
        [client.nodes.is_preparing_connection(node_id) for node_id in nodes],
        under_test.metadata.is_update_requested,
        under_test.loop.armed,
    )


async def test_a_piece_that_is_not_bytes_ends_the_connection_and_fails_as_lost(
    make_client: Callable[..., ClientUnderTest], cluster: FakeCluster
) -> None:
    """The transport may have taken a part of it: the next bytes on the connection would not be a request."""
    under_test = await make_client().connected(1)
    junk: Any = [object()]
    future = under_test.client.send(list_groups(1, encode=lambda *_: junk), under_test.now)
    await under_test.loop.settle()
    assert future.result().disconnected
    assert "object" in str(future.result().error)
    await under_test.loop.advance(2)
    under_test.client.ready(under_test.node(1), under_test.now)
    await under_test.loop.settle()
    assert under_test.client.ready(under_test.node(1), under_test.now)
