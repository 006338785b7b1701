"""A reader's calls end: by ``close``, and within their time also where a broker hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    AuthenticationFailedError,
    IllegalStateError,
    KafkaTimeoutError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.reader import LATEST, PartitionReader
from aiokafkapy.testing.simulation import Simulation, simulate

from ..virtual_time import elapsed

FIRST = TopicPartition("t", 0)

Call = Callable[[PartitionReader], Coroutine[Any, Any, object]]
CALLS: list[Call] = [
    lambda reader: reader.partitions_for("t"),
    lambda reader: reader.list_offsets({FIRST: LATEST}),
    lambda reader: reader.beginning_offsets([FIRST]),
    lambda reader: reader.end_offsets([FIRST]),
    lambda reader: reader.commit_offsets("g", {FIRST: 1}),
    lambda reader: reader.fetch(60),
]


def stall(world: Simulation) -> None:
    """No broker answers from here on."""
    world.broker.controls.stall_connections()


@pytest.mark.parametrize("is_connected", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_a_close_ends_the_calls_of_other_tasks_at_once(call: Call, is_connected: bool) -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        async with PartitionReader(world.bootstrap_servers) as reader:
            reader.assign([FIRST])
            if is_connected:
                await reader.end_offsets([FIRST])
            stall(world)
            calling = asyncio.create_task(call(reader))
            await elapsed(1)
            if calling.done():  # partitions_for, whose answer was there
                return
            begun = world.now
            await reader.close()
            with pytest.raises(IllegalStateError, match="the reader is closed"):
                await calling
            assert world.now - begun < 1

    simulate(scenario, 1, faults=None)


@pytest.mark.parametrize("is_connected", [False, True])
def test_a_leader_that_hangs_leaves_time_to_ask_the_next_one(is_connected: bool) -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t", partitions=2)
        for partition in range(2):
            world.broker.controls.set_leader("t", partition, 1 + partition)
        async with PartitionReader(world.bootstrap_servers) as reader:
            partitions = [FIRST, TopicPartition("t", 1)]
            await reader.partitions_for("t")
            if is_connected:
                await reader.end_offsets(partitions)
            world.broker.controls.stall_connections(True, 1)
            world.broker.controls.set_leader("t", 0, 3)
            begun = world.now
            assert await reader.end_offsets(partitions, 10) == dict.fromkeys(partitions, 0)
            assert 10 / 3 <= world.now - begun < 5

    simulate(scenario, 4, faults=None)


def test_a_leader_that_hangs_on_is_said() -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        async with PartitionReader(world.bootstrap_servers) as reader:
            await reader.end_offsets([FIRST])
            stall(world)
            with pytest.raises(KafkaTimeoutError, match=r"not found within 6 s: .*did not answer within 2 s"):
                await reader.end_offsets([FIRST], 6)

    simulate(scenario, 1, faults=None)


REFUSED: dict[str, Any] = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_username": "somebody",
    "sasl_password": "wrong",
}


@pytest.mark.parametrize("is_sought", [False, True])
@pytest.mark.parametrize("call", CALLS)
def test_refused_credentials_end_each_call_at_once(call: Call, is_sought: bool) -> None:
    async def scenario(world: Simulation) -> None:
        async with PartitionReader(world.bootstrap_servers, **REFUSED) as reader:
            reader.assign([FIRST])
            if is_sought:
                reader.seek(FIRST, 0)
            for _ in range(2):
                begun = world.now
                with pytest.raises(AuthenticationFailedError):
                    await call(reader)
                assert world.now - begun < 5

    simulate(scenario, 1, faults=None)


def test_a_reader_that_is_let_in_later_goes_on_although_a_call_was_refused() -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        async with PartitionReader(world.bootstrap_servers) as reader:
            reader.assign([FIRST])
            reader.metadata.set_fatal_error(AuthenticationFailedError("wrong password"))
            with pytest.raises(AuthenticationFailedError, match="wrong password"):
                await reader.fetch(1)
            assert await reader.end_offsets([FIRST]) == {FIRST: 0}
            assert await reader.fetch(1) == []

    simulate(scenario, 1, faults=None)


def test_a_missing_right_on_a_topic_ends_each_call_at_once_and_is_asked_for_again() -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        world.broker.controls.fail_next(ApiKey.METADATA, TopicAuthorizationFailedError, "t", times=None)
        async with PartitionReader(world.bootstrap_servers) as reader:
            reader.assign([FIRST])
            for is_sought in (False, True):
                if is_sought:
                    reader.seek(FIRST, 0)
                for call in (CALLS[0], CALLS[3], CALLS[5], CALLS[5]):
                    begun = world.now
                    with pytest.raises(TopicAuthorizationFailedError, match="t: "):
                        await call(reader)
                    assert world.now - begun < 5
            world.broker.controls.clear()
            await elapsed(5)
            for _ in range(2):
                assert [one.partition for one in await reader.partitions_for("t")] == [0]
            assert await reader.end_offsets([FIRST]) == {FIRST: 0}
            assert await reader.fetch(1) == []

    simulate(scenario, 1, faults=None)
