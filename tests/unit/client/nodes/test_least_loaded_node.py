from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from aiokafkapy.client.nodes.least_loaded_node import LeastLoadedNode, choose_least_loaded_node
from aiokafkapy.common import Node

NODES = [Node(number, f"h{number}", number) for number in range(4)]


@dataclass
class Situation:
    """Node ids by their properties."""

    usable: dict[int, int] = field(default_factory=dict)
    full: set[int] = field(default_factory=set)
    preparing: set[int] = field(default_factory=set)
    connectable: dict[int, float] = field(default_factory=dict)
    round_trips: dict[int, float] = field(default_factory=dict)

    def can_send_request(self, node_id: int, now: float) -> bool:
        return node_id in self.usable

    def in_flight_count(self, node_id: int) -> int:
        return self.usable[node_id]

    def is_connection_ready(self, node_id: int, now: float) -> bool:
        return node_id in self.usable or node_id in self.full

    def is_preparing_connection(self, node_id: int) -> bool:
        return node_id in self.preparing

    def can_connect(self, node_id: int, now: float) -> bool:
        return node_id in self.connectable

    def last_attempt(self, node_id: int) -> float:
        return self.connectable[node_id]

    def round_trip(self, node_id: int) -> float | None:
        return self.round_trips.get(node_id)


def choose(situation: Situation, offset: int = 0) -> LeastLoadedNode:
    return choose_least_loaded_node(NODES, situation, 0.0, offset)


@pytest.mark.parametrize("offset", range(4))
def test_a_connection_with_nothing_in_flight_comes_first(offset: int) -> None:
    situation = Situation(usable={1: 2, 2: 0}, preparing={3}, connectable={0: 0.0})
    assert choose(situation, offset) == (NODES[2], True)


def test_the_first_of_two_such_from_the_offset_is_chosen() -> None:
    situation = Situation(usable={1: 0, 3: 0})
    assert [choose(situation, offset).node for offset in range(4)] == [NODES[1], NODES[1], NODES[3], NODES[3]]


@pytest.mark.parametrize("offset", range(4))
def test_the_node_with_fewest_requests_in_flight_comes_next(offset: int) -> None:
    assert choose(Situation(usable={0: 4, 1: 2, 2: 3}, preparing={3}), offset).node == NODES[1]


@pytest.mark.parametrize("offset", range(4))
def test_a_near_node_with_as_few_in_flight_is_chosen(offset: int) -> None:
    round_trips = {0: 0.03, 1: 0.002, 2: 0.05, 3: 0.0045}
    idle = Situation(usable=dict.fromkeys(range(4), 0), round_trips=round_trips)
    assert choose(idle, offset).node == NODES[1]
    busy = Situation(usable={0: 2, 1: 3, 2: 2, 3: 4}, round_trips=round_trips)
    assert choose(busy, offset).node == NODES[0], "load goes before distance"


def test_a_random_difference_only_spreads_the_load() -> None:
    near = {0: 0.0010, 1: 0.0015, 2: 0.0012, 3: 0.0020}
    situation = Situation(usable=dict.fromkeys(range(4), 1), round_trips=near)
    assert [choose(situation, offset).node for offset in range(4)] == NODES
    far = {number: 0.1 + time for number, time in near.items()}
    situation = Situation(usable=dict.fromkeys(range(4), 1), round_trips=far)
    assert [choose(situation, offset).node for offset in range(4)] == NODES


def test_a_node_that_was_never_measured_counts_as_near() -> None:
    situation = Situation(usable={0: 0, 2: 0}, round_trips={0: 0.001})
    assert [choose(situation, offset).node for offset in (0, 1)] == [NODES[0], NODES[2]]


@pytest.mark.parametrize("offset", range(4))
def test_a_node_that_is_being_connected_to_comes_before_one_that_is_not(offset: int) -> None:
    assert choose(Situation(preparing={3}, connectable={0: 0.0, 1: 1.0}), offset) == (NODES[3], False)


@pytest.mark.parametrize("offset", range(4))
def test_of_unconnected_nodes_the_one_tried_longest_ago_is_chosen(offset: int) -> None:
    assert choose(Situation(connectable={0: 5.0, 1: 1.0, 2: 3.0}), offset).node == NODES[1]


def test_without_a_usable_node_none_is_chosen() -> None:
    choice = choose(Situation())
    assert not choice.has_node_available_or_connection_ready
    assert choice == (None, False)
    assert choose_least_loaded_node([], Situation(), 0.0, 0).node is None


def test_a_connection_that_is_full_is_still_a_ready_one() -> None:
    choice = choose(Situation(full={1}))
    assert choice.has_node_available_or_connection_ready
    assert choice == (None, True)
