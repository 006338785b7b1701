"""The records of a share group in a partition: acquired, acknowledged, given back, and never lost (KIP-932)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from aiokafkapy.broker.coordination.share_partition import (
    RECORD_STATES,
    AcknowledgementBatch,
    AcknowledgeType,
    AcquiredRecords,
    AcquireRequest,
    RecordState,
    SharePartition,
    StateBatch,
)
from aiokafkapy.errors import InvalidRecordStateError, InvalidRequestError

from ..support import acquired_by

LIMIT = 3
LOCK_MS = 100


def partition(start: int = 0, *batches: StateBatch, max_in_flight: int = 100) -> SharePartition:
    return SharePartition(start, batches, max_delivery_count=LIMIT, max_in_flight=max_in_flight)


def acquire(share: SharePartition, member: str, *batches: tuple[int, int], most: int = 100, at: int = 0) -> Any:
    return share.acquire(AcquireRequest(member, batches, most), at + LOCK_MS)


def acknowledge(share: SharePartition, member: str, first: int, last: int, *types: int) -> None:
    share.acknowledge(member, [AcknowledgementBatch(first, last, types)])


ACCEPT, RELEASE, REJECT = AcknowledgeType.ACCEPT, AcknowledgeType.RELEASE, AcknowledgeType.REJECT


def test_accepted_records_move_the_start() -> None:
    share = partition(5)
    assert acquire(share, "m", (5, 7)) == [AcquiredRecords(5, 7, 1)]
    acknowledge(share, "m", 6, 7, ACCEPT)
    assert (share.start_offset, share.end_offset, share.next_fetch_offset) == (5, 8, 8)
    acknowledge(share, "m", 5, 5, ACCEPT)
    assert (share.start_offset, share.end_offset) == (8, 8)


def test_a_record_is_with_one_member_at_a_time() -> None:
    share = partition()
    acquire(share, "m", (0, 1))
    assert acquire(share, "n", (0, 3)) == [AcquiredRecords(2, 3, 1)]
    with pytest.raises(InvalidRecordStateError, match="not the owner"):
        acknowledge(share, "n", 1, 2, ACCEPT)
    assert (acquired_by(share, "m"), acquired_by(share, "n")) == ([0, 1], [2, 3])


def test_each_record_has_its_own_word() -> None:
    share = partition()
    acquire(share, "m", (0, 3))
    acknowledge(share, "m", 0, 3, ACCEPT, RELEASE, REJECT, AcknowledgeType.GAP)
    assert share.start_offset == 1
    assert acquire(share, "n", (0, 3)) == [AcquiredRecords(1, 1, 2)]
    acknowledge(share, "n", 1, 1, ACCEPT)
    assert share.start_offset == share.end_offset == 4


def test_a_released_record_is_delivered_until_its_limit() -> None:
    share = partition()
    counts = []
    while acquired := acquire(share, "m", (0, 0)) if share.start_offset == 0 else []:
        counts.append(acquired[0].delivery_count)
        acknowledge(share, "m", 0, 0, RELEASE)
    assert counts == [1, 2, 3]
    assert share.start_offset == 1


def test_a_lock_runs_out_at_its_time_and_counts_as_a_delivery() -> None:
    share = partition()
    acquire(share, "m", (0, 0), at=0)
    acquire(share, "m", (1, 1), at=50)
    assert share.next_deadline_ms == LOCK_MS
    assert [share.expire(LOCK_MS - 1), share.expire(LOCK_MS)] == [False, True]
    assert acquire(share, "n", (0, 1), at=LOCK_MS) == [AcquiredRecords(0, 0, 2)]
    with pytest.raises(InvalidRecordStateError, match="not the owner"):
        acknowledge(share, "m", 0, 0, ACCEPT)
    share.expire(2 * LOCK_MS + 50)
    assert acquire(share, "n", (0, 1)) == [AcquiredRecords(0, 0, 3), AcquiredRecords(1, 1, 2)]
    share.expire(10 * LOCK_MS)
    assert share.start_offset == 1


def test_the_records_of_a_member_that_is_gone_were_not_delivered() -> None:
    share = partition()
    acquire(share, "m", (0, 1))
    acquire(share, "n", (2, 2))
    assert [share.release("m"), share.release("m")] == [True, False]
    assert share.next_deadline_ms == LOCK_MS
    assert acquire(share, "n", (0, 2)) == [AcquiredRecords(0, 1, 1)]


def test_whole_batches_are_acquired_until_there_are_enough_records() -> None:
    share = partition()
    assert acquire(share, "m", (0, 2), (3, 5), (6, 8), most=4) == [AcquiredRecords(0, 5, 1)]
    acknowledge(share, "m", 1, 1, RELEASE)
    assert acquire(share, "m", (0, 2), (3, 5), (6, 8), most=1) == [AcquiredRecords(1, 1, 2)]
    assert acquire(share, "m", (6, 8), most=0) == []


def test_there_are_only_so_many_in_flight_but_those_that_came_back_are_given() -> None:
    share = partition(max_in_flight=4)
    assert acquire(share, "m", (0, 2), (3, 5), (6, 8)) == [AcquiredRecords(0, 5, 1)]
    assert not share.can_acquire
    assert acquire(share, "n", (6, 8)) == []
    acknowledge(share, "m", 3, 3, RELEASE)
    assert acquire(share, "n", (3, 5), (6, 8)) == [AcquiredRecords(3, 3, 2)]
    acknowledge(share, "m", 0, 2, ACCEPT)
    assert acquire(share, "n", (6, 8)) == [AcquiredRecords(6, 8, 1)]


def test_offsets_that_compaction_emptied_hold_nobody_up() -> None:
    share = partition()
    assert acquire(share, "m", (2, 3), (7, 7)) == [AcquiredRecords(2, 3, 1), AcquiredRecords(7, 7, 1)]
    assert share.start_offset == 2
    acknowledge(share, "m", 2, 3, ACCEPT)
    acknowledge(share, "m", 7, 7, ACCEPT)
    assert share.start_offset == share.end_offset == 8


def test_a_gap_before_the_first_record_costs_nothing() -> None:
    share = partition()
    assert acquire(share, "m", (10**15, 10**15 + 1)) == [AcquiredRecords(10**15, 10**15 + 1, 1)]
    assert share.start_offset == 10**15


def test_records_of_aborted_transactions_are_given_to_nobody() -> None:
    share = partition()
    acquired = share.acquire(AcquireRequest("m", [(0, 1), (2, 3), (4, 4)], 100, aborted=[(0, 1), (4, 4)]), LOCK_MS)
    assert acquired == [AcquiredRecords(2, 3, 1)]
    assert share.start_offset == 2
    acknowledge(share, "m", 2, 3, ACCEPT)
    assert share.start_offset == 5


@pytest.mark.parametrize(
    ("ranges", "error", "words"),
    [
        ([(0, 1, ACCEPT), (4, 4, ACCEPT)], InvalidRequestError, "first offset in request is past"),
        ([(0, 1, ACCEPT), (3, 4, ACCEPT)], InvalidRequestError, "last offset in request is past"),
        ([(0, 1, ACCEPT), (1, 1, ACCEPT)], InvalidRecordStateError, "not acquired"),
        ([(0, 0, ACCEPT), (2, 2, ACCEPT)], InvalidRecordStateError, "not acquired"),
    ],
)
def test_an_acknowledgement_is_taken_whole_or_not_at_all(
    ranges: list[tuple[int, int, int]], error: type[Exception], words: str
) -> None:
    share = partition()
    acquire(share, "m", (0, 3))
    acknowledge(share, "m", 2, 2, ACCEPT)
    with pytest.raises(error, match=words):
        share.acknowledge("m", [AcknowledgementBatch(first, last, [word]) for first, last, word in ranges])
    assert acquired_by(share, "m") == [0, 1, 3]


def test_a_word_on_records_before_the_start_is_ignored() -> None:
    share = partition()
    acquire(share, "m", (0, 3))
    assert [share.start_at(2), share.start_at(1)] == [True, False]
    acknowledge(share, "m", 0, 2, ACCEPT)
    acknowledge(share, "n", 0, 1, ACCEPT)
    assert (share.start_offset, acquired_by(share, "m")) == (3, [3])
    assert share.start_at(50)
    assert share.start_offset == share.end_offset == 50


def test_a_snapshot_has_everything_but_the_locks() -> None:
    share = partition()
    acquire(share, "m", (0, 5))
    acknowledge(share, "m", 1, 3, ACCEPT, REJECT, RELEASE)
    batches = share.snapshot()
    assert batches == [StateBatch(1, 1, 2, 1), StateBatch(2, 2, 4, 1), StateBatch(3, 3, 0, 1)]
    again = partition(share.start_offset, *batches)
    acquired = acquire(again, "n", (0, 5))
    assert acquired == [AcquiredRecords(0, 0, 1), AcquiredRecords(3, 3, 2), AcquiredRecords(4, 5, 1)]


def test_the_states_of_finished_records_are_final() -> None:
    assert [each for each in RecordState if RECORD_STATES.is_final(each)] == [
        RecordState.ACKNOWLEDGED,
        RecordState.ARCHIVED,
    ]


class Members(RuleBasedStateMachine):
    """Members that acquire records of a log of batches and acknowledge them at random, and a clock."""

    offsets = Bundle("offsets")
    MEMBERS = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.share = partition(max_in_flight=10)
        self.now = 0
        self.batches: list[tuple[int, int]] = []
        self.accepted: set[int] = set()
        self.given_up: set[int] = set()
        # offset -> (member, when the lock runs out), and how often it counts as delivered
        self.held: dict[int, tuple[str, int]] = {}
        self.counts: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1 if self.batches else 0

    @rule(size=st.integers(1, 4))
    def produce(self, size: int) -> None:
        self.batches.append((self.end, self.end + size - 1))

    @rule(member=st.sampled_from(MEMBERS), most=st.integers(1, 6))
    def take(self, member: str, most: int) -> None:
        first = self.share.next_fetch_offset
        in_flight = self.share.end_offset - self.share.start_offset
        there = [batch for batch in self.batches if batch[1] >= first]
        acquired = self.share.acquire(AcquireRequest(member, there, most), self.now + LOCK_MS)
        taken = [(offset, count) for low, high, count in acquired for offset in range(low, high + 1)]
        for offset, count in taken:
            assert offset not in self.held
            assert offset not in self.accepted | self.given_up
            self.counts[offset] = self.counts.get(offset, 0) + 1
            assert count == self.counts[offset] <= LIMIT
            self.held[offset] = (member, self.now + LOCK_MS)
        if first < self.end and (in_flight < 10 or first < self.share.start_offset + in_flight):
            assert taken, "there was one to be had"

    @rule(member=st.sampled_from(MEMBERS), data=st.data())
    def say(self, member: str, data: st.DataObject) -> None:
        mine = sorted(offset for offset, (owner, _) in self.held.items() if owner == member)
        if not mine:
            return
        offset = data.draw(st.sampled_from(mine))
        word = data.draw(st.sampled_from(list(AcknowledgeType)))
        acknowledge(self.share, member, offset, offset, word)
        del self.held[offset]
        if word is ACCEPT:
            assert offset not in self.accepted
            self.accepted.add(offset)
        elif word is not RELEASE or self.counts[offset] >= LIMIT:
            self.given_up.add(offset)

    @rule(member=st.sampled_from(MEMBERS), offset=st.integers(0, 30))
    def say_of_records_of_others(self, member: str, offset: int) -> None:
        if offset < self.share.start_offset or self.held.get(offset, ("", 0))[0] == member:
            return
        with pytest.raises((InvalidRecordStateError, InvalidRequestError)):
            acknowledge(self.share, member, offset, offset, ACCEPT)

    @rule(member=st.sampled_from(MEMBERS))
    def die(self, member: str) -> None:
        self.share.release(member)
        for offset in [offset for offset, (owner, _) in self.held.items() if owner == member]:
            del self.held[offset]
            self.counts[offset] -= 1

    @rule(milliseconds=st.integers(1, 2 * LOCK_MS))
    def wait(self, milliseconds: int) -> None:
        self.now += milliseconds
        self.share.expire(self.now)
        for offset in [offset for offset, (_, deadline) in self.held.items() if deadline <= self.now]:
            del self.held[offset]
            if self.counts[offset] >= LIMIT:
                self.given_up.add(offset)

    @rule()
    def restart(self) -> None:
        for offset in self.held:
            self.counts[offset] -= 1
        self.held.clear()
        self.share = partition(self.share.start_offset, *self.share.snapshot(), max_in_flight=10)

    @invariant()
    def no_record_is_lost_and_none_is_done_twice(self) -> None:
        start, end = self.share.start_offset, self.share.end_offset
        assert set(range(start)) <= self.accepted | self.given_up
        assert start not in self.accepted | self.given_up
        assert not self.accepted & self.given_up
        assert end <= self.end
        for member in self.MEMBERS:
            mine = sorted(offset for offset, (owner, _) in self.held.items() if owner == member)
            assert acquired_by(self.share, member) == mine


TestMembers = Members.TestCase
