"""The partitions of share groups: their start, locks in virtual time, and the state after a restart (KIP-932)."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.coordination.assignors import TopicIdPartition
from aiokafkapy.broker.coordination.share_partition import (
    AcknowledgementBatch,
    AcquiredRecords,
    AcquireRequest,
    StateBatch,
)
from aiokafkapy.broker.coordination.share_partition_manager import NO_OFFSET, SharePartitionManager, ShareState
from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.broker.storage.topics import Partition
from aiokafkapy.errors import (
    InvalidConfigError,
    KafkaStorageError,
    OffsetNotAvailableError,
    UnknownTopicOrPartitionError,
)

from ..support import acquired_by, make_batch, topic_of
from .callers import Groups

ACCEPT, RELEASE, REJECT = 1, 2, 3
EARLIEST = {"share.auto.offset.reset": "earliest"}


class Shares(Groups):
    """A group ``g`` that reads the topic ``t`` from the start; members take and say."""

    def __init__(self, **config: Any) -> None:
        super().__init__(**config)
        self.came_back: list[tuple[str, TopicIdPartition]] = []
        self.coordinator.configs.alter("g", EARLIEST)
        self.shares.on_available = self.came_back.append
        if "t" not in self.topics:
            self.topics.create("t", 2)
        self.shares.add("g", {self.place.topic_id: 2})

    @property
    def shares(self) -> SharePartitionManager:
        return self.coordinator.share_partitions

    @property
    def partition(self) -> Partition:
        return topic_of(self.topics).partitions[0]

    @property
    def place(self) -> TopicIdPartition:
        return TopicIdPartition(topic_of(self.topics).topic_id, 0)

    @property
    def state(self) -> ShareState:
        return self.shares.offsets("g")[self.place]

    def take(self, member: str = "m", batches: Sequence[tuple[int, int]] = ((0, 3),), group: str = "g") -> Any:
        return self.shares.acquire(group, self.partition, AcquireRequest(member, batches, 100))

    def say(self, word: int, first: int, last: int, member: str = "m") -> None:
        self.shares.acknowledge("g", self.place, member, [AcknowledgementBatch(first, last, [word])])


@pytest.fixture
def shares() -> Shares:
    return Shares()


def test_records_come_back_when_their_lock_runs_out(shares: Shares) -> None:
    shares.take()
    shares.scheduler.advance(29.9)
    assert (shares.came_back, shares.take("n")) == ([], [])
    shares.scheduler.advance(0.1)
    assert shares.came_back == [("g", shares.place)]
    assert shares.take("n") == [AcquiredRecords(0, 3, 2)]


def test_a_later_lock_has_its_own_time(shares: Shares) -> None:
    shares.take("m", [(0, 0)])
    shares.scheduler.advance(20)
    shares.take("n", [(1, 1)])
    shares.scheduler.advance(10)
    shares.say(ACCEPT, 1, 1, "n")
    shares.take("m", [(0, 0), (2, 2)])
    shares.scheduler.advance(29)
    assert acquired_by(shares.shares.get("g", shares.partition), "m") == [0, 2]
    shares.scheduler.advance(1)
    assert acquired_by(shares.shares.get("g", shares.partition), "m") == []


def test_the_group_says_how_long_a_lock_is(shares: Shares) -> None:
    shares.coordinator.configs.alter("g", {"share.record.lock.duration.ms": "1000"})
    shares.take()
    shares.scheduler.advance(1)
    assert shares.take("n") == [AcquiredRecords(0, 3, 2)]


def test_records_of_a_session_that_has_ended_come_back(shares: Shares) -> None:
    shares.take("m", [(0, 1)])
    shares.take("n", [(2, 3)])
    shares.shares.release("g", "m", [shares.place, TopicIdPartition(shares.place.topic_id, 1)], 1)
    assert shares.came_back == [("g", shares.place)]
    assert shares.take("n") == [AcquiredRecords(0, 1, 1)]


def test_groups_do_not_see_one_another(shares: Shares) -> None:
    shares.coordinator.configs.alter("h", EARLIEST)
    shares.take()
    assert shares.take("m", group="h") == [AcquiredRecords(0, 3, 1)]


def test_a_partition_that_nobody_has_fetched_takes_no_word(shares: Shares) -> None:
    with pytest.raises(UnknownTopicOrPartitionError):
        shares.say(ACCEPT, 0, 0)


def test_locks_end_with_the_leader_and_the_words_do_not(shares: Shares) -> None:
    shares.take()
    shares.say(ACCEPT, 0, 1)
    shares.partition.leader_epoch += 1
    assert shares.take("n") == [AcquiredRecords(2, 3, 1)]


def test_the_end_of_a_session_at_the_former_leader_gives_back_nothing_of_the_next(shares: Shares) -> None:
    shares.partition.leader, shares.partition.leader_epoch = 2, 1
    shares.take()
    shares.shares.release("g", "m", [shares.place], 1)
    assert (shares.came_back, shares.take("n")) == ([], [])
    shares.say(ACCEPT, 0, 3)
    shares.shares.release("g", "m", [shares.place], 2)
    assert shares.state.start_offset == 4


@pytest.mark.parametrize("has_returned", [False, True])
def test_records_from_the_former_leader_are_neither_acknowledged_nor_given_back(
    shares: Shares, has_returned: bool
) -> None:
    shares.take()
    shares.partition.leader, shares.partition.leader_epoch = (1, 2) if has_returned else (2, 1)
    with pytest.raises(UnknownTopicOrPartitionError):
        shares.say(ACCEPT, 0, 3)
    shares.shares.release("g", "m", [shares.place], 1)
    shares.scheduler.advance(60)
    assert (shares.came_back, shares.state) == ([], ShareState(NO_OFFSET))
    assert shares.take("n") == [AcquiredRecords(0, 3, 1)]


def test_a_start_that_was_never_written_is_looked_for_again(shares: Shares) -> None:
    shares.coordinator.configs.alter("g", {"share.auto.offset.reset": "latest"})
    assert shares.shares.get("g", shares.partition).start_offset == 0
    assert shares.state == ShareState(NO_OFFSET)
    shares.partition.log.append(make_batch([b"0", b"1"]), 0, 0)
    assert shares.shares.get("g", shares.partition).start_offset == 0
    shares.shares.out_of_use("g", 2)
    assert shares.shares.get("g", shares.partition).start_offset == 0
    shares.shares.out_of_use("g", 1)
    assert shares.shares.get("g", shares.partition).start_offset == 2


@pytest.mark.parametrize(
    ("reset", "start"),
    [
        ("earliest", 0),
        ("latest", 4),
        ("by_duration:PT10S", 2),
        ("by_duration:PT0.5S", None),
        ("by_duration:P1DT1H1M", 0),
        ("by_duration:P9999999999D", 0),
    ],
)
def test_a_group_begins_where_its_option_says(shares: Shares, reset: str, start: int | None) -> None:
    shares.coordinator.configs.alter("g", {"share.auto.offset.reset": reset})
    now_ms = round(shares.scheduler.time() * 1000)
    for timestamp in (now_ms - 99_000, now_ms - 5_000):
        shares.partition.log.append(make_batch([b"a", b"b"], timestamps=[timestamp, timestamp]), 0, 0)
    if start is None:
        with pytest.raises(OffsetNotAvailableError):
            shares.shares.get("g", shares.partition)
    else:
        assert shares.shares.get("g", shares.partition).start_offset == start


@pytest.mark.parametrize(
    "value", ["none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1h", "EARLIEST"]
)
def test_other_places_to_begin_at_are_refused(shares: Shares, value: str) -> None:
    with pytest.raises(InvalidConfigError, match=r"share\.auto\.offset\.reset"):
        shares.coordinator.configs.alter("g", {"share.auto.offset.reset": value})


def test_records_that_the_log_has_no_more_are_forgotten(shares: Shares) -> None:
    shares.partition.log.append(make_batch([b"0", b"1", b"2", b"3"]), 0, 0)
    shares.take()
    shares.partition.log.delete_records(2)
    share = shares.shares.get("g", shares.partition)
    assert (share.start_offset, acquired_by(share, "m")) == (2, [2, 3])


def test_everything_but_locks_survives_a_restart(tmp_path: Path) -> None:
    shares = Shares(data_dir=tmp_path)
    shares.take()
    shares.say(ACCEPT, 0, 0)
    shares.say(RELEASE, 1, 1)
    shares.say(REJECT, 2, 2)
    kept = ShareState(1, (StateBatch(1, 1, 0, 1), StateBatch(2, 2, 4, 1)))
    assert shares.state == kept
    shares.coordinator.close()
    again = Shares(data_dir=tmp_path)
    assert again.state == kept
    assert again.take() == [AcquiredRecords(1, 1, 2), AcquiredRecords(3, 3, 1)]


def test_a_forgotten_topic_and_a_deleted_group_stay_so_after_a_restart(tmp_path: Path) -> None:
    shares = Shares(data_dir=tmp_path)
    shares.shares.begin_at("g", {shares.place: 7})
    shares.shares.begin_at("h", {shares.place: 8})
    shares.shares.begin_at("i", {shares.place: 9})
    assert [shares.shares.forget("h", shares.place.topic_id) for _ in "12"] == [True, False]
    shares.shares.delete("i")
    shares.coordinator.close()
    again = Shares(data_dir=tmp_path)
    found = {group: again.shares.offsets(group) for group in again.shares.groups()}
    assert found["g"][again.place] == ShareState(7)
    assert (found["h"], "i" in found) == ({}, False)


def test_a_group_begins_where_it_is_told_to(shares: Shares) -> None:
    shares.take()
    shares.say(ACCEPT, 0, 3)
    shares.shares.begin_at("g", {shares.place: 2})
    assert shares.take() == [AcquiredRecords(2, 3, 1)]


def test_a_word_that_cannot_be_written_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shares = Shares(data_dir=tmp_path)
    shares.take()

    def full(*arguments: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", full)
        with pytest.raises(KafkaStorageError):
            shares.say(ACCEPT, 0, 3)
    assert shares.take("n") == [AcquiredRecords(0, 3, 1)]


def test_nothing_is_given_back_after_the_end(tmp_path: Path) -> None:
    shares = Shares(data_dir=tmp_path)
    shares.take()
    shares.coordinator.close()
    written = (tmp_path / "share-groups.jsonl").read_bytes()
    shares.shares.release("g", "m", [shares.place], 1)
    shares.scheduler.advance(60)
    assert shares.came_back == []
    assert (tmp_path / "share-groups.jsonl").read_bytes() == written


def test_a_damaged_journal_is_not_opened(tmp_path: Path) -> None:
    shares = Shares(data_dir=tmp_path)
    shares.coordinator.close()
    path = tmp_path / "share-groups.jsonl"
    path.write_bytes(path.read_bytes().replace(b"exists", b"exits!"))
    with pytest.raises(DamagedFileError, match=r"share-groups\.jsonl"):
        Shares(data_dir=tmp_path)


def test_a_deleted_topic_is_not_part_of_a_group(shares: Shares) -> None:
    shares.take()
    shares.topics.delete("t")
    assert shares.shares.offsets("g") == {}
    shares.scheduler.advance(60)
    assert shares.came_back == []
