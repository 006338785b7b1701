"""Consumer groups in virtual time, and heartbeats to them."""

from __future__ import annotations

from typing import Any

from aiokafkapy.broker.coordination.assignors import Assignment, TopicIdPartition
from aiokafkapy.broker.coordination.consumer_group import ConsumerGroup
from aiokafkapy.broker.coordination.consumer_group_manager import ConsumerGroupHeartbeat, HeartbeatResult

from .callers import Groups

__all__ = ["ConsumerGroups", "NOTHING"]

NOTHING: Assignment = frozenset()


class ConsumerGroups(Groups):
    """Groups with members that do as they are told, unless a test says otherwise."""

    def __init__(self, partitions: int = 6, **config: Any) -> None:
        super().__init__(**config)
        if "t" not in self.topics:
            self.topics.create("t", partitions)

    @property
    def group(self) -> ConsumerGroup:
        found = self.coordinator.get("g")
        assert isinstance(found, ConsumerGroup)
        return found

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        request = {"group_id": "g", "member_id": member_id, "member_epoch": epoch, "may_describe": lambda name: True}
        return self.coordinator.consumer_groups.heartbeat(ConsumerGroupHeartbeat(**{**request, **fields}))

    def join_new(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        wanted = {"rebalance_timeout": 60.0, "subscribed_topic_names": topics or ("t",), "owned": NOTHING}
        return self.beat(member_id, 0, **{**wanted, **fields})

    def of(self, *partitions: int, topic: str = "t") -> Assignment:
        found = self.topics.get(topic)
        assert found is not None
        return frozenset(TopicIdPartition(found.topic_id, each) for each in partitions)

    def owned_by(self, member_id: str) -> int:
        return len(self.group.members[member_id].assigned)
