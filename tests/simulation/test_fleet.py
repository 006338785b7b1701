"""The hourly cost of one producer of a fleet to a cluster: docs/web.md has these figures, for a thousand of them."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing.simulation import Simulation, simulate

HOUR = 3_600


@pytest.mark.parametrize(
    ("every", "requests", "connections"),
    [
        (None, {ApiKey.API_VERSIONS: 14, ApiKey.METADATA: 13, ApiKey.INIT_PRODUCER_ID: 1, ApiKey.PRODUCE: 1}, 0.7),
        (60, {ApiKey.API_VERSIONS: 63, ApiKey.METADATA: 14, ApiKey.INIT_PRODUCER_ID: 1, ApiKey.PRODUCE: 60}, 1.1),
    ],
    ids=["idle", "a record a minute"],
)
def test_an_hour_of_a_producer_costs_the_cluster_little(
    every: int | None, requests: dict[ApiKey, int], connections: float
) -> None:
    seen: Counter[int] = Counter()
    open_ones: list[int] = []

    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("orders", 6)
        world.broker.watch_requests(lambda node_id, response, seconds: seen.update([response.request.api_key]))
        async with KafkaProducer(world.bootstrap_servers) as producer:
            for second in range(HOUR):
                if second == 0 or (every and second % every == 0):
                    await producer.send("orders", b"x" * 100)
                await asyncio.sleep(1)
                open_ones.append(len(world.broker.connections()))

    simulate(scenario, seeds=1, faults=None, nodes=3, time_limit=2 * HOUR)
    assert {api: seen[api] for api in requests} == pytest.approx(requests, abs=3)
    assert set(seen) == set(requests)
    assert sum(open_ones) / HOUR == pytest.approx(connections, abs=0.15)
