"""The limits in a topic's configuration, and the times at which it is read again, on a virtual clock."""

from __future__ import annotations

import pytest

from aiokafkapy.cluster.cluster import TopicMetadata
from aiokafkapy.common import ExponentialBackoff, PartitionInfo
from aiokafkapy.producer.limits.topic_limits import (
    ASK_DELAY,
    CLOCKS_DIFFER_MS,
    LEAST_INTERVAL,
    LimitsBook,
    TopicLimits,
    acks_problem,
    limits_of,
    time_error,
)

NEVER = float("inf")
NOW_MS = 1_700_000_000_000
MAX_AGE = 300.0


def new_book(max_age: float = MAX_AGE) -> LimitsBook:
    return LimitsBook(max_age, ExponentialBackoff(0.1, 60.0, jitter=0))


def ask(book: LimitsBook, now: float, *known: str) -> list[str]:
    return book.take_due(now, known.__contains__)


def learn(book: LimitsBook, topic: str, now: float, topic_id: bytes | None = None) -> TopicLimits:
    limits = limits_of([("max.message.bytes", "2000")], now, book.max_age)
    book.learned(topic, limits, topic_id, now)
    return limits


class TestLimitsOf:
    def test_a_topics_options_are_its_limits(self) -> None:
        entries = [
            ("max.message.bytes", "2000"),
            ("min.insync.replicas", "2"),
            ("message.timestamp.type", "CreateTime"),
            ("message.timestamp.before.max.ms", "9223372036854775807"),
            ("message.timestamp.after.max.ms", "3600000"),
        ]
        assert limits_of(entries, 10.0, 5.0) == TopicLimits(2000, 2, False, None, 3_600_000, 10.0, 15.0)

    def test_an_option_that_is_missing_or_not_a_number_sets_no_limit(self) -> None:
        odd = [("max.message.bytes", "-1"), ("min.insync.replicas", None), ("message.timestamp.after.max.ms", "1e3")]
        for entries in ([], odd):
            limits = limits_of(entries, 0.0, 1.0)
            assert limits[:5] == (None, None, False, None, None)
            assert not limits.bounds_times

    def test_brokers_before_3_6_have_one_bound_for_both_directions(self) -> None:
        limits = limits_of([("message.timestamp.difference.max.ms", "1000")], 0.0, 1.0)
        assert (limits.timestamp_before_max_ms, limits.timestamp_after_max_ms) == (1000, 1000)
        both = [("message.timestamp.difference.max.ms", "1000"), ("message.timestamp.before.max.ms", "7")]
        assert limits_of(both, 0.0, 1.0).timestamp_before_max_ms == 7

    def test_no_record_is_refused_for_its_time_with_the_brokers_own_time(self) -> None:
        entries = [("message.timestamp.after.max.ms", "1"), ("message.timestamp.type", "LogAppendTime")]
        assert limits_of(entries[:1], 0.0, 1.0).bounds_times
        assert not limits_of(entries, 0.0, 1.0).bounds_times


class TestTimeError:
    LIMITS = TopicLimits(timestamp_before_max_ms=1_000, timestamp_after_max_ms=2_000)
    EARLIEST = NOW_MS - 1_000 - CLOCKS_DIFFER_MS
    LATEST = NOW_MS + 2_000 + CLOCKS_DIFFER_MS + 500

    @pytest.mark.parametrize("timestamp_ms", [EARLIEST, NOW_MS, LATEST])
    def test_a_time_that_a_broker_with_another_clock_may_take_has_none(self, timestamp_ms: int) -> None:
        assert time_error("t", self.LIMITS, timestamp_ms, NOW_MS, 500) is None

    @pytest.mark.parametrize(("timestamp_ms", "bound"), [(EARLIEST - 1, 1_000), (LATEST + 1, 2_000)])
    def test_it_has_the_time_and_the_bound_in_it(self, timestamp_ms: int, bound: int) -> None:
        error = time_error("t", self.LIMITS, timestamp_ms, NOW_MS, 500)
        assert error is not None
        assert error.topic == "t"
        assert f"timestamp_ms={timestamp_ms}" in str(error)
        assert str(error).endswith(f".max.ms of topic 't' is {bound}")

    def test_the_limit_is_none_without_bounds(self) -> None:
        assert time_error("t", TopicLimits(), 0, NOW_MS, 0) is None


class TestAcksProblem:
    THREE = (PartitionInfo("t", 0, 1, 1, (1, 2, 3)),)
    ONE = (*THREE, PartitionInfo("t", 1, 1, 1, (1,)))

    @pytest.mark.parametrize(
        ("needed", "acks", "partitions", "part"),
        [
            (2, 1, THREE, "acks=1 does not wait for the 2 replicas"),
            (2, 0, THREE, "acks=0 does not wait"),
            (2, -1, ONE, "min.insync.replicas=2 is more than its 1 replicas"),
            (4, -1, THREE, "more than its 3 replicas"),
        ],
    )
    def test_acks_or_replicas_that_do_not_fit_are_reported(
        self, needed: int, acks: int, partitions: tuple[PartitionInfo, ...], part: str
    ) -> None:
        problem = acks_problem(TopicLimits(min_insync_replicas=needed), acks, partitions)
        assert problem is not None
        assert part in problem

    @pytest.mark.parametrize(
        ("needed", "acks", "partitions"), [(1, 1, ONE), (None, 0, ONE), (2, -1, THREE), (2, -1, ()), (3, -1, THREE)]
    )
    def test_none_where_acks_and_replicas_fit(
        self, needed: int | None, acks: int, partitions: tuple[PartitionInfo, ...]
    ) -> None:
        assert acks_problem(TopicLimits(min_insync_replicas=needed), acks, partitions) is None


