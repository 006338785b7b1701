from __future__ import annotations

import math
import socket

import pytest

from aiokafkapy.client.nodes.connection_states import (
    CONNECTION_STATES,
    ClusterConnectionStates,
    ConnectionState,
    NodeConnectionState,
)
from aiokafkapy.common import ExponentialBackoff, Node
from aiokafkapy.errors import AuthenticationFailedError, IllegalTransitionError
from aiokafkapy.testing.clock import VirtualClock

NODE = Node(1, "one", 9092)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def states() -> ClusterConnectionStates:
    return ClusterConnectionStates(ExponentialBackoff(0.05, 1.0, jitter=0), ExponentialBackoff(10, 30, jitter=0))


def test_the_table_names_every_state() -> None:
    assert set(CONNECTION_STATES.successors) == set(ConnectionState)
    assert CONNECTION_STATES.initial is ConnectionState.DISCONNECTED


def test_an_unknown_node_can_be_connected_to(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    assert states.can_connect(1, clock.time())
    assert states.connection_delay(1, clock.time()) == 0
    assert not states.is_ready(1, clock.time())
    assert states.last_attempt(1) == -math.inf
    assert states.usable_at(1) == -math.inf
    assert states.setup_timeout(1) == math.inf
    assert states.address(1) == ""


def test_the_way_to_ready(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    states.connecting(NODE, clock.time())
    assert states.is_preparing_connection(1)
    assert not states.can_connect(1, clock.time())
    assert states.next_setup_deadline() == clock.time() + 10
    assert states.connection_delay(1, clock.time()) == 10
    assert not states.is_checking_api_versions(1)
    states.checking_api_versions(1)
    assert states.is_preparing_connection(1)
    assert states.is_checking_api_versions(1)
    assert states.next_setup_deadline() == math.inf
    states.ready(1)
    assert states.is_ready(1, clock.time())
    assert states.connection_delay(1, clock.time()) == math.inf
    assert states.address(1) == "one:9092"


def test_a_state_cannot_be_skipped_backwards(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    states.connecting(NODE, clock.time())
    states.ready(1)
    with pytest.raises(IllegalTransitionError):
        states.checking_api_versions(1)


def test_failures_back_off_exponentially_until_ready(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    for expected in (0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        states.connecting(NODE, clock.time())
        states.disconnected(1, clock.time())
        assert states.connection_delay(1, clock.time()) == pytest.approx(expected)
        assert not states.can_connect(1, clock.time())
        clock.advance(expected + 1e-9)
        assert states.can_connect(1, clock.time())
    states.connecting(NODE, clock.time())
    states.ready(1)
    states.disconnected(1, clock.time())
    assert states.connection_delay(1, clock.time()) == pytest.approx(0.05)


def test_set_up_time_outs_grow_with_attempts_that_did_not_become_ready(
    states: ClusterConnectionStates, clock: VirtualClock
) -> None:
    for expected in (10, 20, 30, 30):
        states.connecting(NODE, clock.time())
        assert states.next_setup_deadline() == clock.time() + expected
        assert states.nodes_with_connection_setup_timeout(clock.time() + expected - 0.001) == []
        assert states.nodes_with_connection_setup_timeout(clock.time() + expected) == [1]
        states.disconnected(1, clock.time())
    assert states.next_setup_deadline() == math.inf
    states.connecting(NODE, clock.time())
    states.checking_api_versions(1)
    states.ready(1)
    states.disconnected(1, clock.time())
    states.connecting(NODE, clock.time())
    assert states.setup_timeout(1) == 10


def test_jitter_spreads_the_back_off(clock: VirtualClock) -> None:
    delays = set()
    for node_id in range(20):
        states = ClusterConnectionStates(ExponentialBackoff(0.05, 1.0), ExponentialBackoff(10, 30))
        states.connecting(NODE._replace(node_id=node_id), clock.time())
        states.disconnected(node_id, clock.time())
        delays.add(states.connection_delay(node_id, clock.time()))
    assert len(delays) > 10
    assert all(0.04 - 1e-9 <= delay <= 0.06 + 1e-9 for delay in delays)


def test_throttling_lasts_until_the_latest_end(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    states.connecting(NODE, clock.time())
    states.ready(1)
    states.throttle(1, clock.time() + 2)
    states.throttle(1, clock.time() + 1)
    assert not states.is_ready(1, clock.time())
    assert states.throttle_delay(1, clock.time()) == 2
    assert states.usable_at(1) == states.next_usable_at(clock.time()) == clock.time() + 2
    clock.advance(2)
    assert states.is_ready(1, clock.time())
    assert states.next_usable_at(clock.time()) == math.inf
    states.throttle(9, clock.time() + 1)
    assert states.throttle_delay(9, clock.time()) == 0


def test_disconnecting_ends_throttling(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    states.connecting(NODE, clock.time())
    states.ready(1)
    states.throttle(1, clock.time() + 50)
    states.disconnected(1, clock.time())
    assert states.throttle_delay(1, clock.time()) == 0


def test_disconnecting_twice_counts_once(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    states.connecting(NODE, clock.time())
    states.disconnected(1, clock.time())
    states.disconnected(1, clock.time())
    states.disconnected(9, clock.time())
    assert states.connection_delay(1, clock.time()) == pytest.approx(0.05)


def test_refused_credentials_are_kept_until_the_next_attempt(
    states: ClusterConnectionStates, clock: VirtualClock
) -> None:
    error = AuthenticationFailedError("no")
    states.connecting(NODE, clock.time())
    states.authentication_failed(1, clock.time(), error)
    state = states.get(1)
    assert state is not None
    assert state.authentication_error is error
    assert not states.can_connect(1, clock.time())
    clock.advance(1)
    states.connecting(NODE, clock.time())
    assert state.authentication_error is None


def test_a_node_at_another_address_starts_over(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    for _ in range(5):
        states.connecting(NODE, clock.time())
        states.disconnected(1, clock.time())
    state = states.connecting(NODE._replace(host="two"), clock.time())
    assert state.failed_attempts == 0
    assert state.setup_timeout == 10


def test_retain_forgets_the_unused_and_names_the_moved(states: ClusterConnectionStates, clock: VirtualClock) -> None:
    for node in (NODE, Node(2, "two", 2), Node(3, "three", 3)):
        states.connecting(node, clock.time())
    states.disconnected(1, clock.time())
    states.disconnected(2, clock.time())
    moved = states.retain([Node(2, "elsewhere", 2), Node(4, "four", 4)])
    assert moved == [Node(2, "elsewhere", 2)]
    assert states.get(1) is None
    assert states.get(3) is not None, "it is being connected to"


class TestAddresses:
    FIRST = (socket.AF_INET6, ("::1", 1, 0, 0))
    SECOND = (socket.AF_INET, ("127.0.0.1", 1))

    def test_all_are_tried_in_turn_then_the_name_is_resolved_again(self) -> None:
        state = NodeConnectionState("h", 1)
        assert (state.needs_resolution, state.next_address()) == (True, None)
        state.set_addresses([self.FIRST, self.SECOND])
        assert (state.needs_resolution, state.next_address()) == (False, self.FIRST)
        assert (state.needs_resolution, state.next_address()) == (False, self.SECOND)
        assert (state.needs_resolution, state.next_address()) == (True, None)

    def test_a_failed_attempt_goes_on_where_it_was(self, states: ClusterConnectionStates, clock: VirtualClock) -> None:
        state = states.connecting(NODE, clock.time())
        state.set_addresses([self.FIRST, self.SECOND])
        state.next_address()
        states.disconnected(1, clock.time())
        assert states.connecting(NODE, clock.time()).next_address() == self.SECOND

    def test_an_established_connection_that_is_lost_starts_a_new_round(
        self, states: ClusterConnectionStates, clock: VirtualClock
    ) -> None:
        states.connecting(NODE, clock.time()).set_addresses([self.FIRST, self.SECOND])
        states.ready(1)
        states.disconnected(1, clock.time())
        assert states.connecting(NODE, clock.time()).needs_resolution


@pytest.mark.parametrize(
    ("is_unanswered", "has_answered", "expected"), [(True, False, True), (False, False, False), (True, True, False)]
)
def test_a_connection_that_ended_when_it_was_used_is_noted_until_the_node_has_answered(
    states: ClusterConnectionStates, clock: VirtualClock, is_unanswered: bool, has_answered: bool, expected: bool
) -> None:
    states.answered(1)  # of nobody
    state = states.connecting(Node(1, "h", 9092), clock.time())
    states.ready(1)
    if has_answered:
        states.answered(1)
    states.disconnected(1, clock.time(), is_unanswered=is_unanswered)
    assert state.was_closed_at_request is expected
    assert not state.was_closed_unanswered
