from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.metadata_updater import MetadataUpdater
from aiokafkapy.client.nodes.least_loaded_node import LeastLoadedNode, choose_least_loaded_node
from aiokafkapy.cluster.metadata import Metadata, MetadataRequestAndVersion
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.common import Node
from aiokafkapy.errors import (
    AuthenticationFailedError,
    DisconnectedError,
    KafkaError,
    RebootstrapRequiredError,
    UnsupportedVersionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.client.fakes import FakeCluster, MakeClient, send


class Client:
    """Nodes by their states, and the calls that were made."""

    def __init__(self) -> None:
        self.usable: set[int] = set()
        self.full: set[int] = set()
        self.preparing: dict[int, float] = {}
        self.back_off_until: dict[int, float] = {}
        self.done: list[tuple[str, int]] = []
        self.requests: list[MetadataRequestAndVersion] = []
        self.timeouts: list[float] = []
        self.refusal: KafkaError | None = None

    def can_send_request(self, node_id: int, now: float) -> bool:
        return node_id in self.usable

    def in_flight_count(self, node_id: int) -> int:
        return 0

    def is_connection_ready(self, node_id: int, now: float) -> bool:
        return node_id in self.usable | self.full

    def is_preparing_connection(self, node_id: int) -> bool:
        return node_id in self.preparing

    def can_connect(self, node_id: int, now: float) -> bool:
        connected = node_id in self.usable | self.full or node_id in self.preparing
        return not connected and self.back_off_until.get(node_id, 0) <= now

    def last_attempt(self, node_id: int) -> float:
        return self.preparing.get(node_id, -math.inf)

    def round_trip(self, node_id: int) -> float | None:
        return None

    def choose_node(self, nodes: Sequence[Node], now: float) -> LeastLoadedNode:
        return choose_least_loaded_node(nodes, self, now, 0)

    def initiate_connect(self, node: Node, now: float) -> None:
        self.preparing[node.node_id] = now
        self.done.append(("connect", node.node_id))

    def connection_delay(self, node: Node, now: float) -> float:
        return max(0.0, self.back_off_until.get(node.node_id, 0) - now)

    def send_internal_metadata_request(
        self, node: Node, request: MetadataRequestAndVersion, timeout: float, now: float
    ) -> KafkaError | None:
        self.done.append(("send", node.node_id))
        self.requests.append(request)
        self.timeouts.append(timeout)
        return self.refusal

    def forget_connections(self, now: float) -> None:
        self.done.append(("forget", 0))
        self.usable.clear()
        self.preparing.clear()


class Situation:
    def __init__(self, **options: Any) -> None:
        self.clock = VirtualClock()
        self.client = Client()
        self.config = ClientConfig(bootstrap_servers="a:1,b:2", **options)
        self.metadata = Metadata.of(self.config)
        self.metadata.bootstrap(self.config.bootstrap_addresses)
        self.updater = MetadataUpdater(self.config, self.metadata, self.client, self.client)

    def maybe_update(self) -> float:
        return self.updater.maybe_update(self.clock.time())

    def fetch(self, *node_ids: int, **fields: Any) -> None:
        """A whole update."""
        self.client.usable.add(self.metadata.cluster.nodes[0].node_id)
        self.maybe_update()
        self.answer(*node_ids, **fields)

    def ask_again(self, node_id: int) -> None:
        """A request is on its way to this node, after an update that was long ago."""
        self.client.usable = {node_id}
        self.metadata.request_update()
        self.clock.advance(1)
        self.maybe_update()

    def answer(self, *node_ids: int, **fields: Any) -> None:
        """Answer the request that is on its way, if there is one."""
        brokers = [{"node_id": node_id, "host": f"h{node_id}", "port": node_id} for node_id in node_ids]
        response = build_response(ApiKey.METADATA, 13, **{"brokers": brokers, "cluster_id": "c"} | fields)
        self.updater.handle_completed_response(MetadataAnswer(response), self.clock.time())

    def fail(self, why: str) -> None:
        """The request that is on its way, if there is one."""
        self.updater.handle_failed_request(self.clock.time(), DisconnectedError(why))


@pytest.fixture
def situation() -> Situation:
    return Situation()


class TestDue:
    def test_nothing_while_one_is_in_progress(self, situation: Situation) -> None:
        situation.client.usable = {-1}
        assert situation.updater.is_update_due(situation.clock.time())
        assert situation.maybe_update() == math.inf
        assert situation.updater.has_fetch_in_progress
        assert not situation.updater.is_update_due(situation.clock.time())
        assert situation.maybe_update() == math.inf
        assert situation.client.done == [("send", -1)]

    def test_nothing_before_it_is_due(self, situation: Situation) -> None:
        situation.fetch(1, 2)
        assert situation.maybe_update() == 300
        situation.metadata.request_update()
        assert 0.08 <= situation.maybe_update() <= 0.12
        assert len(situation.client.requests) == 1


class TestNodes:
    def test_one_that_can_be_connected_to_is(self, situation: Situation) -> None:
        delay = situation.maybe_update()
        assert situation.client.done == [("connect", -1)]
        assert delay == 1.0
        assert situation.updater.is_waiting_for_node

    def test_while_one_is_being_connected_to_no_other_is_for_a_second(self, situation: Situation) -> None:
        situation.maybe_update()
        situation.clock.advance(0.4)
        assert situation.maybe_update() == pytest.approx(0.6)
        situation.clock.advance(0.6)
        situation.maybe_update()
        assert situation.client.done == [("connect", -1), ("connect", -2)]
        situation.clock.advance(5)
        assert situation.maybe_update() == math.inf, "both are under way: their events come first"
        assert len(situation.client.done) == 2

    def test_a_full_connection_is_waited_for(self, situation: Situation) -> None:
        situation.fetch(1)
        situation.client.usable.clear()
        situation.client.full = {1}
        situation.metadata.request_update()
        situation.clock.advance(1)
        assert situation.maybe_update() == math.inf
        assert situation.updater.is_waiting_for_node
        assert [what for what, _ in situation.client.done] == ["send"]

    def test_when_all_back_off_the_first_end_is_waited_for(self, situation: Situation) -> None:
        now = situation.clock.time()
        situation.client.back_off_until = {-1: now + 0.3, -2: now + 0.2}
        assert situation.maybe_update() == pytest.approx(0.2)
        assert situation.client.done == []

    def test_when_no_known_node_is_left_the_bootstrap_addresses_are_tried(self, situation: Situation) -> None:
        situation.fetch(1, 2)
        now = situation.clock.advance(1)
        situation.client.usable.clear()
        situation.client.back_off_until = {1: now + 9, 2: now + 9}
        situation.metadata.request_update()
        situation.maybe_update()
        assert situation.client.done[-1] == ("connect", -1)
        assert not situation.metadata.cluster.is_bootstrap

    def test_with_recovery_off_no_bootstrap_address_is_tried(self) -> None:
        situation = Situation(metadata_recovery_strategy="none")
        situation.fetch(1)
        now = situation.clock.advance(1)
        situation.client.usable.clear()
        situation.client.back_off_until = {1: now + 9}
        situation.metadata.request_update()
        assert situation.maybe_update() == 9
        assert [what for what, _ in situation.client.done] == ["send"]


class TestAnswers:
    def test_versions_and_partiality_are_remembered(self, situation: Situation) -> None:
        situation.fetch(1)
        situation.client.usable = {1}
        situation.metadata.add_topics(["t"])
        situation.maybe_update()
        assert situation.client.requests[-1].is_partial
        situation.metadata.add_topics(["u"])
        situation.answer(1, topics=[{"name": "t", "error_code": 0, "partitions": []}])
        assert situation.metadata.need_partial_update, "for u, which came after the request"

    def test_one_without_brokers_is_a_failure(self, situation: Situation) -> None:
        version = situation.metadata.update_version
        situation.fetch()
        assert situation.metadata.update_version == version
        assert "no brokers" in situation.metadata.describe_failure()
        assert situation.maybe_update() > 0

    def test_so_is_one_with_an_error(self, situation: Situation) -> None:
        situation.fetch(1, error_code=7)
        assert situation.metadata.cluster.is_bootstrap
        assert situation.metadata.last_failure is not None

    def test_so_is_a_request_without_answer(self, situation: Situation) -> None:
        situation.client.usable = {-1}
        situation.maybe_update()
        situation.fail("cut")
        assert not situation.updater.has_fetch_in_progress
        assert 0.08 <= situation.maybe_update() <= 0.12
        situation.fail("again")
        assert "cut" in situation.metadata.describe_failure(), "nothing was in progress"

    def test_so_is_a_request_that_cannot_be_made(self, situation: Situation) -> None:
        situation.client.usable = {-1}
        situation.client.refusal = UnsupportedVersionError("none in common")
        assert 0.08 <= situation.maybe_update() <= 0.12
        assert not situation.updater.has_fetch_in_progress

    def test_one_that_nobody_waits_for_is_dropped(self, situation: Situation) -> None:
        situation.answer(1)
        assert situation.metadata.cluster.is_bootstrap

    def test_time_outs_begin_small_and_grow_with_failures(self, situation: Situation) -> None:
        for _ in range(5):
            situation.client.usable = {-1}
            situation.maybe_update()
            situation.fail("cut")
            situation.clock.advance(2)
        assert situation.client.timeouts == [5, 10, 20, 30, 30]
        situation.fetch(1)
        situation.ask_again(1)
        assert situation.client.timeouts[-1] == 5

    @pytest.mark.parametrize("strategy", ["rebootstrap", "none"])
    @pytest.mark.parametrize("is_known", [False, True])
    @pytest.mark.parametrize(
        "fields",
        [
            {},
            {"error_code": 7},
            {"error_code": 129},
            {"brokers": []},
            {"brokers": [{"node_id": 1, "host": "", "port": 1}]},
            {"cluster_id": "d"},
            {"cluster_id": None},
        ],
        ids=str,
    )
    def test_after_any_answer_the_listeners_are_told_and_another_request_is_made(
        self, fields: dict[str, Any], is_known: bool, strategy: str
    ) -> None:
        """The network client is a listener, and has its timer armed by that: else nobody asks again."""
        situation = Situation(metadata_recovery_strategy=strategy)
        if is_known:
            situation.fetch(1)
            situation.ask_again(1)
        else:
            situation.client.usable = {-1}
            situation.maybe_update()
        told: list[float] = []
        situation.metadata.add_listener(lambda: told.append(situation.maybe_update()))
        asked = len(situation.client.requests)
        situation.answer(1, **fields)
        assert told
        situation.clock.advance(min(told[-1], 300))
        situation.client.usable = {node.node_id for node in situation.metadata.cluster.nodes}
        situation.maybe_update()
        assert len(situation.client.requests) > asked


class TestDisconnections:
    def test_a_lost_server_asks_for_an_update(self, situation: Situation) -> None:
        situation.fetch(1)
        situation.updater.handle_server_disconnect(DisconnectedError("it was lost"))
        assert situation.metadata.need_full_update

    def test_refused_credentials_are_fatal(self, situation: Situation) -> None:
        error = AuthenticationFailedError("no")
        situation.updater.handle_server_disconnect(error)
        assert situation.metadata.fatal_error is error


class TestRebootstrap:
    def test_after_the_trigger_without_metadata_all_is_forgotten(self) -> None:
        situation = Situation(metadata_recovery_rebootstrap_trigger_ms=10_000)
        situation.fetch(1)
        situation.client.usable.clear()
        situation.clock.advance(1)
        situation.metadata.request_update()
        situation.client.preparing = {1: situation.clock.time()}
        situation.maybe_update()
        situation.clock.advance(9.9)
        situation.maybe_update()
        before = situation.metadata.cluster
        assert not before.is_bootstrap
        situation.clock.advance(0.2)
        situation.maybe_update()
        assert situation.metadata.cluster.is_bootstrap
        assert ("forget", 0) in situation.client.done
        assert situation.client.done[-1] == ("connect", -1)

    def test_an_answer_starts_the_count_again(self) -> None:
        situation = Situation(metadata_recovery_rebootstrap_trigger_ms=10_000)
        for _ in range(5):
            situation.fetch(1)
            situation.client.usable = {1}
            situation.metadata.request_update()
            situation.clock.advance(9)
        assert ("forget", 0) not in situation.client.done

    def test_rebootstrap_required(self, situation: Situation) -> None:
        situation.fetch(1)
        situation.ask_again(1)
        situation.answer(error_code=129)
        assert situation.metadata.cluster.is_bootstrap
        assert situation.updater.is_update_due(situation.clock.time() + 0.2)

    def test_rebootstrap_required_by_a_bootstrap_address_is_a_failed_update(self, situation: Situation) -> None:
        for failures in (1, 2):
            situation.client.usable = {-1}
            situation.maybe_update()
            situation.answer(error_code=129)
            assert ("forget", 0) in situation.client.done, "another address may be tried"
            assert situation.maybe_update() >= 0.08 * failures, "with back-off"
            assert isinstance(situation.metadata.last_failure, RebootstrapRequiredError)
            situation.client.done.clear()
            situation.clock.advance(1)
        situation.fetch(1)
        assert not situation.metadata.cluster.is_bootstrap

    def test_rebootstrap_required_with_recovery_off_is_a_failed_update(self) -> None:
        situation = Situation(metadata_recovery_strategy="none")
        situation.fetch(1)
        situation.ask_again(1)
        situation.answer(error_code=129)
        assert not situation.metadata.cluster.is_bootstrap
        assert situation.metadata.last_failure is not None

    def test_metadata_of_another_cluster_is_not_taken(self, situation: Situation) -> None:
        situation.fetch(1)
        known = situation.metadata.cluster
        assert known.cluster_id == "c"
        situation.ask_again(1)
        situation.answer(1, cluster_id="d")
        assert situation.metadata.cluster.is_bootstrap
        assert ("forget", 0) in situation.client.done
        assert situation.updater.is_update_due(situation.clock.time() + 0.2)
        # Reached by way of the bootstrap addresses, it is the cluster that the user wants.
        situation.clock.advance(1)
        situation.client.usable = {-1}
        situation.maybe_update()
        situation.answer(1, cluster_id="d")
        assert situation.metadata.cluster.cluster_id == "d"

    def test_with_recovery_off_another_cluster_is_taken_as_it_is(self) -> None:
        situation = Situation(metadata_recovery_strategy="none")
        situation.fetch(1)
        situation.ask_again(1)
        situation.answer(1, cluster_id="d")
        assert situation.metadata.cluster.cluster_id == "d"


class TestRebootstrapOfAClient:
    async def test_a_cluster_that_moved_is_found_through_the_bootstrap_addresses(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(bootstrap="seed:9,one:1", topics=["t"]).connected(1, 2, 3)
        other = FakeCluster((11, "seed", 9))
        other.topics["t"] = {0: 11}
        transports = [transport for broker in cluster.brokers.values() for transport in broker.transports]
        cluster.brokers = other.brokers
        for broker in cluster.brokers.values():
            broker.cluster = other
        for transport in transports:
            transport.lose()
        assert not under_test.client.nodes.connections
        await under_test.loop.advance(3)
        assert [node.node_id for node in under_test.metadata.cluster.nodes] == [11]
        leader = under_test.metadata.cluster.partitions_for_topic("t")[0].leader
        assert leader == 11

    async def test_known_metadata_is_kept_while_no_broker_answers(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(topics=["t"]).connected(1)
        cluster.go_down()
        await under_test.loop.advance(60)
        assert under_test.metadata.cluster.partition_count("t") == 3

    async def test_all_is_forgotten_after_the_trigger(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(topics=["t"], metadata_recovery_rebootstrap_trigger_ms=20_000).connected(1)
        cluster.go_down()
        await under_test.loop.advance(19)
        before = under_test.metadata.cluster
        assert not before.is_bootstrap
        await under_test.loop.advance(3)
        assert under_test.metadata.cluster.is_bootstrap
        cluster.come_back()
        await under_test.loop.advance(2)
        assert under_test.metadata.cluster.partition_count("t") == 3

    async def test_a_broker_may_ask_for_it(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client(topics=["t"]).connected(1, 2, 3)
        futures = [send(under_test), send(under_test, 2)]
        for broker in cluster.brokers.values():
            broker.answers.discard(ApiKey.METADATA)
        await under_test.loop.advance(1)
        under_test.metadata.request_update()
        await under_test.loop.settle()
        (request,) = [r for broker in cluster.brokers.values() for r in broker.pending if r.api_key == ApiKey.METADATA]
        for broker in cluster.brokers.values():
            broker.answers.add(ApiKey.METADATA)
        request.respond(error_code=129)
        assert under_test.metadata.cluster.is_bootstrap
        assert all(future.result().disconnected for future in futures)
        await under_test.loop.advance(0.5)
        assert under_test.metadata.cluster.partition_count("t") == 3

    async def test_with_the_strategy_none_only_known_nodes_are_tried(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(bootstrap="seed:9,one:1", metadata_recovery_strategy="none").started()
        cluster.go_down()
        del cluster.attempts[:]
        await under_test.loop.advance(10)
        assert cluster.attempts
        assert ("seed", 9) not in cluster.attempts


class TestOutage:
    """No broker answers a client that has metadata."""

    async def test_metadata_requests_and_attempts_are_bounded_by_the_back_off(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1, 2, 3)
        cluster.go_down()
        del cluster.attempts[:]
        for _ in range(600):
            for node in under_test.metadata.cluster.nodes:
                under_test.client.ready(node, under_test.now)
            under_test.metadata.request_update()
            under_test.metadata.request_update_for_new_topics()
            await under_test.loop.advance(0.1)
        # Four addresses (three brokers, one bootstrap), each 60 s / (1 s ± 20 %) and the first quick ones.
        assert len(cluster.attempts) <= 4 * (60 / 0.8 + 6)

    async def test_failing_answers_are_asked_for_at_the_back_offs_rate(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        before = sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values())
        cluster.metadata = lambda request: {"brokers": [], "topics": []}  # type: ignore[method-assign]
        for number in range(600):
            under_test.metadata.request_update()
            under_test.metadata.add_topics([f"t{number}"])
            await under_test.loop.advance(0.1)
        asked = sum(broker.count(ApiKey.METADATA) for broker in cluster.brokers.values()) - before
        assert 50 <= asked <= 60 / 0.8 + 5

    async def test_recovery_takes_a_back_off_and_a_round_trip(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().connected(1)
        cluster.go_down()
        await under_test.loop.advance(30)
        cluster.come_back()
        version = under_test.metadata.update_version
        await under_test.loop.advance(1.0)
        assert under_test.metadata.update_version > version

    async def test_a_metadata_version_that_no_side_shares_is_a_failed_update(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[1].versions[ApiKey.METADATA] = (90, 91)
        under_test = make_client()
        await under_test.loop.advance(0.5)
        assert under_test.metadata.cluster.is_bootstrap
        assert isinstance(under_test.metadata.last_failure, UnsupportedVersionError)
        assert "METADATA" in under_test.metadata.describe_failure()


class TestSilence:
    """No broker has answered since the start."""

    @pytest.mark.parametrize("behaviour", ["refuse", "hang"])
    async def test_it_is_logged_after_a_moment_with_every_address_and_then_seldom(
        self, make_client: MakeClient, cluster: FakeCluster, caplog: pytest.LogCaptureFixture, behaviour: str
    ) -> None:
        for broker in cluster.brokers.values():
            broker.behaviour = behaviour
        under_test = make_client(bootstrap="one:1,two:2")
        await under_test.loop.advance(1.4)
        assert not told(caplog)
        await under_test.loop.advance(0.6)
        (line,) = told(caplog)
        assert line["addresses"] == ["one:1", "two:2"]
        assert ("refused" if behaviour == "refuse" else "one:1") in line["error"]
        await under_test.loop.advance(120)
        assert len(told(caplog)) == 5

    async def test_it_ends_with_the_first_answer_and_arms_nothing_after_it(
        self, make_client: MakeClient, cluster: FakeCluster, caplog: pytest.LogCaptureFixture
    ) -> None:
        cluster.go_down()
        under_test = make_client()
        await under_test.loop.advance(0.2)
        cluster.come_back()
        await under_test.loop.advance(1)
        assert not under_test.metadata.cluster.is_bootstrap
        await under_test.loop.advance(100)
        assert not told(caplog)


def told(caplog: pytest.LogCaptureFixture) -> list[dict[str, Any]]:
    """The fields of each line that says so."""
    return [line.fields for line in caplog.records if "metadata.no_answer" in line.getMessage()]  # type: ignore[attr-defined]
