"""Other clients' consumers: the positions that they go back to, and the state after a failed or cancelled read.

The clients themselves read in ``tests/system/test_transaction_loops.py``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import confluent_kafka
import pytest
from aiokafka import ConsumerRecord
from aiokafka import TopicPartition as Place

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import ConfigurationError, KafkaError
from aiokafkapy.producer.transactional.consumers import PARTITION_EOF, SECONDS_OF_A_POLL, consumer_of
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata, OffsetToCommit
from tests.unit.virtual_time import on_virtual_time

from .harness import A, B, settle


class Aiokafka:
    """``AIOKafkaConsumer``, as far as the loop calls it."""

    def __init__(self, **committed: int | None) -> None:
        self._enable_auto_commit = False
        self._coordinator: Any = SimpleNamespace(group_id="g", generation=3, member_id="m", _group_instance_id="i")
        self.assigned = {Place(topic, 0) for topic in committed}
        self.committed_offsets = committed
        self.sought: dict[str, int] = {}
        self.options: dict[str, int] = {}

    async def getmany(self, **options: int) -> dict[Place, list[int]]:
        self.options = options
        return {Place("a", 0): [1]}

    def assignment(self) -> set[Place]:
        return self.assigned

    async def committed(self, place: Place) -> int | None:
        offset = self.committed_offsets[place.topic]
        if offset == -1:  # the partition is taken away while the coordinator is asked
            self.assigned = self.assigned - {place}
        return offset

    def seek(self, place: Place, offset: int) -> None:
        assert place in self.assigned
        self.sought[place.topic] = offset


def aiokafka_record(offset: int) -> ConsumerRecord[bytes, bytes]:
    return ConsumerRecord("a", 0, offset, 0, 0, None, None, None, 0, 0, ())


class Message(SimpleNamespace):
    """confluent-kafka's: every attribute is a method."""

    def __init__(self, topic: str, offset: int, error: int | None = None, epoch: int | None = None) -> None:
        problem = None if error is None else SimpleNamespace(code=lambda: error)
        super().__init__(
            topic=lambda: topic,
            partition=lambda: 0,
            offset=lambda: offset,
            error=lambda: problem,
            leader_epoch=lambda: epoch,
        )


class Confluent:
    """``confluent_kafka.Consumer``, as far as the loop calls it."""

    def __init__(self, *messages: Message, **committed: int) -> None:
        self.messages = list(messages)
        self.committed_offsets = committed
        self.sought: dict[str, int] = {}
        self.asked: list[str] | None = None
        self.while_reading: Callable[[], object] = lambda: None

    def consume(self, number: int, timeout: float) -> list[Message]:
        assert timeout == SECONDS_OF_A_POLL
        self.while_reading()
        return self.messages[:number]

    def consumer_group_metadata(self) -> GroupMetadata:
        return GroupMetadata("g", 3, "m")

    def assignment(self) -> list[confluent_kafka.TopicPartition]:
        return [confluent_kafka.TopicPartition(topic, 0) for topic in self.committed_offsets]

    def committed(
        self, places: list[confluent_kafka.TopicPartition], timeout: float
    ) -> list[confluent_kafka.TopicPartition]:
        self.asked = [place.topic for place in places]
        return [confluent_kafka.TopicPartition(place.topic, 0, self.committed_offsets[place.topic]) for place in places]

    def seek(self, place: confluent_kafka.TopicPartition) -> None:
        self.sought[place.topic] = place.offset


class TestChoice:
    """``consumer_of``."""

    @pytest.mark.parametrize(
        "other", [object(), SimpleNamespace(consume=print), SimpleNamespace(consumer_group_metadata=print)]
    )
    def test_a_consumer_of_another_client_is_refused(self, other: object) -> None:
        with pytest.raises(TypeError, match=r"is not a consumer that is known here: pass aiokafka's"):
            consumer_of(other, None)

    def test_a_consumer_that_commits_by_itself_is_refused(self) -> None:
        consumer = Aiokafka()
        consumer._enable_auto_commit = True
        with pytest.raises(ConfigurationError, match="enable_auto_commit=False"):
            consumer_of(consumer, None)

    @pytest.mark.parametrize("coordinator", [None, SimpleNamespace(group_id=None)])
    def test_a_consumer_without_a_group_is_refused_at_once(self, coordinator: object) -> None:
        consumer = Aiokafka()
        consumer._coordinator = coordinator
        with pytest.raises(TypeError, match="pass group_metadata"):
            consumer_of(consumer, None)
        assert consumer_of(consumer, "other").group() == GroupMetadata("other")

    @pytest.mark.parametrize("consumer", [Aiokafka(), Confluent()])
    def test_the_group_that_is_given_is_used(self, consumer: object) -> None:
        assert consumer_of(consumer, "other").group() == GroupMetadata("other")

    def test_the_membership_is_asked_for_each_time(self) -> None:
        consumer = Aiokafka()
        adapted = consumer_of(consumer, None)
        assert adapted.group() == GroupMetadata("g", 3, "m", "i")
        consumer._coordinator.generation = 4
        assert adapted.group().generation_id == 4
        assert consumer_of(Confluent(), None).group() == GroupMetadata("g", 3, "m")