class TestLimitsBook:
    def test_a_topic_is_due_some_time_after_its_first_record_and_once(self) -> None:
        book = new_book()
        assert book.next_due() == NEVER
        assert book.use("t", 10.0) is None
        assert book.use("t", 10.05) is None
        assert book.next_due() == 10.0 + ASK_DELAY
        assert ask(book, 10.05, "t") == []
        assert ask(book, 10.1, "t") == ["t"]
        assert book.next_due() == NEVER
        assert ask(book, 11.0, "t") == []

    def test_topics_that_come_together_are_one_question(self) -> None:
        book = new_book()
        for number in range(3):
            book.use(f"t{number}", 10.0 + number / 100)
        assert ask(book, 10.1, "t0", "t1", "t2") == ["t0", "t1", "t2"]

    def test_a_topic_that_the_cluster_does_not_have_yet_waits_until_it_has(self) -> None:
        book = new_book()
        book.use("t", 0.0)
        assert ask(book, 1.0) == []
        assert book.next_due() == NEVER
        book.noticed({"other": TopicMetadata("other", [])}, 2.0)
        assert book.next_due() == NEVER
        book.noticed({"t": TopicMetadata("t", [])}, 3.0)
        assert book.next_due() == 3.0 + ASK_DELAY

    def test_limits_that_were_read_are_known_and_read_again_before_they_are_too_old(self) -> None:
        book = new_book()
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        limits = learn(book, "t", 1.0)
        assert book.use("t", 2.0) is limits
        assert book.known() == {"t": limits}
        assert limits.until == 1.0 + MAX_AGE
        assert 1.0 < book.next_due() < limits.until
        assert ask(book, book.next_due(), "t") == ["t"]

    def test_a_topic_that_is_soon_due_goes_with_another(self) -> None:
        book = new_book()
        for topic, at in (("a", 0.0), ("b", 5.0)):
            book.use(topic, at)
            ask(book, at + 1, "a", "b")
            learn(book, topic, at + 1)
        assert ask(book, book.next_due(), "a", "b") == ["a", "b"]

    def test_a_topic_in_use_no_longer_is_left_out_until_its_next_record(self) -> None:
        book = new_book()
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        learn(book, "t", 1.0)
        assert ask(book, book.next_due()) == []
        assert (book.next_due(), book.known()) == (NEVER, {})
        assert book.use("t", 1000.0) is None
        assert book.next_due() == 1000.0 + ASK_DELAY

    def test_a_refusal_has_it_read_again_soon_but_not_without_end(self) -> None:
        book = new_book()
        book.hurry("unknown", 0.0)
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        book.hurry("t", 1.1)  # while it is asked about
        assert book.next_due() == NEVER
        learn(book, "t", 1.2)
        book.hurry("t", 1.3)
        assert book.next_due() == 1.0 + LEAST_INTERVAL
        assert ask(book, 2.0, "t") == ["t"]

    def test_a_failure_is_tried_again_with_back_off_and_known_limits_stay_until_their_time(self) -> None:
        book = new_book()
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        limits = learn(book, "t", 1.0)
        now, forgotten, waits = book.next_due(), False, []
        while not forgotten:
            assert now < limits.until + 60.0
            assert ask(book, now, "t") == ["t"]
            forgotten = book.failed("t", now, is_final=False)
            assert bool(book.known()) == (now < limits.until)
            waits.append(book.next_due() - now)
            now = book.next_due()
        assert waits[:3] == pytest.approx([0.1, 0.2, 0.4])
        assert not book.failed("t", now, is_final=False)  # nothing is left to forget
        assert not book.failed("unknown", now, is_final=False)

    def test_without_the_right_it_is_not_asked_again(self) -> None:
        book = new_book()
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        assert not book.failed("t", 1.0, is_final=True)
        book.hurry("t", 5.0)
        book.noticed({"t": TopicMetadata("t", [])}, 5.0)
        assert book.next_due() == NEVER

    def test_a_recreated_topic_loses_its_limits(self) -> None:
        book = new_book()
        first, second = bytes(15) + b"\1", bytes(15) + b"\2"
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        learn(book, "t", 1.0, first)
        assert book.noticed({"t": TopicMetadata("t", [], first)}, 2.0) == []
        assert book.noticed({"t": TopicMetadata("t", [], second)}, 3.0) == ["t"]
        assert (book.known(), book.next_due()) == ({}, 3.0 + ASK_DELAY)

    def test_limits_without_a_maximum_age_are_still_read_once_a_second_at_most(self) -> None:
        book = new_book(0.0)
        book.use("t", 0.0)
        ask(book, 1.0, "t")
        limits = learn(book, "t", 1.0)
        assert limits.until == 1.0 + LEAST_INTERVAL
        assert book.next_due() == pytest.approx(1.9)
