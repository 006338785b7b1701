"""The fate of records without room, by topic: raised, dropped, or others dropped for them."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from aiokafkapy.errors import BufferExhaustedError, KafkaError, RecordDroppedError, RecordTooLargeError
from aiokafkapy.producer.accumulator.record_accumulator import RecordAccumulator
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.overflow import Overflow
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.intake.record_sender import admitted_at_once
from aiokafkapy.producer.metrics import SenderMetrics
from aiokafkapy.producer.producer_metadata import ProducerMetadata
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.metadata_options import PRODUCER_METADATA_OPTIONS

from ..intake_harness import new_admission
from ..sender_fakes import VirtualLoop, cluster_of


class Harness:
    """Admission with policies, before an accumulator for four records; topics ``t`` and ``u`` have one partition."""

    def __init__(self, **options: Any) -> None:
        loop: Any = VirtualLoop(VirtualClock())
        self.loop = loop
        config = ProducerConfig(bootstrap_servers="h:1", **{"buffer_records": 4, **options})
        self.accumulator = RecordAccumulator(config)
        self.metadata = ProducerMetadata(**PRODUCER_METADATA_OPTIONS)
        self.metadata.cluster = cluster_of({"t": [1], "u": [1]})
        self.metrics = SenderMetrics(loop.time())
        self.overflow = Overflow(config, self.accumulator, self.metrics)
        self.admission = new_admission(
            loop, self.metadata, self.accumulator, config, max_block=60.0, overflow=self.overflow
        )
        self.calls = self.admission.calls
        self.refused: list[KafkaError] = []
        self.admission.on_refusal = self.refused.append
        for topic in ("t", "u"):
            self.admission.refresh(topic, loop.time())

    def record(self, value: bytes = b"x", topic: str = "t") -> PendingRecord:
        return PendingRecord(self.admission, topic, None, value, 0, 1, None, loop=self.loop)

    def enter(self, value: bytes = b"x", topic: str = "t", overflow: str | None = None) -> PendingRecord:
        record = self.record(value, topic)
        record.overflow = overflow
        self.admission.enter(record, self.loop.time())
        assert self.accumulator.accepted == (
            self.accumulator.delivered + self.accumulator.failed + self.accumulator.pending
        )
        return record

    def drain(self) -> list[Any]:
        drained = self.accumulator.drain(self.metadata.cluster, [1], 1 << 20, self.loop.time())
        return drained[1]


def error_of(record: PendingRecord) -> BaseException | None:
    return record.exception() or record.result().exception()


def is_kept(record: PendingRecord) -> bool:
    return not record.result().done()


def test_raise_refuses_at_once_and_says_which_bound_it_was() -> None:
    harness = Harness(overflow="raise")
    kept = [harness.enter() for _ in range(4)]
    refused = harness.enter()
    error = error_of(refused)
    assert isinstance(error, BufferExhaustedError)
    assert harness.calls.records_exhausted == 1
    assert "buffer_records is full (4 of 4 records" in str(error)
    assert harness.refused == [error]  # a transaction would miss it
    assert all(map(is_kept, kept))
    assert harness.admission.waiting == harness.overflow.dropped == 0


def test_drop_newest_gives_the_new_record_an_outcome_and_no_call_fails(caplog: pytest.LogCaptureFixture) -> None:
    harness = Harness(overflow="drop_newest")
    kept = [harness.enter() for _ in range(4)]
    with caplog.at_level(logging.WARNING):
        dropped = [harness.enter() for _ in range(100)]
    assert all(map(is_kept, kept))
    for record in dropped:
        error = record.result().exception()
        assert isinstance(error, RecordDroppedError)
        assert (error.policy, error.topic, error.partition) == ("drop_newest", "t", 0)
        assert "buffer_records is full (4 of 4 records" in str(error)
    assert harness.overflow.dropped == harness.metrics.errors_by_code["RecordDroppedError"] == 100
    assert harness.accumulator.accepted == 4
    lines = [line for line in caplog.records if "producer.records_dropped" in line.getMessage()]
    assert 0 < len(lines) < 20  # rate-limited


def test_drop_oldest_gives_up_unsent_records_oldest_first() -> None:
    harness = Harness(overflow="drop_oldest")
    records = [harness.enter(b"%d" % number) for number in range(4)]
    (in_flight,) = harness.drain()
    assert in_flight.record_count == 1
    records += [harness.enter(b"%d" % number) for number in range(4, 7)]
    assert [is_kept(record) for record in records] == [True, False, False, False, True, True, True]
    error = records[1].result().exception()
    assert isinstance(error, RecordDroppedError)
    assert (error.policy, error.outcome_unknown) == ("drop_oldest", False)
    assert harness.overflow.dropped == harness.accumulator.failed == 3


def test_when_all_is_in_flight_the_new_record_is_the_one_that_goes() -> None:
    harness = Harness(overflow="drop_oldest")
    for _ in range(4):
        harness.enter()
    while harness.drain():
        pass
    dropped = harness.enter()
    error = dropped.result().exception()
    assert isinstance(error, RecordDroppedError)
    assert "nothing else could be" in str(error)
    assert harness.accumulator.failed == 0


def test_only_topics_with_that_policy_lose_records_and_those_that_wait_have_the_room_first() -> None:
    harness = Harness(topics={"t": {"overflow": "drop_oldest"}})
    droppable = [harness.enter() for _ in range(2)]
    kept = [harness.enter(topic="u") for _ in range(2)]
    waiting = harness.enter(topic="u")
    assert not waiting.done()
    assert all(map(is_kept, droppable))  # a record that waits drops nothing
    newest = harness.enter()
    assert is_kept(waiting)
    assert [is_kept(record) for record in droppable] == [False, False]
    assert is_kept(newest)
    assert all(map(is_kept, kept))


def test_a_record_that_can_never_be_accepted_makes_no_room() -> None:
    harness = Harness(overflow="drop_oldest", max_request_size=1000)
    kept = [harness.enter() for _ in range(4)]
    assert isinstance(error_of(harness.enter(b"x" * 2000)), RecordTooLargeError)
    assert all(map(is_kept, kept))


class TestWithoutWaiting:
    def test_a_call_that_must_not_wait_gets_a_delivery_that_has_failed(self) -> None:
        harness = Harness(overflow="drop_newest")
        for _ in range(4):
            harness.enter()
        delivery = admitted_at_once(harness.record())
        assert isinstance(delivery.exception(), RecordDroppedError)

    @pytest.mark.parametrize("policy", ["wait", "raise"])
    def test_where_nothing_is_dropped_it_raises(self, policy: str) -> None:
        harness = Harness(overflow=policy)
        for _ in range(4):
            harness.enter()
        with pytest.raises(BufferExhaustedError, match="buffer_records is full"):
            admitted_at_once(harness.record())

    def test_records_that_wait_for_metadata_are_not_dropped(self) -> None:
        harness = Harness(overflow="drop_newest")
        with pytest.raises(KafkaError, match="cannot wait for metadata"):
            admitted_at_once(harness.record(topic="unknown"))

    def test_a_record_too_large_raises_and_has_its_error(self) -> None:
        harness = Harness(overflow="drop_oldest", max_request_size=1000)
        record = harness.record(b"x" * 2000)
        with pytest.raises(RecordTooLargeError):
            admitted_at_once(record)
        assert isinstance(record.exception(), RecordTooLargeError)


def test_a_call_s_own_policy_is_its_record_s_and_no_other_s() -> None:
    harness = Harness()
    for _ in range(4):
        harness.enter()
    raised = harness.enter(overflow="raise")
    assert isinstance(error_of(raised), BufferExhaustedError)
    dropped = harness.enter(overflow="drop_newest")
    assert isinstance(error_of(dropped), RecordDroppedError)
    assert not harness.enter().done()
    assert isinstance(error_of(harness.enter(overflow="raise")), BufferExhaustedError), (
        "nor does it pass one that waits"
    )
    harness = Harness(overflow="raise")
    for _ in range(4):
        harness.enter()
    assert not harness.enter(overflow="wait").done()


def test_a_call_drops_the_oldest_of_topics_with_that_policy_only() -> None:
    harness = Harness(topics={"u": {"overflow": "drop_oldest"}})
    kept = [harness.enter() for _ in range(2)]
    lost = [harness.enter(topic="u") for _ in range(2)]
    newest = [harness.enter(overflow="drop_oldest") for _ in range(3)]
    assert all(map(is_kept, [*kept, *newest[:2]]))
    assert not any(map(is_kept, lost))
    assert isinstance(error_of(newest[2]), RecordDroppedError)


def test_a_record_that_must_not_wait_has_its_own_policy_too() -> None:
    harness = Harness()
    for _ in range(4):
        harness.enter()
    record = harness.record()
    record.overflow = "drop_newest"
    assert isinstance(admitted_at_once(record).exception(), RecordDroppedError)
    with pytest.raises(BufferExhaustedError):
        admitted_at_once(harness.record())


class TestPriority:
    """Topic ``u`` has it, and one of four records is kept for it."""

    @staticmethod
    def full() -> Harness:
        harness = Harness(topics={"u": {"priority": "high"}}, priority_reserve_percent=25)
        assert all(is_kept(harness.enter(b"%d" % number)) for number in range(3))
        return harness

    def test_the_share_is_for_these_alone(self) -> None:
        harness = self.full()
        waits = harness.enter(b"3")
        assert not waits.done()
        assert is_kept(harness.enter(b"alert", "u"))
        second = harness.enter(b"alert", "u")
        assert not second.done()
        assert harness.accumulator.accepted == 4

    def test_records_with_priority_pass_those_that_wait_and_keep_their_own_order(self) -> None:
        harness = self.full()
        waiting = [harness.enter(b"%d" % number) for number in range(3)]
        alerts = [harness.enter(b"alert", "u") for _ in range(3)]
        assert [alert.done() for alert in alerts] == [True, False, False]
        (batch,) = [one for one in harness.drain() if one.topic_partition.topic == "t"]
        batch.complete(0)
        harness.accumulator.deallocate(batch)
        assert [record.done() for record in (*alerts, *waiting)] == [True] * 3 + [False] * 3
        assert is_kept(harness.enter(b"alert", "u")), "the others wait on"

    def test_a_record_that_must_not_wait_has_the_share(self) -> None:
        harness = self.full()
        harness.enter()
        assert not admitted_at_once(harness.record(topic="u")).done()
        with pytest.raises(BufferExhaustedError):
            admitted_at_once(harness.record(topic="u"))

    def test_the_share_is_not_lent_on(self) -> None:
        """After a record of topic ``u`` was let in, others find the buffer as full as before."""
        harness = self.full()
        assert is_kept(harness.enter(b"alert", "u"))
        with pytest.raises(BufferExhaustedError, match="4 of 3 records"):
            admitted_at_once(harness.record())

    def test_with_a_policy_of_its_own_the_topic_still_has_the_share(self) -> None:
        harness = Harness(topics={"u": {"priority": "high", "overflow": "raise"}}, priority_reserve_percent=25)
        for _ in range(3):
            harness.enter()
        assert is_kept(harness.enter(topic="u"))
        assert isinstance(error_of(harness.enter(topic="u")), BufferExhaustedError)
