"""Errors of one record and of its scope, the scope that an error holds, and the rows that are sent alone."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy import errors
from aiokafkapy.integrations.outbox.outcomes import Held, Outcome, Verdict, cut, held_by, judge
from aiokafkapy.integrations.outbox.rows import OutboxRow


def row(number: int, partition: int | None = None) -> OutboxRow:
    return OutboxRow(number, UUID(int=number), 77, 0, "t", partition, b"k", b"v", None, 0)


@pytest.mark.parametrize(
    ("error", "verdict"),
    [
        (errors.RecordTooLargeError(), Verdict.REFUSED),
        (errors.InvalidRecordError(), Verdict.REFUSED),
        (errors.InvalidTopicError(), Verdict.REFUSED),
        (ValueError("partition"), Verdict.REFUSED),
        (errors.GaplessGuaranteeError(), Verdict.BEHIND),
        (errors.TransactionAbortedError(), Verdict.BEHIND),
        (errors.DeliveryTimeoutError(), Verdict.HELD),
        (errors.MetadataTimeoutError(), Verdict.HELD),
        (errors.TopicAuthorizationFailedError(), Verdict.HELD),
        (errors.UnknownTopicOrPartitionError(), Verdict.HELD),
        (errors.ProducerFencedError(), Verdict.HELD),
        (errors.ProducerClosedError(), Verdict.HELD),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else value.value,
)
def test_only_a_fault_of_its_record_refuses_a_row(error: Exception, verdict: Verdict) -> None:
    assert judge(error) is verdict


def test_a_partition_that_is_named_does_not_hold_its_topic() -> None:
    assert held_by(row(1)) == Held("topic", "t")
    assert held_by(row(1, partition=99)) == Held("lane", 77)
    assert [str(held) for held in (Held("topic", "t"), Held("shard", 3), Held("kafka", ""))] == [
        "topic t",
        "shard 3",
        "kafka",
    ]


@given(st.lists(st.integers(1, 30), unique=True).map(sorted), st.sets(st.integers(1, 30)))
def test_rows_are_sent_up_to_one_that_is_sent_alone(ids: list[int], suspected: set[int]) -> None:
    rows = [row(number) for number in ids]
    sent: list[list[int]] = []
    while rows:
        batch = cut(rows, suspected)
        assert 0 < len(batch) <= len(rows)
        sent.append([each.id for each in batch])
        rows = rows[len(batch) :]
    assert [number for batch in sent for number in batch] == ids, "in their order, none left out"
    assert all(len(batch) == 1 for batch in sent if suspected & set(batch))


def test_outcomes_add_up() -> None:
    outcome, error = Outcome(), errors.KafkaTimeoutError()
    assert not outcome.is_progress
    outcome.add(Outcome([row(1)], [(row(2), "why")], {3}, {Held("topic", "t"): error}))
    outcome.add(Outcome([row(4)]))
    assert outcome == Outcome([row(1), row(4)], [(row(2), "why")], {3}, {Held("topic", "t"): error})
    assert outcome.is_progress
