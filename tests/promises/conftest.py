"""The clusters on which each promise is tested: the dev broker and Apache Kafka, both behind a proxy.

Tests on Apache Kafka have the mark ``kafka``. Anything that reaches the loop's exception handler, such as "never
retrieved", fails the test.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest

from aiokafkapy.broker import DevBroker

from .proxied_clusters import Cluster, DevCluster, open_dev, open_kafka

SECONDS = 90
"""Seconds per test: a broken promise often shows as a hang."""

BOTH = ["dev", pytest.param("kafka", marks=pytest.mark.kafka)]
BOTH_WITH_THREE_NODES = ["dev", pytest.param("kafka", marks=pytest.mark.kafka, id="kafka3")]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/promises/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(SECONDS))


@pytest.fixture(params=BOTH)
async def cluster(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """One node; topics are auto-created."""
    opened = open_dev(1) if request.param == "dev" else open_kafka(request.getfixturevalue("kafka"))
    async with opened as found:
        yield found


@pytest.fixture(params=BOTH_WITH_THREE_NODES)
async def cluster3(request: pytest.FixtureRequest) -> AsyncIterator[Cluster]:
    """Three nodes; topics are not auto-created."""
    if request.param == "dev":
        opened: Any = open_dev(3, auto_create_topics_enable=False)
    else:
        opened = open_kafka(request.getfixturevalue("kafka3"))
    async with opened as found:
        yield found


@pytest.fixture
async def dev_cluster() -> AsyncIterator[DevCluster]:
    """One node of the dev broker, for faults that cannot be provoked or need not be repeated on Apache Kafka."""
    async with open_dev(1) as found:
        yield found


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    """Three nodes of the dev broker without a proxy, for faults that its own controls bring about; topics are
    auto-created.
    """
    async with DevBroker(nodes=3) as broker:
        yield broker


@pytest.fixture(autouse=True)
async def silent_loop() -> AsyncIterator[list[dict[str, Any]]]:
    """Collects the calls of the loop's exception handler; the test fails if there are any."""
    told: list[dict[str, Any]] = []
    # The collection at the end need not look through older objects, imported modules above all. Nothing is frozen at
    # the end of a test, when its broker with all records is still held.
    gc.collect()
    gc.freeze()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    yield told
    gc.collect()
    await asyncio.sleep(0)
    assert told == []
