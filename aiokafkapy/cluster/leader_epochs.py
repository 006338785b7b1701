"""``LeaderEpochs``: the newest leader epoch of each partition, by which the newer of two leaders is found.

Owns the epochs, by topic and partition, also of topics that are not in the view at the moment. It knows neither
requests nor when an answer counts: ``Metadata`` has it take the topics of an answer. Kafka's counterpart is
``Metadata.updateLatestMetadata`` with ``lastSeenLeaderEpochs``.

Rules:

- An older leader epoch never replaces a newer one, unless the topic's id shows that the topic was recreated.
- For the sake of ten thousand topics, an answer that is newer as a whole is taken in a few steps; only a topic that an
  answer in between has changed, or one without epochs, is looked at partition by partition.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from operator import is_

from ..common import NO_LEADER, NO_LEADER_EPOCH, PartitionInfo
from .cluster import TopicMetadata
from .metadata_answer import MetadataAnswer

__all__ = ["LeaderEpochs"]


class LeaderEpochs:
    """The newest leader epochs that were seen. A topic's dict may be shared with an answer, and is never changed."""

    __slots__ = ("_has_news", "by_topic")

    def __init__(self) -> None:
        self.by_topic: dict[str, dict[int, int]] = {}
        self._has_news = False

    def take(
        self,
        answer: MetadataAnswer,
        names: Collection[str],
        topics: dict[str, TopicMetadata],
        known: Mapping[str, TopicMetadata],
    ) -> bool:
        """Take the epochs of ``topics``, those of the answer that count; True when some are new.

        Of those in ``names``, partitions that are ``known`` with a newer epoch are put in the place of the answer's.
        """
        self._has_news = False
        if len(topics) == len(answer.topics) and self._take_as_a_whole(answer):
            names = [name for name in names if name not in answer.newer_than]
        newer_than = answer.newer_than
        for name in names:
            topic = topics.get(name)
            if topic is None:
                continue
            seen = self.by_topic.get(name)
            if name in newer_than and newer_than[name] is seen:
                if topic.leader_epochs != seen:
                    self.by_topic[name] = topic.leader_epochs
                    self._has_news = True
            elif known.get(name) is not topic:
                topics[name] = self._newest(topic, known.get(name))
        return self._has_news

    def note(self, topic: str, partition: int, leader_epoch: int) -> None:
        """A partition has a leader with this epoch, which is newer."""
        self.by_topic[topic] = self.by_topic.get(topic, {}) | {partition: leader_epoch}

    def forget(self, known: Collection[str], is_wanted: Callable[[str], bool]) -> None:
        """Forget the topics that are not ``known``, unless they are wanted."""
        if len(self.by_topic) != len(known):  # else nothing was dropped: every known topic has epochs
            for name in [name for name in self.by_topic if name not in known]:
                if not is_wanted(name):
                    del self.by_topic[name]

    def clear(self) -> None:
        """Another cluster, or a restored one, counts its epochs again."""
        self.by_topic.clear()

    # internals

    def _take_as_a_whole(self, answer: MetadataAnswer) -> bool:
        """Take all epochs that are newer than those that were known when the answer was read; False, and nothing done,
        when one of those has changed since.
        """
        seen = map(self.by_topic.get, answer.newer_than)
        if not all(map(is_, seen, answer.newer_than.values())):
            return False
        self.by_topic.update(answer.newer_epochs)
        self._has_news = answer.has_news
        return True

    def _newest(self, topic: TopicMetadata, previous: TopicMetadata | None) -> TopicMetadata:
        """The answer's topic, except for partitions that we know with a newer leader epoch."""
        name = topic.name
        # If the id is new or another, the epochs that we know belong to an earlier topic (KAFKA-12257).
        if topic.topic_id is not None and (previous is None or previous.topic_id != topic.topic_id):
            self.by_topic.pop(name, None)
        epochs = dict(self.by_topic.get(name, {}))
        if not epochs:  # the first of this topic, or one of a broker before 2.4: there is nothing to compare
            has_all = min(topic.leader_epochs.values(), default=0) >= 0
            self.by_topic[name] = topic.leader_epochs if has_all else _known_epochs(topic)
            self._has_news = self._has_news or bool(topic.leader_epochs)
            return topic
        told = topic.made_partitions()
        partitions = [self._newer(partition, epochs, previous) for partition in told]
        if any(newer is not own for newer, own in zip(partitions, told, strict=True)):
            topic = TopicMetadata(name, partitions, topic.topic_id, is_internal=topic.is_internal)
        # Share the topic's own dict if possible: it lets the next response be compared as a whole.
        self.by_topic[name] = topic.leader_epochs if topic.leader_epochs == epochs else epochs
        return topic

    def _newer(self, partition: PartitionInfo, epochs: dict[int, int], previous: TopicMetadata | None) -> PartitionInfo:
        """The answer's partition, or the one we have if that has a newer leader epoch."""
        if partition.leader_epoch < 0:
            epochs.pop(partition.partition, None)
            self._has_news = True
            return partition
        seen = epochs.get(partition.partition, -1)
        if partition.leader_epoch < seen:
            known = None if previous is None else previous.partition(partition.partition)
            # Stale, and nothing better is known: the partition exists, with an unknown leader.
            return known or partition._replace(leader=NO_LEADER, leader_epoch=NO_LEADER_EPOCH)
        if partition.leader_epoch > seen:
            epochs[partition.partition] = partition.leader_epoch
            self._has_news = True
        return partition


def _known_epochs(topic: TopicMetadata) -> dict[int, int]:
    return {number: epoch for number, epoch in topic.leader_epochs.items() if epoch >= 0}
