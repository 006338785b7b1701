"""A cluster is shown though some of it does not answer."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.console import cluster_source
from aiokafkapy.console.cluster_source import ClusterSource, offsets_of_leaders
from aiokafkapy.console.source import NewRecord, Written
from aiokafkapy.errors import KafkaTimeoutError
from aiokafkapy.producer.records import RecordMetadata

A, B, C = (TopicPartition("t", index) for index in range(3))


async def look_up(places: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
    if A in places:
        raise KafkaTimeoutError("its leader is stalled")
    return dict.fromkeys(places, 7)


async def test_offsets_of_a_leader_that_does_not_answer_are_those_of_before() -> None:
    assert await offsets_of_leaders(look_up, {1: [A, B], 2: [C]}, {A: 3, C: 4}) == {A: 3, C: 7}
    assert await offsets_of_leaders(look_up, {}, {A: 3}) == {}


async def test_a_cluster_of_which_no_leader_answers_is_an_error() -> None:
    with pytest.raises(KafkaTimeoutError, match="its leader is stalled"):
        await offsets_of_leaders(look_up, {1: [A]}, {A: 3})


async def test_an_error_of_ours_is_not_taken_for_a_leader_that_is_away() -> None:
    async def broken(places: list[TopicPartition], timeout: float) -> dict[TopicPartition, int]:
        if A in places:
            raise RuntimeError("a bug")
        return {}

    with pytest.raises(RuntimeError, match="a bug"):
        await offsets_of_leaders(broken, {1: [A], 2: [C]}, {})


class FakeProducer:
    made: list[FakeProducer]

    def __init__(self, **options: object) -> None:
        self.is_closed = False
        self.made.append(self)

    async def start(self) -> None:
        await asyncio.sleep(0)

    async def send(self, topic: str, *arguments: object, **options: object) -> RecordMetadata:
        return RecordMetadata(topic, 0, 7, -1)

    async def close(self, timeout: float) -> None:
        self.is_closed = True


async def test_records_that_are_written_at_once_share_a_producer_which_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    FakeProducer.made = []
    monkeypatch.setattr(cluster_source, "KafkaProducer", FakeProducer)
    source = ClusterSource("127.0.0.1:9")
    writes = [source.produce(NewRecord("t", b"x")) for _ in range(3)]
    assert await asyncio.gather(*writes) == [Written(0, 7)] * 3
    await source.stop()
    assert [each.is_closed for each in FakeProducer.made] == [True]
