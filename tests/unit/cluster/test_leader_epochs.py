"""The leader of a partition that counts is found by epochs and by the topic's id."""

from __future__ import annotations

from uuid import UUID

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.testing.clock import VirtualClock

from .answers import partition, topic, update

ID = UUID(int=1)


def test_an_older_epoch_is_ignored(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5)))
    update(metadata, clock, topic("t", partition(leader=1, epoch=4)))
    assert metadata.current_leader(TopicPartition("t", 0)) == (Node(2, "two", 2), 5)


def test_an_older_epoch_of_a_topic_that_was_lost_meanwhile_gives_no_leader(
    metadata: Metadata, clock: VirtualClock
) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5)))
    update(metadata, clock, topic("t", error=3))
    update(metadata, clock, topic("t", partition(leader=1, epoch=4)))
    assert metadata.cluster.partition_count("t") == 1
    assert metadata.current_leader(TopicPartition("t", 0)) == (None, -1)


def test_the_same_epoch_is_taken(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5)))
    update(metadata, clock, topic("t", partition(leader=-1, epoch=5, error=5)))
    assert metadata.current_leader(TopicPartition("t", 0)) == (None, 5)


def test_a_changed_topic_id_is_a_recreated_topic(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5), topic_id=ID))
    update(metadata, clock, topic("t", partition(leader=1, epoch=0), topic_id=UUID(int=2)))
    assert metadata.current_leader(TopicPartition("t", 0)) == (Node(1, "one", 1), 0)
    assert metadata.cluster.topic_id("t") == UUID(int=2).bytes


def test_so_is_an_id_that_comes_after_the_topic_was_gone(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5), topic_id=ID))
    update(metadata, clock, topic("t", error=3))
    update(metadata, clock, topic("t", partition(leader=1, epoch=0), topic_id=UUID(int=2)))
    assert metadata.current_leader(TopicPartition("t", 0)) == (Node(1, "one", 1), 0)


def test_another_cluster_starts_over(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5)))
    update(metadata, clock, topic("t", partition(leader=1, epoch=0)), cluster_id="d")
    assert metadata.current_leader(TopicPartition("t", 0)) == (Node(1, "one", 1), 0)


def test_an_answer_without_epochs_is_taken_as_it_is(metadata: Metadata, clock: VirtualClock) -> None:
    update(metadata, clock, topic("t", partition(leader=2, epoch=5)))
    update(metadata, clock, topic("t", partition(leader=1, epoch=4)), version=8)
    assert metadata.current_leader(TopicPartition("t", 0)) == (Node(1, "one", 1), -1)
