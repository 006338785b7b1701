"""``Pipelining``: the limit of Produce requests per node, with ``max_in_flight_requests_per_connection="auto"``.

Owns the decision, from the times of answers. It knows no requests, no connections and no clock: it gets the answers,
with ``now``. Java has a fixed number. TCP Vegas is the model: with ``window`` requests in flight, each taking
``least`` times as long as it would alone, ``window * (1 - 1 / least)`` of them wait in a queue, and the rest fill the
path.

Rules:

- One request more when fewer than ``LEAST_QUEUED`` wait though the window was full, one less when more than
  ``MOST_QUEUED`` do: a distant broker gets enough to fill the connection, a near or busy one as many as it can
  process at once.
- The time of a request alone is the shortest recent time of a request of about its size, as a large one takes longer.
  It is measured again every ``MEMORY`` seconds, with one request by itself: among others its time would include their
  queue.
- Only the quickest answer of a round counts, so that a chance delay does not, and only answers to requests that were
  sent since the last change.
- Throttling, a lost connection, and an unanswered request each halve the window.
- It is always 1 to ``most``. Order and idempotence do not depend on it: it only limits requests.
"""

from __future__ import annotations

from math import inf
from typing import Final

__all__ = ["FIRST", "LEAST_QUEUED", "MEMORY", "MOST_QUEUED", "Pipelining"]

FIRST: Final = 2
"""The limit once the first request was answered."""
LEAST_QUEUED: Final = 0.5
MOST_QUEUED: Final = 1.25
MEMORY: Final = 30.0


class Pipelining:
    """The limits of one producer, by the id of the node."""

    __slots__ = ("_most", "_nodes")

    def __init__(self, most: int) -> None:
        self._most = most
        self._nodes: dict[int, _Node] = {}

    def limit(self, node_id: int) -> int:
        """The number of Produce requests that the node may have now: 1 until one was answered, and while its time is
        measured.
        """
        node = self._nodes.get(node_id)
        return 1 if node is None or node.is_measuring else node.window

    def limits(self) -> dict[int, int]:
        """The limit of each node that ever answered."""
        return {node_id: node.window for node_id, node in sorted(self._nodes.items())}

    def answered(self, node_id: int, depth: int, size: int, seconds: float, now: float) -> None:
        """A request of ``size`` bytes was answered ``seconds`` after it was sent, as the ``depth``th in flight."""
        node = self._nodes.get(node_id)
        if node is None:
            node = self._nodes[node_id] = _Node(min(FIRST, self._most), now)
        node.answered(depth, size, seconds, now, self._most)

    def throttled(self, node_id: int, now: float) -> None:
        """The node throttles us."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.change(node.window // 2, now)

    def lost(self, node_id: int, now: float) -> None:
        """A request had no answer. The next connection may go another way."""
        node = self._nodes.get(node_id)
        if node is not None:
            node.change(node.window // 2, now)
            node.begin_to_measure(now)


class _Node:
    __slots__ = ("answers", "changed_at", "is_full", "is_measuring", "least", "measured_at", "shortest", "window")

    def __init__(self, window: int, now: float) -> None:
        self.window = window
        # The shortest time of a request, by the magnitude of its size
        self.shortest: dict[int, float] = {}
        self.is_measuring = True
        self.measured_at = now
        # The round: answers to requests sent since the last change
        self.changed_at = now
        self.answers = 0
        self.least = inf
        self.is_full = False

    def answered(self, depth: int, size: int, seconds: float, now: float, most: int) -> None:
        """As ``Pipelining.answered``."""
        if seconds <= 0:
            return
        if now - self.measured_at >= MEMORY and not self.is_measuring:
            self.begin_to_measure(now)
        magnitude = size.bit_length() // 2
        shortest = min(self.shortest.get(magnitude, seconds), seconds)
        self.shortest[magnitude] = shortest
        if self.is_measuring:
            if depth == 1:
                self.is_measuring, self.measured_at = False, now
                self.change(self.window, now)
        elif now - seconds >= self.changed_at:
            self._count(seconds / shortest, depth, now, most)

    def begin_to_measure(self, now: float) -> None:
        """Measure the time of a request alone again."""
        self.shortest.clear()
        self.is_measuring, self.measured_at = True, now

    def change(self, window: int, now: float) -> None:
        """Set the limit, at least one. A new round begins."""
        self.window = max(1, window)
        self.changed_at = now
        self.answers, self.least, self.is_full = 0, inf, False

    # internals

    def _count(self, ratio: float, depth: int, now: float, most: int) -> None:
        self.answers += 1
        self.least = min(self.least, ratio)
        self.is_full = self.is_full or depth >= self.window
        if self.answers < self.window:
            return
        queued = self.window * (1 - 1 / self.least)
        if queued > MOST_QUEUED:
            self.change(self.window - 1, now)
        elif queued < LEAST_QUEUED and self.is_full and self.window < most:
            self.change(self.window + 1, now)
        else:
            self.answers, self.least, self.is_full = 0, inf, False
