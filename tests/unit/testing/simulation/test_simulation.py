"""The world of a seed: its faults, its clocks, and clients of other kinds in it."""

from __future__ import annotations

import asyncio
import contextlib
import random
import secrets
import time
import uuid

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.errors import KafkaError
from aiokafkapy.testing.simulation import (
    FAULTS,
    FAULTS_OF_TRANSACTIONS,
    RECOVERABLE,
    Faults,
    Simulation,
    simulate,
)
from aiokafkapy.testing.simulation.virtual_world import EPOCH

from ...virtual_time import elapsed


@pytest.mark.parametrize("name", RECOVERABLE)
def test_a_producer_gets_over_each_fault_that_is_chosen_by_default(name: str) -> None:
    values = [b"%d" % n for n in range(40)]

    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("orders", 2)
        async with KafkaProducer(world.bootstrap_servers, request_timeout_ms=2_000) as producer:
            for value in values:
                await producer.send("orders", value)
                await elapsed(0.1)
        assert sorted(record.value or b"" for record in world.broker.records("orders")) == sorted(values)

    reports = simulate(scenario, 4, faults=Faults((name,), most=6, seconds=4), nodes=2)
    assert {fault.name for report in reports for fault in report.schedule} == {name}


def test_faults_hit_the_partitions_that_there_are() -> None:
    async def scenario(world: Simulation) -> None:
        for topic in ("a", "b"):
            world.broker.create_topic(topic, 2)
        await elapsed(30)

    report = simulate(scenario, 10, faults=Faults(("move leader",), most=40))
    moved = [line for each in report for line in each.timeline if "set_leader" in line]
    assert any("topic=a" in line for line in moved)
    assert any("topic=b" in line for line in moved)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"names": ("earthquake",)}, "earthquake"),
        ({"names": "reset"}, "names='reset'"),
        ({"most": -1}, "most=-1"),
        ({"seconds": 0}, "seconds=0"),
        ({"seconds": float("nan")}, "seconds=nan"),
    ],
)
def test_wrong_faults_are_an_error_at_once(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Faults(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", [*FAULTS, *FAULTS_OF_TRANSACTIONS])
def test_every_fault_can_be_chosen_and_all_is_well_in_the_end(name: str) -> None:
    async def scenario(world: Simulation) -> None:
        while world.now < 6:
            with contextlib.suppress(KafkaError):
                async with KafkaProducer(
                    world.bootstrap_servers, transactional_id="shop", request_timeout_ms=500, max_block_ms=2_000
                ) as producer:
                    while world.now < 6:
                        async with producer.transaction():
                            await producer.send("orders", b"paid")
                        await elapsed(0.3)
        await elapsed(60)
        async with KafkaProducer(world.bootstrap_servers) as producer:
            await producer.send("orders", b"last")

    reports = simulate(scenario, 2, faults=Faults((name,), most=8, seconds=5), nodes=2)
    assert {fault.name for report in reports for fault in report.schedule} == {name}


def test_clocks_and_chance_are_the_seed_s() -> None:
    seen = []

    async def scenario(world: Simulation) -> None:
        begun, wall = time.monotonic(), time.time()
        await elapsed(90)
        assert time.monotonic() - begun == pytest.approx(90, abs=0.001)
        assert time.time() - wall == pytest.approx(90, abs=0.001)
        assert time.time_ns() / 1e9 == pytest.approx(time.time())
        assert EPOCH < time.time() < EPOCH + 10_000
        seen.append(
            (uuid.uuid4(), secrets.token_hex(), random.random(), random.Random().random(), world.chance.random())
        )

    simulate(scenario, [1, 1, 2])
    assert seen[0] == seen[1]
    assert all(one != other for one, other in zip(seen[0], seen[2], strict=True))


def test_records_have_the_simulation_s_time() -> None:
    async def scenario(world: Simulation) -> None:
        async with KafkaProducer(world.bootstrap_servers) as producer:
            await elapsed(1_000)
            sent = await producer.send("orders", b"1")
            assert sent.timestamp_ms == pytest.approx(time.time() * 1000, abs=100)

    simulate(scenario, 1, faults=None)


def test_a_consumer_of_another_library_runs_in_it() -> None:
    """aiokafka's, with a group: its connections are asyncio's own."""
    from aiokafka import AIOKafkaConsumer

    async def scenario(world: Simulation) -> None:
        consumer = AIOKafkaConsumer(
            "orders", bootstrap_servers=world.bootstrap_servers, group_id="shop", auto_offset_reset="earliest"
        )
        async with KafkaProducer(world.bootstrap_servers) as producer:
            await producer.send("orders", b"1")
            await consumer.start()
            try:
                assert (await consumer.getone()).value == b"1"
                await consumer.commit()
            finally:
                await consumer.stop()

    simulate(scenario, 2, faults=None)


def test_asyncio_connects_to_nodes_and_is_refused_by_those_that_are_stopped() -> None:
    async def scenario(world: Simulation) -> None:
        host, _, port = world.bootstrap_servers.split(",")[1].partition(":")
        _, writer = await asyncio.open_connection(host, int(port))
        writer.close()
        world.broker.controls.stop_node(2)
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection(host, int(port))

    simulate(scenario, 1, faults=None)


def test_options_of_the_broker_are_taken() -> None:
    async def scenario(world: Simulation) -> None:
        assert len(world.broker.nodes) == 5
        async with KafkaProducer(world.bootstrap_servers) as producer:
            assert len(await producer.partitions_for("orders")) == 7

    simulate(scenario, 1, faults=None, nodes=5, broker={"num_partitions": 7})
