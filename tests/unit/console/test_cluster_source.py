"""A cluster is shown though some of it does not answer."""

from __future__ import annotations

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.console.cluster_source import _of_leaders
from aiokafkapy.errors import KafkaTimeoutError

A, B, C = (TopicPartition("t", index) for index in range(3))


async def look_up(places: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
    if A in places:
        raise KafkaTimeoutError("its leader is stalled")
    return dict.fromkeys(places, 7)


async def test_offsets_of_a_leader_that_does_not_answer_are_those_of_before() -> None:
    assert await _of_leaders(look_up, {1: [A, B], 2: [C]}, {A: 3, C: 4}) == {A: 3, C: 7}
    assert await _of_leaders(look_up, {}, {A: 3}) == {}


async def test_a_cluster_of_which_no_leader_answers_is_an_error() -> None:
    with pytest.raises(KafkaTimeoutError, match="its leader is stalled"):
        await _of_leaders(look_up, {1: [A]}, {A: 3})


async def test_an_error_of_ours_is_not_taken_for_a_leader_that_is_away() -> None:
    async def broken(places: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        if A in places:
            raise RuntimeError("a bug")
        return {}

    with pytest.raises(RuntimeError, match="a bug"):
        await _of_leaders(broken, {1: [A], 2: [C]}, {})
