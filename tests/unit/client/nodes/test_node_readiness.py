from __future__ import annotations

import math

import pytest

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.nodes.client_request import ClientRequest
from aiokafkapy.client.nodes.in_flight_requests import InFlightRequest
from aiokafkapy.client.nodes.node_readiness import NodeReadiness, WritableConnection
from aiokafkapy.common import Node
from aiokafkapy.protocol.api import ApiKey

NODE = Node(1, "one", 1)


class Connection(WritableConnection):
    def __init__(self) -> None:
        super().__init__()
        self.is_writable = True


@pytest.fixture
def connections() -> dict[int, Connection]:
    return {1: Connection()}


@pytest.fixture
def readiness(connections: dict[int, Connection]) -> NodeReadiness:
    """Node 1 is READY and has nothing in flight."""
    made = NodeReadiness(ClientConfig(bootstrap_servers="one:1"), connections)
    made.states.connecting(NODE, 10.0)
    made.states.ready(1)
    return made


def test_a_ready_node_takes_a_request(readiness: NodeReadiness) -> None:
    assert readiness.can_send_request(1, 10.0)
    assert readiness.is_connection_ready(1, 10.0)
    assert not readiness.is_preparing_connection(1)
    assert not readiness.can_connect(1, 10.0)
    assert readiness.connection_delay(NODE, 10.0) == math.inf
    assert readiness.connected_nodes == {1}
    assert readiness.last_attempt(1) == 10.0
    assert readiness.choose_node([NODE], 10.0) == (NODE, True)


def test_each_condition_alone_says_no(readiness: NodeReadiness, connections: dict[int, Connection]) -> None:
    connections[1].is_writable = False
    assert not readiness.can_send_request(1, 10.0)
    connections[1].is_writable = True

    readiness.states.throttle(1, 11.0)
    assert not readiness.can_send_request(1, 10.0)
    assert readiness.throttle_delay(1, 10.0) == 1.0
    assert readiness.can_send_request(1, 11.0)

    entry = InFlightRequest(ClientRequest(1, ApiKey.METADATA), 1, 1, None, 11.0, 20.0)
    readiness.in_flight.add(entry)
    assert not readiness.can_send_request(1, 11.0), "it is being written"
    entry.is_written = True
    assert readiness.can_send_request(1, 11.0)
    assert readiness.in_flight_count(1) == readiness.in_flight_count() == 1


def test_a_node_that_is_gone_may_be_connected_to_after_its_back_off(
    readiness: NodeReadiness, connections: dict[int, Connection]
) -> None:
    del connections[1]
    readiness.states.disconnected(1, 12.0)
    assert not readiness.can_send_request(1, 12.0)
    assert readiness.connection_failed(NODE)
    assert not readiness.can_connect(1, 12.0)
    assert readiness.can_connect(1, 12.1)
    assert readiness.choose_node([NODE], 12.0).node is None
    assert readiness.choose_node([NODE], 12.1).node == NODE


def test_a_node_never_met(readiness: NodeReadiness) -> None:
    other = Node(2, "two", 2)
    assert not readiness.can_send_request(2, 10.0)
    assert not readiness.connection_failed(other)
    assert readiness.can_connect(2, 10.0)
    assert readiness.node_api_versions(2) is None
    assert readiness.choose_node([], 10.0).node is None


def test_a_round_trip_follows_the_answers_and_outlives_the_connection(readiness: NodeReadiness) -> None:
    assert readiness.round_trip(1) is None
    readiness.measured(1, 0.004)
    assert readiness.round_trip(1) == 0.004
    readiness.measured(1, 0.404)
    assert readiness.round_trip(1) == pytest.approx(0.104), "slow once"
    for _ in range(20):
        readiness.measured(1, 0.404)
    assert readiness.round_trip(1) == pytest.approx(0.404, rel=0.01), "it stays slow"
    readiness.states.disconnected(1, 12.0)
    assert readiness.round_trip(1) is not None


def test_the_near_one_of_two_idle_nodes_is_chosen(readiness: NodeReadiness, connections: dict[int, Connection]) -> None:
    other = Node(2, "two", 2)
    connections[2] = Connection()
    readiness.states.connecting(other, 10.0)
    readiness.states.ready(2)
    assert {readiness.choose_node([NODE, other], 10.0).node for _ in range(60)} == {NODE, other}
    readiness.measured(1, 0.050)
    readiness.measured(2, 0.001)
    assert {readiness.choose_node([NODE, other], 10.0).node for _ in range(60)} == {other}
