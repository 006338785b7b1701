"""The distribution of tests over processes: chains that share a fixture."""

from __future__ import annotations

import pytest

from tests.chains import CHAINS, chain_of


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


def test_every_chain_has_tests(request: pytest.FixtureRequest) -> None:
    """A pattern that no test's id fits any more, as after a file was renamed, would let clusters be started anew."""
    collected = {chain_of(item.nodeid) for item in request.session.items}
    if "spark" not in collected or "one node" not in collected:
        pytest.skip("not all tests were collected")
    assert collected >= set(CHAINS)
