"""The node that coordinates a group or a transactional id.

Owns the moves of coordinators; the nodes are arguments. Kafka's counterparts are the leaders of the partitions of
``__consumer_offsets`` and ``__transaction_state``.

Rules:

- each name belongs to a node, whether that runs or not: the stop of one moves no coordinator of another;
- the coordinators of a node that stops go to the next one that runs, by ids in a ring, and stay there when it starts;
- one that a test has moved stays until its node stops; one that it has taken away (None) until the test moves it.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["Coordinators"]


class Coordinators:
    """The coordinators of one cluster."""

    __slots__ = ("_went_to", "moved")

    def __init__(self) -> None:
        # by a node that has stopped once: its successor
        self._went_to: dict[int, int] = {}
        self.moved: dict[str, int | None] = {}
        """By name, the node that ``controls.move_coordinator`` has chosen."""

    def of(self, key: str, all_nodes: Collection[int], running: Collection[int]) -> int | None:
        """The running node that coordinates a group or transactional id; None when no node does."""
        moved_to = self.moved.get(key, -1)
        if not running or moved_to is None:
            return None
        if moved_to in running:
            return moved_to
        # Not hash(): the answer must be the same in every process and after a restart.
        return self._successor(sum(key.encode()) % len(all_nodes), sorted(all_nodes), running)

    def note_nodes(self, all_nodes: Collection[int], running: Collection[int]) -> None:
        """Hear of a node that has started or stopped."""
        if not running:
            return  # the first node that starts is the successor of all
        ring = sorted(all_nodes)
        self._went_to |= {node_id: self._successor(index, ring, running) for index, node_id in enumerate(ring)}
        self.moved = {key: node_id for key, node_id in self.moved.items() if node_id is None or node_id in running}

    # internals

    def _successor(self, index: int, ring: list[int], running: Collection[int]) -> int:
        present = self._went_to.get(ring[index], ring[index])
        return next(node_id for node_id in (present, *ring[index:], *ring[:index]) if node_id in running)
