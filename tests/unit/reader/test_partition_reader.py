"""A reader's calls end: by ``close``, and within their time also where a broker hangs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import numpy
import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    AuthenticationFailedError,
    IllegalStateError,
    InvalidTopicError,
    KafkaTimeoutError,
    OffsetOutOfRangeError,
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


WRONG: list[tuple[Callable[[Any], object], type[Exception], str]] = [
    (lambda reader: reader.seek(FIRST, 1.5), TypeError, "the offset of t-0 is a float, not an int"),
    (lambda reader: reader.seek(FIRST, True), TypeError, "the offset of t-0 is a bool"),
    (lambda reader: reader.seek(FIRST, -1), OffsetOutOfRangeError, "t-0: an offset cannot be -1"),
    (lambda reader: reader.seek(FIRST, 2**63), OffsetOutOfRangeError, f"cannot be {2**63}"),
    (lambda reader: reader.seek_to_time(FIRST, 1.5), TypeError, "the time of t-0 is a float"),
    (lambda reader: reader.seek_to_time(FIRST, 2**63), ValueError, f"the time of t-0 is {2**63}"),
    (lambda reader: reader.stop_at(FIRST, "7"), TypeError, "the offset of t-0 is a str"),
    (lambda reader: reader.stop_at(FIRST, -1), ValueError, "the offset of t-0 is -1: write 0 to"),
    (lambda reader: reader.assign(["t-0"]), TypeError, "'t-0' is not a partition"),
    (lambda reader: reader.assign([("t", 0.5)]), TypeError, "the partition of topic 't' is a float"),
    (lambda reader: reader.assign([("t", -1)]), ValueError, "the partition of topic 't' is -1"),
    (lambda reader: reader.assign([("a b", 0)]), InvalidTopicError, "'a b' is not a valid name"),
    (lambda reader: reader.list_offsets([FIRST]), TypeError, "times is a list, not a mapping"),
    (lambda reader: reader.list_offsets({FIRST: 1.5}), TypeError, "the time of t-0 is a float"),
    (lambda reader: reader.list_offsets({FIRST: 2**64}), ValueError, "the time of t-0 is 18446744073709551616"),
    (lambda reader: reader.end_offsets([None]), TypeError, "None is not a partition"),
    (lambda reader: reader.commit_offsets("g", {FIRST: 0.5}), TypeError, "the offset to commit of t-0 is a float"),
    (lambda reader: reader.commit_offsets("g", {FIRST: -1}), ValueError, "the offset to commit of t-0 is -1"),
    (lambda reader: reader.commit_offsets("", {FIRST: 1}), ValueError, "the group has no id"),
    (lambda reader: reader.commit_offsets(5, {FIRST: 1}), TypeError, "the group's id is a int, not a str"),
    (lambda reader: reader.commit_offsets("\ud800", {FIRST: 1}), ValueError, "the group's id has a lone surrogate"),
    (lambda reader: reader.commit_offsets("é" * 20_000, {FIRST: 1}), ValueError, "has 40000 bytes, .* is 32767"),
]
"""Calls with an argument that nothing can be done with."""


@pytest.mark.parametrize(("call", "kind", "text"), WRONG)
def test_a_wrong_argument_is_an_error_at_once(call: Any, kind: type[Exception], text: str) -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        async with PartitionReader(world.bootstrap_servers) as reader:
            reader.assign([FIRST])
            begun = world.now
            with pytest.raises(kind, match=text):
                answer = call(reader)
                if asyncio.iscoroutine(answer):
                    await answer
            assert world.now == begun
            assert await reader.end_offsets([FIRST]) == {FIRST: 0}

    simulate(scenario, 1, faults=None)


def test_partitions_may_be_tuples_and_numbers_may_be_numpys() -> None:
    async def scenario(world: Simulation) -> None:
        world.broker.create_topic("t")
        place = ("t", numpy.int32(0))
        reader: Any
        async with PartitionReader(world.bootstrap_servers) as reader:
            found = (await reader.list_offsets({place: numpy.int64(LATEST)}))[FIRST]
            assert found.offset == 0
            await reader.commit_offsets("g", {place: numpy.int64(7)})
            reader.assign([place])
            reader.seek(place, numpy.int64(3))
            assert reader.position(FIRST) == 3

    simulate(scenario, 1, faults=None)


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


def test_a_leader_that_hangs_on_is_named() -> None:
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
