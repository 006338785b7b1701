"""A cluster of three brokers, and the clients made on it, closed after each test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.unit.client.fakes import ClientUnderTest, FakeCluster


@pytest.fixture
def cluster() -> FakeCluster:
    cluster = FakeCluster((1, "one", 1), (2, "two", 2), (3, "three", 3))
    cluster.topics["t"] = {0: 1, 1: 2, 2: 3}
    return cluster


@pytest.fixture
async def make_client(cluster: FakeCluster) -> AsyncIterator[Callable[..., ClientUnderTest]]:
    made: list[ClientUnderTest] = []

    def make(**options: Any) -> ClientUnderTest:
        made.append(ClientUnderTest(cluster, **options))
        return made[-1]

    yield make
    for under_test in made:
        await under_test.client.close()
        assert under_test.loop.armed == []
    for broker in cluster.brokers.values():
        assert broker.transports == []
