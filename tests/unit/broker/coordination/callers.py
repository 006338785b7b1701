"""A coordinator with the answers that its callers got, on a virtual clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.classic_group import (
    ClassicGroupState,
    JoinRequest,
    JoinResult,
    MemberIdentity,
    SyncRequest,
    SyncResult,
)
from aiokafkapy.broker.coordination.group_coordinator import GroupCoordinator
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.broker.storage.topics import TopicRegistry
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import (
    for_code,
)

from ..support import VirtualScheduler

__all__ = ["A", "RANGE", "REBALANCE", "SESSION", "Groups", "error"]

SESSION, REBALANCE = 10.0, 60.0
RANGE: list[tuple[str, bytes]] = [("range", b"meta")]
A = TopicPartition("t", 0)


class Groups:
    """A coordinator with the answers to its callers."""

    def __init__(self, data_dir: Path | None = None, **config: object) -> None:
        self.scheduler = VirtualScheduler()
        settings = BrokerConfig.of(**config)
        self.topics = TopicRegistry(settings, [1], data_dir=data_dir)
        self.coordinator = GroupCoordinator(
            settings,
            self.topics,
            data_dir=data_dir,
            scheduler=self.scheduler,
            clock=lambda: round(self.scheduler.time() * 1000),
        )

    @property
    def group(self) -> Any:
        return self.coordinator.get("g")

    def join(self, member_id: str = "", **changes: Any) -> list[JoinResult]:
        """The list gets the answer when there is one."""
        fields: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "group_instance_id": None,
            "client_id": "client",
            "client_host": "/127.0.0.1",
            "session_timeout": SESSION,
            "rebalance_timeout": REBALANCE,
            "protocol_type": "consumer",
            "protocols": RANGE,
        }
        answers: list[JoinResult] = []
        self.coordinator.join(JoinRequest(**{**fields, **changes}), answers.append)
        return answers

    def sync(self, joined: JoinResult, assignments: dict[str, bytes] | None = None, **changes: Any) -> list[SyncResult]:
        fields = {"group_id": "g", "member_id": joined.member_id, "generation_id": joined.generation_id}
        identity = MemberIdentity(**{**fields, **changes})
        answers: list[SyncResult] = []
        self.coordinator.sync(SyncRequest(identity, assignments or {}), answers.append)
        return answers

    def heartbeat(self, joined: JoinResult) -> None:
        self.coordinator.heartbeat(MemberIdentity("g", joined.member_id, None, joined.generation_id))

    def leave(self, group_id: str, member_id: str, group_instance_id: str | None = None) -> None:
        (refusal,) = self.coordinator.leave_all([MemberIdentity(group_id, member_id, group_instance_id)])
        if refusal is not None:
            raise refusal

    def commit(self, offset: int = 5, **identity: Any) -> None:
        fields: dict[str, Any] = {"group_id": "g", "member_id": "", "generation_id": -1}
        self.coordinator.commit(MemberIdentity(**{**fields, **identity}), {A: CommittedOffset(offset)})

    def alone(self, **changes: Any) -> JoinResult:
        """A group of one member, stable."""
        (joined,) = self.join(**changes)
        assert self.sync(joined, {joined.member_id: b"all"}) == [SyncResult(0, b"all", "consumer", "range")]
        return joined

    def pair(self) -> tuple[JoinResult, JoinResult]:
        """A group of two, stable; the first leads."""
        first = self.alone()
        second = self.join()
        assert not second
        (first,) = self.join(first.member_id)
        assert len(second) == 1
        waiting = self.sync(second[0])
        assert not waiting
        self.sync(first, {first.member_id: b"1", second[0].member_id: b"2"})
        assert waiting[0].assignment == b"2"
        assert self.group.state is ClassicGroupState.STABLE
        return first, second[0]


def error(answers: list[Any]) -> str:
    """The name of the error of the one answer."""
    (answer,) = answers
    return for_code(answer.error_code).__name__
