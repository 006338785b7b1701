"""Groups with members of both protocols, on a virtual clock."""

from __future__ import annotations

from typing import Any

from aiokafkapy.broker.coordination.assignors import Assignment, TopicIdPartition
from aiokafkapy.broker.coordination.classic_group import JoinResult, MemberIdentity
from aiokafkapy.broker.coordination.consumer_group_manager import ConsumerGroupHeartbeat, HeartbeatResult
from aiokafkapy.errors import KafkaError
from tests.embedded_protocol import assignment, assignment_of, subscription

from .callers import SESSION, Groups

__all__ = ["NOTHING", "MixedGroups"]

NOTHING: Assignment = frozenset()


class MixedGroups(Groups):
    """A coordinator, a topic ``t``, and members of both protocols that do as a test says."""

    def __init__(self, partitions: int = 4, **config: Any) -> None:
        super().__init__(**config)
        if "t" not in self.topics:
            self.topics.create("t", partitions)

    # the protocol of KIP-848

    def beat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        return self.coordinator.consumer_groups.heartbeat(
            ConsumerGroupHeartbeat(group_id="g", member_id=member_id, member_epoch=epoch, **fields)
        )

    def join_new(self, member_id: str, **fields: Any) -> HeartbeatResult:
        wanted = {"rebalance_timeout": 60.0, "subscribed_topic_names": ["t"], "owned": NOTHING}
        return self.beat(member_id, 0, **{**wanted, **fields})

    def of(self, *partitions: int) -> Assignment:
        topic = self.topics.get("t")
        assert topic is not None
        return frozenset(TopicIdPartition(topic.topic_id, each) for each in partitions)

    # the classic one

    def join_old(
        self, member_id: str = "", *, owned: tuple[int, ...] = (), topics: tuple[str, ...] = ("t",), **changes: Any
    ) -> JoinResult:
        """The answer, which is given at once."""
        protocols = [("range", subscription(*topics, owned=owned))]
        (answer,) = self.join(member_id, **{"protocols": protocols, **changes})
        return answer

    def classic(self, *partitions: int, **changes: Any) -> JoinResult:
        """A classic group of one member with these partitions."""
        joined = self.join_old(**changes)
        given = assignment("t", *partitions)
        assert self.sync(joined, {joined.member_id: given})[0].assignment == given
        return joined

    def synced(self, joined: JoinResult, **changes: Any) -> list[int]:
        """The partitions that SyncGroup gives a member."""
        (answer,) = self.sync(joined, **changes)
        assert answer.error_code == 0
        return [number for _, number in assignment_of(answer.assignment)[1]]

    def problem(self, joined: JoinResult) -> str | None:
        """The error of a Heartbeat."""
        try:
            self.heartbeat(joined)
        except KafkaError as error:
            return type(error).__name__
        return None

    def leave_all(self, *members: str, **instance_ids: str) -> list[str | None]:
        leaving = [MemberIdentity("g", each) for each in members]
        leaving += [MemberIdentity("g", "", each) for each in instance_ids.values()]
        return [None if each is None else type(each).__name__ for each in self.coordinator.leave_all(leaving)]

    def live(self, seconds: float, *joined: JoinResult) -> None:
        """Let time pass, in which these classic members send heartbeats."""
        for _ in range(round(seconds / (SESSION / 2))):
            self.scheduler.advance(SESSION / 2)
            for each in joined:
                self.problem(each)
