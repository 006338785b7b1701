from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.client.api_versions_handshake import ApiVersionsHandshake
from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.client.nodes.connection_states import ConnectionState
from aiokafkapy.client.nodes.in_flight_requests import InFlightRequest
from aiokafkapy.client.nodes.node_readiness import NodeReadiness
from aiokafkapy.client.transport.connection_log import ConnectionLog
from aiokafkapy.common import Node
from aiokafkapy.errors import KafkaError, SerializationError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from tests.unit.client.fakes import ClientUnderTest, FakeCluster, MakeClient, state_of


class Connection:
    node_id = 1


class Pipeline:
    """Keeps the versions and time-outs that were asked with."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, float]] = []
        self.error: KafkaError | None = None

    def write_internal(self, connection: Any, request: Any, version: int, now: float, timeout: float) -> None:
        assert (request.node_id, request.api_key) == (1, ApiKey.API_VERSIONS)
        if self.error is not None:
            raise self.error
        self.asked.append((version, timeout))


class Setting:
    def __init__(self) -> None:
        self.nodes = NodeReadiness(ClientConfig(bootstrap_servers="one:1"), {})
        self.nodes.states.connecting(Node(1, "one", 1), 0.0)
        self.pipeline = Pipeline()
        pipeline: Any = self.pipeline
        self.connection: Any = Connection()
        self.ended: list[object] = []
        self.handshake = ApiVersionsHandshake(
            self.nodes,
            pipeline,
            ConnectionLog(),
            request_timeout=30.0,
            on_ready=lambda connection, now: self.ended.append("ready"),
            on_failed=lambda connection, error: self.ended.append(error),
        )

    def begin_anew(self) -> None:
        """Begin on a new connection: the last one has ended."""
        state = self.nodes.states.get(1)
        if state is not None and state.state is not ConnectionState.CONNECTING:
            self.nodes.states.disconnected(1, 0.0)
            self.nodes.states.connecting(Node(1, "one", 1), 0.0)
        self.handshake.begin(self.connection, 0.0)

    def answer(self, body_version: int = 0, **fields: Any) -> None:
        """Answer the last question."""
        version, _ = self.pipeline.asked[-1]
        entry = InFlightRequest(ClientRequest(1, ApiKey.API_VERSIONS), version, 0, None, 0.0, 30.0, is_internal=True)
        body: Any = build_response(ApiKey.API_VERSIONS, body_version, **fields)
        self.handshake.handle_response(self.connection, entry, body, 0.0)


def test_the_newest_version_is_asked_with_and_an_answer_ends_it() -> None:
    setting = Setting()
    setting.handshake.begin(setting.connection, 0.0)
    ((version, timeout),) = setting.pipeline.asked
    assert version == 4
    assert 8 <= timeout <= 12, "as long as setting a connection up"
    state = setting.nodes.states.get(1)
    assert state is not None
    assert state.state is ConnectionState.CHECKING_API_VERSIONS
    setting.answer(4, api_keys=[{"api_key": 3, "min_version": 0, "max_version": 9}])
    assert setting.ended == ["ready"]
    versions = setting.nodes.api_versions.get(1)
    assert versions is not None
    assert versions.ranges == {3: (0, 9)}


@pytest.mark.parametrize(("hint", "version"), [(2, 2), (9, 3), (None, 0)])
def test_a_refusal_is_followed_by_an_older_version(hint: int | None, version: int) -> None:
    setting = Setting()
    setting.handshake.begin(setting.connection, 0.0)
    keys = [] if hint is None else [{"api_key": 18, "min_version": 0, "max_version": hint}]
    setting.answer(error_code=35, api_keys=keys)
    assert [asked for asked, _ in setting.pipeline.asked] == [4, version]
    assert setting.ended == []


def test_a_refusal_of_version_0_is_the_end() -> None:
    setting = Setting()
    setting.handshake.begin(setting.connection, 0.0)
    setting.answer(error_code=35)
    setting.answer(error_code=35)
    (error,) = setting.ended
    assert "did not tell its API versions" in str(error)


def test_an_answer_to_a_probe_of_a_ready_connection_changes_only_the_known_versions() -> None:
    setting = Setting()
    setting.handshake.begin(setting.connection, 0.0)
    setting.nodes.states.ready(1)
    setting.answer(4, api_keys=[{"api_key": 3, "min_version": 0, "max_version": 5}])
    assert setting.ended == []


def test_a_question_that_cannot_be_encoded_is_the_end() -> None:
    setting = Setting()
    setting.pipeline.error = SerializationError("no")
    setting.handshake.begin(setting.connection, 0.0)
    assert setting.ended == [setting.pipeline.error]


def test_after_an_end_over_the_newest_version_an_older_one_is_tried_and_kept_if_it_is_answered() -> None:
    setting = Setting()
    for _ in range(3):
        setting.begin_anew()
    assert [version for version, _ in setting.pipeline.asked] == [4, 3, 4], "a broker may have been restarted only"
    setting.begin_anew()
    setting.answer(3)
    setting.begin_anew()
    assert [version for version, _ in setting.pipeline.asked[3:]] == [3, 3]
    assert setting.ended == ["ready"]


def test_a_node_that_answered_is_asked_with_the_newest_version_again() -> None:
    setting = Setting()
    for _ in range(2):
        setting.begin_anew()
        setting.answer(4)
    assert [version for version, _ in setting.pipeline.asked] == [4, 4]


class TestInAClient:
    """On connections to brokers of all ages."""

    async def test_an_old_broker_is_asked_again_with_a_version_it_has(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        cluster[2].versions[ApiKey.API_VERSIONS] = (0, 2)  # Kafka 2.1
        under_test = await make_client().connected(2)
        asked = [r.header.api_version for r in cluster[2].requests if r.api_key == ApiKey.API_VERSIONS]
        assert asked == [4, 2]
        versions = under_test.client.nodes.node_api_versions(2)
        assert versions is not None
        assert versions.latest_usable_version(ApiKey.API_VERSIONS) == 2

    async def test_a_refusal_that_names_no_versions_falls_back_to_version_0(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client().started()
        cluster[2].answers.clear()
        under_test.client.ready(under_test.node(2), under_test.now)
        await under_test.loop.settle()
        request = cluster[2].pending.pop()
        cluster[2].transport.receive(
            b"\0\0\0\x0a" + request.header.correlation_id.to_bytes(4, "big") + b"\0\x23\0\0\0\0"
        )
        assert cluster[2].pending[0].header.api_version == 0
        cluster[2].answer_api_versions(cluster[2].pending[0])
        assert state_of(under_test, 2) is ConnectionState.READY

    async def test_another_error_closes_the_connection(self, make_client: MakeClient, cluster: FakeCluster) -> None:
        under_test = await make_client().started()
        cluster[2].answers.clear()
        under_test.client.ready(under_test.node(2), under_test.now)
        await under_test.loop.settle()
        cluster[2].pending[0].respond(error_code=42)
        await under_test.loop.settle()
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED

    async def test_a_broker_that_does_not_report_its_versions_is_given_up_with_the_set_up_time(
        self, make_client: MakeClient, cluster: FakeCluster
    ) -> None:
        under_test = await make_client(socket_connection_setup_timeout_ms=1_000).started()
        cluster[2].answers.clear()
        under_test.client.ready(under_test.node(2), under_test.now)
        await under_test.loop.settle()
        assert state_of(under_test, 2) is ConnectionState.CHECKING_API_VERSIONS
        await under_test.loop.advance(1.3)
        assert state_of(under_test, 2) is ConnectionState.DISCONNECTED

    async def test_brokers_of_all_ages_give_metadata(self, cluster: FakeCluster) -> None:
        for version in range(14):
            for broker in cluster.brokers.values():
                broker.versions[ApiKey.METADATA] = (0, version)
                broker.versions[ApiKey.API_VERSIONS] = (0, min(version // 3, 4))
            under_test = await ClientUnderTest(cluster, topics=["t"]).started()
            assert under_test.metadata.cluster.partition_count("t") == 3, version
            await under_test.client.close()
