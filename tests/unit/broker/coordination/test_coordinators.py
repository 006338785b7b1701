"""The node that coordinates a group or transaction, while nodes stop and start."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.coordination.coordinators import Coordinators

ALL = [1, 2, 3]
NAMES = [f"group-{each}" for each in range(30)]


class Cluster:
    """Three nodes, and the coordinator of each name."""

    def __init__(self) -> None:
        self.coordinators = Coordinators()
        self.running = set(ALL)

    def stop(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.running.discard(node_id)
            self.coordinators.note_nodes(ALL, self.running)

    def start(self, *node_ids: int) -> None:
        for node_id in node_ids:
            self.running.add(node_id)
            self.coordinators.note_nodes(ALL, self.running)

    def of(self, name: str) -> int | None:
        return self.coordinators.of(name, ALL, self.running)

    def places(self) -> dict[str, int | None]:
        return {name: self.of(name) for name in NAMES}


@pytest.fixture
def cluster() -> Cluster:
    return Cluster()


def test_every_node_coordinates(cluster: Cluster) -> None:
    assert set(cluster.places().values()) == set(ALL)


@pytest.mark.parametrize(("stopped", "successor"), [(1, 2), (2, 3), (3, 1)])
def test_only_those_of_the_stopped_node_move_and_its_start_moves_none_back(
    cluster: Cluster, stopped: int, successor: int
) -> None:
    before = cluster.places()
    cluster.stop(stopped)
    after = {name: successor if place == stopped else place for name, place in before.items()}
    assert cluster.places() == after
    cluster.start(stopped)
    assert cluster.places() == after


def test_coordinators_move_on_with_the_node_that_took_over(cluster: Cluster) -> None:
    before = cluster.places()
    cluster.stop(3, 1)
    assert set(cluster.places().values()) == {2}
    cluster.start(3, 1)
    cluster.stop(2)
    assert cluster.places() == {name: 3 if place in (2, 3) else 1 for name, place in before.items()}


def test_the_first_node_that_starts_after_all_had_stopped_has_them_all(cluster: Cluster) -> None:
    cluster.stop(1, 2, 3)
    assert set(cluster.places().values()) == {None}
    cluster.start(2, 1, 3)
    assert set(cluster.places().values()) == {2}


def test_a_coordinator_that_was_moved_stays_until_its_node_stops(cluster: Cluster) -> None:
    home = cluster.of("g") or 0
    away, other = (node_id for node_id in ALL if node_id != home)
    cluster.coordinators.moved["g"] = away
    cluster.stop(other)
    cluster.start(other)
    assert cluster.of("g") == away
    cluster.stop(away)
    cluster.start(away)
    assert cluster.of("g") == home


def test_a_coordinator_that_was_taken_away_stays_away(cluster: Cluster) -> None:
    cluster.coordinators.moved["g"] = None
    cluster.stop(1)
    cluster.start(1)
    assert cluster.of("g") is None
