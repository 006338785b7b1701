"""Retention and compaction, when their time has come and when they are asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.classic_group import MemberIdentity
from aiokafkapy.broker.coordination.group_coordinator import GroupCoordinator
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset
from aiokafkapy.broker.storage.log import PartitionLog
from aiokafkapy.broker.storage.log_manager import LogManager
from aiokafkapy.broker.storage.topics import TopicRegistry
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaStorageError

from ..support import VirtualScheduler, log_of, make_batch

DAY_MS = 86_400_000


class Logs:
    """Topics, their manager, and a clock of theirs."""

    def __init__(self, **config: Any) -> None:
        settings = BrokerConfig.of(**config)
        self.now_ms = 10 * DAY_MS
        self.scheduler = VirtualScheduler()
        self.topics = TopicRegistry(settings, [1])
        self.topics.create("t", 1)
        self.topics.create("c", 1, {"cleanup.policy": "compact", "segment.bytes": "100"})
        self.groups = GroupCoordinator(settings, self.topics, scheduler=self.scheduler, clock=lambda: self.now_ms)
        self.manager = LogManager(settings, self.topics, self._expire, self.scheduler, lambda: self.now_ms)

    def _expire(self, timestamp_ms: int) -> None:
        self.groups.expire(timestamp_ms)  # looked up for each call, so that a test can replace it

    def append(self, topic: str, value: bytes, timestamp_ms: int | None = None) -> None:
        timestamp_ms = self.now_ms if timestamp_ms is None else timestamp_ms
        log_of(self.topics, topic).append(make_batch([value], timestamps=[timestamp_ms]), 0, self.now_ms)

    def values(self, topic: str) -> list[bytes | None]:
        return [record.value for record in log_of(self.topics, topic).records()]


@pytest.fixture
def logs() -> Logs:
    return Logs()


def test_retention_is_looked_at_every_five_minutes(logs: Logs) -> None:
    told: list[Any] = []
    logs.topics.on_change = told.append
    logs.append("t", b"old", 1)
    logs.append("t", b"new")
    logs.scheduler.advance(299)
    assert logs.values("t") == [b"old", b"new"]
    logs.scheduler.advance(1)
    assert (logs.values("t"), [each.topic_name for each in told]) == ([b"new"], ["t"])
    logs.now_ms += 8 * DAY_MS
    logs.scheduler.advance(300)
    assert logs.values("t") == []


def test_compaction_is_looked_at_every_fifteen_seconds_and_waits_for_enough(logs: Logs) -> None:
    for number in range(3):
        logs.append("c", b"%d" % number)
    logs.scheduler.advance(14)
    assert logs.values("c") == [b"0", b"1", b"2"]
    logs.scheduler.advance(1)
    assert logs.values("c") == [b"1", b"2"]  # a segment has one batch here, and the last one is written to
    log_of(logs.topics, "c").append(make_batch([b"x" * 10_000], key=b"other"), 0, 1)
    logs.append("c", b"3")
    logs.scheduler.advance(15)
    assert logs.values("c") == [b"2", b"x" * 10_000, b"3"]
    logs.append("c", b"4")
    logs.scheduler.advance(15)
    assert logs.values("c") == [b"2", b"x" * 10_000, b"3", b"4"]
    logs.manager.run(even_active=True)
    assert logs.values("c") == [b"x" * 10_000, b"4"]


def test_a_segment_that_is_old_is_compacted_as_well(logs: Logs) -> None:
    for number in range(3):
        logs.append("c", b"%d" % number)
    logs.now_ms += 7 * DAY_MS + 1
    logs.manager.run(even_active=False)
    assert logs.values("c") == [b"2"]


def test_a_log_that_cannot_be_cleaned_does_not_keep_the_others_from_being_cleaned(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    logs.topics.create("u", 1)
    logs.append("t", b"old", 1)
    logs.append("u", b"old", 1)
    works = PartitionLog.delete_expired

    def delete_expired(log: PartitionLog, timestamp_ms: int) -> bool:
        if log is log_of(logs.topics, "t"):
            raise KafkaStorageError("no room")
        return works(log, timestamp_ms)

    monkeypatch.setattr(PartitionLog, "delete_expired", delete_expired)
    logs.manager.run(even_active=True)
    assert (logs.values("t"), logs.values("u")) == ([b"old"], [])
    assert "broker.log_cleaning_failed" in caplog.text
    monkeypatch.undo()
    logs.manager.run(even_active=True)
    assert logs.values("t") == []


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), RuntimeError("a bug")])
def test_work_that_fails_is_done_again_the_next_time(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object) -> None:
        raise error

    logs.append("t", b"old", 1)
    with monkeypatch.context() as patch:
        patch.setattr(PartitionLog, "delete_expired", fail)
        patch.setattr(GroupCoordinator, "expire", fail)
        with suppress(RuntimeError):
            logs.scheduler.advance(300)
    assert logs.values("t") == [b"old"]
    logs.scheduler.advance(300)
    assert logs.values("t") == []


def test_offsets_of_a_group_that_nobody_uses_go_after_a_week(logs: Logs) -> None:
    def commit(group_id: str) -> None:
        logs.groups.commit(MemberIdentity(group_id, ""), {TopicPartition("t", 0): CommittedOffset(5)})

    commit("old")
    commit("used")
    logs.groups.offsets.add_pending("open", 7, {TopicPartition("t", 0): CommittedOffset(5)})
    commit("open")
    logs.manager.run(even_active=True)
    logs.now_ms += 6 * DAY_MS
    commit("used")
    logs.manager.run(even_active=True)
    logs.now_ms += DAY_MS + 1
    logs.manager.run(even_active=True)
    assert [group.group_id for group in logs.groups] == ["used", "open"]
    assert logs.groups.offsets.get("old") == {}


def test_a_group_is_in_use_by_transactions_that_end_before_each_look_at_it(logs: Logs) -> None:
    place = TopicPartition("t", 0)
    for days in (0, 5, 5):
        logs.now_ms += days * DAY_MS
        logs.groups.commit_in_transaction(MemberIdentity("g", ""), 7, {place: CommittedOffset(5)})
        logs.groups.offsets.end_pending("g", 7, is_commit=True)
        logs.manager.run(even_active=True)
        assert [group.group_id for group in logs.groups] == ["g"]
    logs.now_ms += 8 * DAY_MS
    logs.manager.run(even_active=True)
    assert not list(logs.groups)


def test_closing_stops_the_timers(logs: Logs) -> None:
    logs.manager.close()
    assert logs.scheduler.pending == 0
