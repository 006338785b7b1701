"""The distribution of tests over several processes: tests that share an expensive fixture run in one process.

Such a chain shares a Spark session or a cluster of Apache Kafka, which its first test starts. Chains are scheduled
first, the longest ones foremost; all other tests go one by one to the next idle process.

Rule: the chain follows from the test's id alone, because the scheduling process knows nothing else of a test.
"""

from __future__ import annotations

import re
from typing import Any

import pytest

__all__ = ["CHAINS", "chain_of", "make_scheduler", "place_of"]

CHAINS = {
    # These start Sparks of their own, each of several processes. One at a time beside the session's: with more of them
    # Spark's Python workers do not start within the ten seconds that it gives them.
    "spark programs": re.compile(
        r"tests/spark/(test_pipeline\.py|test_write\.py::test_a_task_that_is_run_twice"
        r"|test_security\.py::test_no_secret_is_in_spark|test_stream_faults\.py::test_a_driver_that_is_killed)"
    ),
    "spark": re.compile(r"tests/spark/"),
    "secure node": re.compile(r"tests/kafka/test_security"),
    "three nodes": re.compile(r"tests/(kafka|chaos/test_chaos\.py)|.*[-\[]kafka3[-\]]"),
    # Four chains with JVMs are enough at a time: two processes begin with these.
    "simulation": re.compile(r"tests/simulation/"),
    "project": re.compile(r"tests/unit/test_project\.py"),
    "one node": re.compile(r".*[-\[]kafka[-\]]"),
    # These share nothing, but a few are long and would otherwise run last.
    "sessions": re.compile(r"tests/system/test_security_sessions\.py"),
    "postgresql": re.compile(r"tests/system/test_outbox"),
    "site": re.compile(r"tests/documents/test_site\.py"),
}
"""A shared resource, and the ids of its users; the first that fits counts."""


def chain_of(nodeid: str) -> str | None:
    """The chain that a test belongs to, if any."""
    return next((name for name, ids in CHAINS.items() if ids.match(nodeid)), None)


def place_of(item: pytest.Item) -> int:
    """The sort key of a test in a run."""
    chain = chain_of(item.nodeid)
    return len(CHAINS) if chain is None else list(CHAINS).index(chain)


def make_scheduler(config: pytest.Config, log: object) -> object:
    """pytest-xdist's scheduler of scopes, where a scope is a chain or a single test."""
    # Imported here: the tests also run without pytest-xdist.
    from xdist.scheduler import LoadScopeScheduling

    class ChainScheduling(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
        def _split_scope(self, nodeid: str) -> str:
            return chain_of(nodeid) or nodeid

        def _reschedule(self, node: Any) -> None:
            super()._reschedule(node)
            # A process begins a test when it knows the next one. A process that replaces a crashed one is given one
            # test only, and the run would never end.
            if not node.shutting_down and self._pending_of(self.assigned_work[node]) < 2:
                super()._reschedule(node)

        def mark_test_complete(self, node: object, item_index: int, duration: float = 0) -> None:
            super().mark_test_complete(node, item_index, duration)
            # At the end of each test xdist looks at all tests of its process: thousands, most of which have long ended.
            scope = self._split_scope(self.registered_collections[node][item_index])
            if all(self.assigned_work[node][scope].values()):
                del self.assigned_work[node][scope]

    config.option.loadscopereorder = False
    return ChainScheduling(config, log)