class TestOffsets:
    """A record's offset, and the one behind it."""

    def test_aiokafka_has_them_in_its_records(self) -> None:
        adapted = consumer_of(Aiokafka(), None)
        assert adapted.offset(aiokafka_record(5)) == 5
        assert adapted.next_offset(aiokafka_record(5)) == OffsetToCommit(6)

    @pytest.mark.parametrize(("epoch", "expected"), [(None, -1), (0, 0), (7, 7)])
    def test_confluent_kafka_s_tell_the_leader_s_epoch(self, epoch: int | None, expected: int) -> None:
        adapted = consumer_of(Confluent(), None)
        assert adapted.offset(Message("a", 5)) == 5
        assert adapted.next_offset(Message("a", 5, epoch=epoch)) == OffsetToCommit(6, expected)


class TestAiokafka:
    """Reading and going back."""

    @on_virtual_time
    async def test_it_reads_so_many(self) -> None:
        consumer = Aiokafka()
        assert await consumer_of(consumer, None).read(7) == {A: [1]}
        assert consumer.options == {"timeout_ms": 1_000, "max_records": 7}

    @on_virtual_time
    async def test_it_goes_back_in_partitions_that_it_still_has(self) -> None:
        consumer = Aiokafka(a=90, c=90)
        await consumer_of(consumer, None).go_back({A: 5, B: 2}, generation=3)
        assert consumer.sought == {"a": 5}

    @pytest.mark.parametrize(("committed", "offset"), [(90, 90), (3, 5), (None, 5)])
    @on_virtual_time
    async def test_another_member_may_have_committed_since(self, committed: int | None, offset: int) -> None:
        consumer = Aiokafka(a=committed)
        await consumer_of(consumer, None).go_back({A: 5}, generation=2)
        assert consumer.sought == {"a": offset}

    @on_virtual_time
    async def test_a_partition_that_is_taken_away_meanwhile_is_left(self) -> None:
        consumer = Aiokafka(a=-1, b=90)
        await consumer_of(consumer, None).go_back({A: 5, B: 2}, generation=2)
        assert consumer.sought == {"b": 90}


class TestConfluentKafka:
    """Reading and going back; each call runs in a thread."""

    @on_virtual_time
    async def test_records_are_given_by_partition_without_the_ends_of_partitions(self) -> None:
        first, end, second, other = Message("a", 5), Message("a", 7, PARTITION_EOF), Message("a", 6), Message("b", 1)
        adapted = consumer_of(Confluent(first, end, second, other), None)
        assert await adapted.read(10) == {A: [first, second], B: [other]}
        assert await adapted.read(1) == {A: [first]}

    @on_virtual_time
    async def test_an_error_gives_back_the_records_beside_it(self) -> None:
        consumer = Confluent(Message("a", 5), Message("a", 6), Message("b", 1, error=3), a=0, b=0)
        with pytest.raises(KafkaError, match="the consumer says"):
            await consumer_of(consumer, None).read(10)
        assert consumer.sought == {"a": 5}

    @on_virtual_time
    async def test_a_cancelled_read_gives_back_its_records(self) -> None:
        consumer = Confluent(Message("a", 5), Message("a", 6), a=0, b=0)
        reading = asyncio.create_task(consumer_of(consumer, None).read(10))
        consumer.while_reading = reading.cancel
        with pytest.raises(asyncio.CancelledError):
            await reading
        await settle()
        assert consumer.sought == {"a": 5}

    @on_virtual_time
    async def test_a_cancelled_read_that_fails_is_cancelled(self) -> None:
        consumer = Confluent(a=0)
        reading = asyncio.create_task(consumer_of(consumer, None).read(10))

        def fail() -> None:
            reading.cancel()
            raise RuntimeError("closed")

        consumer.while_reading = fail
        with pytest.raises(asyncio.CancelledError):
            await reading
        assert consumer.sought == {}

    @on_virtual_time
    async def test_it_goes_back_in_partitions_that_it_still_has(self) -> None:
        consumer = Confluent(a=90, c=90)
        await consumer_of(consumer, None).go_back({A: 5, B: 2}, generation=3)
        assert consumer.sought == {"a": 5}
        assert consumer.asked is None

    @pytest.mark.parametrize(("committed", "offset"), [(90, 90), (3, 5), (confluent_kafka.OFFSET_INVALID, 5)])
    @on_virtual_time
    async def test_another_member_may_have_committed_since(self, committed: int, offset: int) -> None:
        consumer = Confluent(a=committed, c=90)
        await consumer_of(consumer, None).go_back({A: 5, B: 2}, generation=2)
        assert consumer.asked == ["a"]
        assert consumer.sought == {"a": offset}

    @on_virtual_time
    async def test_without_partitions_nobody_is_asked(self) -> None:
        consumer = Confluent()
        await consumer_of(consumer, None).go_back({TopicPartition("a", 0): 5}, generation=2)
        assert (consumer.asked, consumer.sought) == (None, {})

    @on_virtual_time
    async def test_a_cancelled_way_back_is_waited_for(self) -> None:
        consumer = Confluent(a=0)
        going = asyncio.create_task(consumer_of(consumer, None).go_back({A: 5}, generation=3))
        await asyncio.sleep(0)
        going.cancel()
        with pytest.raises(asyncio.CancelledError):
            await going
        assert consumer.sought == {"a": 5}
