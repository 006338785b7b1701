"""The order within a partition, and its leader."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.common import NO_LEADER
from aiokafkapy.producer.accumulator.built_in_partitioner import BuiltInPartitioner
from aiokafkapy.producer.accumulator.partition_queue import PartitionQueue, TopicInfo, TopicSettings
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression

from ..accumulator_harness import T0, T1
from ..sender_fakes import cluster_of


def batch_at(order: int) -> ProducerBatch:
    return ProducerBatch(T0, RecordBatchBuilder(1000), 0.0, order=order)


def queue_of(*batches: ProducerBatch) -> PartitionQueue:
    """The last one is open."""
    queue = PartitionQueue(T0)
    queue.batches.extend(batches)
    queue.open_batch = batches[-1]
    return queue


def orders(queue: PartitionQueue) -> list[int]:
    return [batch.order for batch in queue.batches]


@given(st.permutations(range(8)))
def test_answers_find_their_places_in_any_order(sequence: list[int]) -> None:
    queue = PartitionQueue(T0)
    for order in sequence:
        queue.insert_in_order(batch_at(order))
    assert orders(queue) == list(range(8))


def test_taking_the_open_batch_closes_the_queue_to_it() -> None:
    first, second = batch_at(0), batch_at(1)
    queue = queue_of(first, second)
    assert (queue.pop_first(), queue.open_batch) == (first, second)
    assert (queue.pop_first(), queue.open_batch) == (second, None)
    assert queue.batches == []


def test_a_batch_can_be_taken_from_anywhere() -> None:
    batches = [batch_at(order) for order in range(3)]
    queue = queue_of(*batches)
    assert queue.remove(batches[1])
    assert not queue.remove(batches[1])
    assert queue.remove(batches[2])
    assert (queue.open_batch, orders(queue)) == (None, [0])


class TestLeader:
    def test_it_is_looked_up_once_for_each_view(self) -> None:
        queue = PartitionQueue(T1)
        assert queue.leader == NO_LEADER
        queue.update_leader(cluster_of({"t": [1, 2]}))
        assert (queue.leader, queue.leader_epoch) == (2, 1)
        cluster = cluster_of({"t": [1, 1]})
        queue.update_leader(cluster)
        queue.update_leader(cluster)
        assert queue.leader == 1

    def test_a_leader_that_is_unknown_or_without_an_address_is_none(self) -> None:
        for leaders in ({"t": [1, NO_LEADER]}, {"t": [1, 99]}, {"t": [1]}, {"other": [1]}):
            queue = PartitionQueue(T1)
            queue.update_leader(cluster_of({"t": [1, 2]}))
            queue.update_leader(cluster_of(leaders))
            assert queue.leader == NO_LEADER


def test_a_topic_makes_the_queue_of_a_partition_when_it_is_first_asked_for() -> None:
    info = TopicInfo("t", BuiltInPartitioner("t"), TopicSettings(131_072))
    assert info.queue_sizes([3, 0]) == [0, 0]
    assert info.queues == []
    queue = info.queue(3)
    assert info.queue(3) is queue
    assert queue.topic_partition == ("t", 3)
    queue.batches.append(batch_at(0))
    assert info.queue_sizes([3, 0]) == [1, 0]


def test_a_topics_batches_are_filled_as_far_as_it_takes_them() -> None:
    info = TopicInfo("t", BuiltInPartitioner("t"), TopicSettings(131_072))
    info.limit(500, 1.0)
    found = []
    for batch_size in (1_000, 400, 0):
        info.fill(batch_size)
        found.append((info.taken_of(batch_size), info.batch_size))
    assert found == [
        (500, 500),
        (400, 400),
        (1, 1),
    ]
    info.fill(1_000)
    info.limit(None, 2.0)
    assert info.batch_size == 1_000


def test_batches_are_larger_while_a_bulk_call_runs_unless_they_are_compressed() -> None:
    info = TopicInfo("t", BuiltInPartitioner("t"), TopicSettings(1_000, bulk_batch_size=8_000))
    info.count_bulk_calls(1)
    info.count_bulk_calls(1)
    assert info.batch_size == 8_000
    info.fill(9_000)
    assert info.batch_size == 9_000
    info.fill(1_000)
    info.limit(3_000, 1.0)
    assert info.batch_size == 3_000
    info.use_codec(Compression.LZ4, None)
    assert info.batch_size == 1_000
    info.use_codec(Compression.NONE, None)
    info.count_bulk_calls(-1)
    assert info.batch_size == 3_000
    info.count_bulk_calls(-1)
    assert info.batch_size == 1_000


def test_batches_have_their_own_size_once_a_broker_found_a_larger_one_too_large() -> None:
    info = TopicInfo("t", BuiltInPartitioner("t"), TopicSettings(1_000, bulk_batch_size=8_000))
    info.count_bulk_calls(1)
    info.keep_own_batch_size()
    assert info.batch_size == 1_000
    info.count_bulk_calls(1)
    assert info.batch_size == 1_000
