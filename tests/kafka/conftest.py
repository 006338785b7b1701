"""Real Apache Kafka for these tests: one node and three, each started once, when first asked for.

Every test here carries the mark `kafka`. Without Java the tests are skipped with the reason, or fail where
AIOKAFKAPY_REQUIRE_KAFKA=1 says that CI must not pass without them.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafkapy.testing import ApacheKafka, KafkaUnavailableError

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture(scope="session")
def _one_node() -> Iterator[ApacheKafka]:
    yield from _cluster(ApacheKafka())


@pytest.fixture(scope="session")
def _three_nodes() -> Iterator[ApacheKafka]:
    yield from _cluster(ApacheKafka(nodes=3, config={"auto.create.topics.enable": False}))


@pytest.fixture
def kafka(_one_node: ApacheKafka) -> ApacheKafka:
    """One real node, which is up; a topic that is asked for comes into being."""
    _one_node.restore_blocking()
    return _one_node


@pytest.fixture
def kafka3(_three_nodes: ApacheKafka) -> ApacheKafka:
    """Three real nodes, all up whatever the test before did to them; topics do not come into being by themselves."""
    _three_nodes.restore_blocking()
    return _three_nodes


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"


def _cluster(cluster: ApacheKafka) -> Iterator[ApacheKafka]:
    # Synchronous on purpose: a session outlives the event loops of its tests.
    try:
        cluster.__enter__()
    except KafkaUnavailableError as error:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA") == "1":
            pytest.fail(f"real Kafka is required here: {error}", pytrace=False)
        pytest.skip(f"NO REAL KAFKA: {error}")
    try:
        yield cluster
    finally:
        cluster.__exit__()
