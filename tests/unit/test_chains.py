"""The distribution of tests over processes: chains that share a fixture."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace
from typing import Any

import pytest

from tests.chains import chain_of, make_scheduler


@pytest.mark.parametrize(
    ("nodeid", "chain"),
    [
        ("tests/spark/test_pipeline.py::test_the_demo_ends", "spark programs"),
        ("tests/spark/test_security.py::test_no_secret_is_in_spark_s_interface", "spark programs"),
        ("tests/spark/test_read.py::test_a_row[kafka]", "spark"),
        ("tests/kafka/test_producer.py::test_a_batch[none]", "three nodes"),
        ("tests/kafka/test_security.py::test_a_listener[SSL]", "secure node"),
        ("tests/chaos/test_chaos.py::test_a_round", "three nodes"),
        ("tests/promises/test_once.py::test_a_bump[kafka3]", "three nodes"),
        ("tests/promises/test_once.py::test_a_bump[kafka3-True]", "three nodes"),
        ("tests/promises/test_time.py::test_linger[kafka]", "one node"),
        ("tests/promises/test_time.py::test_linger[uvloop-kafka-1]", "one node"),
        ("tests/promises/test_time.py::test_linger[dev]", None),
        ("tests/system/test_security_sessions.py::test_a_minute", "sessions"),
        ("tests/system/test_stock_clients.py::test_kafka_python_consumes", None),
        ("tests/unit/cluster/test_metadata.py::test_a_topic", None),
    ],
)
def test_tests_that_share_a_session_or_a_cluster_are_a_chain(nodeid: str, chain: str | None) -> None:
    assert chain_of(nodeid) == chain


class Process:
    """One of xdist's, of which every test ends in its turn."""

    def __init__(self, name: str) -> None:
        self.gateway = SimpleNamespace(id=name)
        self.shutting_down = False
        self.given: deque[int] = deque()
        self.done: list[str] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given.extend(indices)

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_chain_is_one_processs_and_of_other_tests_that_ended_nothing_is_kept(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    loadscope = pytest.importorskip("xdist.scheduler.loadscope")
    monkeypatch.setattr(loadscope, "parse_tx_spec_config", lambda _: ["popen"] * 2)
    monkeypatch.setattr(request.config.option, "loadscopereorder", True, raising=False)
    scheduling: Any = make_scheduler(request.config, SimpleNamespace(loadscopesched=lambda *_: None))
    chained = [f"tests/spark/test_read.py::test_{number}" for number in range(20)]
    ids = [f"tests/unit/test_a.py::test_{number}" for number in range(100)] + chained
    processes = [Process("first"), Process("second")]
    for process in processes:
        scheduling.add_node(process)
    for process in processes:
        scheduling.add_node_collection(process, list(ids))
    scheduling.schedule()
    while scheduling.has_pending:
        for process in processes:
            if process.given:
                index = process.given.popleft()
                process.done.append(ids[index])
                scheduling.mark_test_complete(process, index)
                assert len(scheduling.assigned_work[process]) <= 4
    assert sorted(processes[0].done + processes[1].done) == sorted(ids)
    assert [set(chained) <= set(process.done) for process in processes].count(True) == 1
    assert all(process.shutting_down for process in processes)


def test_a_process_that_replaces_a_crashed_one_knows_the_test_after_its_first(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    loadscope = pytest.importorskip("xdist.scheduler.loadscope")
    monkeypatch.setattr(loadscope, "parse_tx_spec_config", lambda _: ["popen"])
    monkeypatch.setattr(request.config.option, "loadscopereorder", True, raising=False)
    scheduling: Any = make_scheduler(request.config, SimpleNamespace(loadscopesched=lambda *_: None))
    ids = [f"tests/unit/test_a.py::test_{number}" for number in range(4)]
    crashed, replacing = Process("first"), Process("second")
    scheduling.add_node(crashed)
    scheduling.add_node_collection(crashed, list(ids))
    scheduling.schedule()
    assert scheduling.remove_node(crashed) == ids[0]
    scheduling.add_node(replacing)
    scheduling.add_node_collection(replacing, list(ids))
    scheduling.schedule()
    assert len(replacing.given) == 2
