"""A circuit opens, lets some calls through, and is closed again, on a virtual clock."""

from __future__ import annotations

import random
from typing import Any

import pytest

from aiokafkapy.errors import (
    CircuitOpenError,
    DeliveryTimeoutError,
    KafkaError,
    NotEnoughReplicasError,
    PolicyViolationError,
    ProducerClosedError,
    PurgedError,
    RecordTooLargeError,
    TopicAuthorizationFailedError,
    UnsupportedForMessageFormatError,
)
from aiokafkapy.producer.circuits.circuits import Circuits, CircuitStatus
from aiokafkapy.producer.options.circuit_options import CircuitBreaker

ERROR = DeliveryTimeoutError("no outcome")


class Rig:
    """Circuits, their events, and a clock."""

    def __init__(self, **options: Any) -> None:
        self.told: list[tuple[str, CircuitStatus]] = []
        self.circuits = Circuits(
            CircuitBreaker(**({"failures": 3, "open_ms": 1_000} | options)),
            lambda topic, status: self.told.append((topic, status)),
        )
        self.now = 100.0

    def fail(self, times: int = 1, topic: str = "t", error: BaseException = ERROR) -> None:
        for _ in range(times):
            self.circuits.failed(topic, error, self.now)

    def succeed(self, topic: str = "t") -> None:
        self.circuits.succeeded(topic, self.now)

    def takes(self, topic: str = "t") -> bool:
        try:
            self.circuits.admit(topic, self.now)
        except CircuitOpenError:
            return False
        return True

    @property
    def state(self) -> str:
        statuses = self.circuits.statuses(self.now)
        return statuses[0].state if statuses else "closed"

    @property
    def changes(self) -> list[str]:
        return [status.state for _, status in self.told]


def test_failures_in_a_row_open_it_and_a_success_between_them_resets_the_count() -> None:
    rig = Rig()
    rig.fail(2)
    rig.succeed()
    rig.fail(2)
    assert rig.takes()
    assert rig.changes == []
    rig.fail()
    assert not rig.takes()
    assert rig.changes == ["open"]
    assert rig.circuits.openings == 1


def test_the_error_names_topic_cause_and_next_attempt() -> None:
    rig = Rig()
    rig.fail(3)
    rig.now += 0.25
    with pytest.raises(CircuitOpenError) as raised:
        rig.circuits.admit("t", rig.now)
    error = raised.value
    assert (error.topic, error.open_for, error.retry_in, error.retriable) == ("t", 0.25, 0.75, True)
    assert error.__cause__ is ERROR
    for part in ("topic 't'", "3 deliveries in a row failed", "opened 0.250 s ago", "in 0.750 s", "no outcome"):
        assert part in str(error)
    assert str(rig.circuits.error_of("t", rig.now)) == str(error)


def test_after_its_time_so_many_probes_are_let_through_and_a_success_closes_it() -> None:
    rig = Rig(probes=2)
    rig.fail(3)
    rig.now += 1.0
    assert [rig.takes() for _ in range(4)] == [True, True, False, False]
    assert rig.state == "half open"
    with pytest.raises(CircuitOpenError, match="a record is being tried"):
        rig.circuits.admit("t", rig.now)
    rig.now += 0.5
    rig.succeed()
    assert all(rig.takes() for _ in range(4))
    assert rig.changes == ["open", "closed"]
    assert rig.told[-1][1].open_for == 1.5
    assert rig.circuits.statuses(rig.now) == ()


def test_a_probe_that_fails_opens_it_again_for_its_time() -> None:
    rig = Rig()
    rig.fail(3)
    rig.now += 1.0
    assert rig.takes()
    rig.fail()
    assert not rig.takes()
    rig.now += 0.9
    assert not rig.takes()
    rig.now += 0.1
    assert rig.takes()
    assert rig.changes == ["open", "open"]
    assert rig.circuits.statuses(rig.now)[0].open_for == 2.0


def test_a_probe_without_an_outcome_does_not_keep_it_half_open() -> None:
    rig = Rig()
    rig.fail(3)
    rig.now += 1.0
    assert rig.takes()
    rig.now += 0.9
    assert not rig.takes()
    rig.now += 0.1
    assert rig.takes()
    assert not rig.takes()


def test_a_probe_that_was_refused_for_a_reason_of_its_own_is_given_back() -> None:
    rig = Rig()
    rig.circuits.give_back("t")  # while it is closed
    rig.fail(3)
    rig.circuits.give_back("t")  # while it is open
    assert not rig.takes()
    rig.now += 1.0
    assert rig.takes()
    rig.circuits.give_back("t")
    assert rig.circuits.statuses(rig.now)[0].retry_in == 0.0
    assert rig.takes()
    assert not rig.takes()


def test_while_calls_go_to_the_spool_they_are_let_through_and_failures_do_not_count() -> None:
    rig = Rig()
    rig.fail(3)
    away = {"t", "u"}
    rig.circuits.goes_elsewhere = away.__contains__
    rig.fail(5)
    rig.fail(5, topic="u")
    assert rig.circuits.lets_through("t")
    assert [rig.takes() for _ in range(3)] == [True] * 3
    assert rig.circuits.statuses(rig.now)[0].failures == 3
    rig.now += 1.0
    assert rig.takes()
    rig.circuits.give_back("t")
    away.clear()
    assert rig.takes("u")
    assert [rig.takes(), rig.takes()] == [True, False], "one probe"


def test_a_record_accepted_before_it_opened_closes_it_and_more_failures_change_nothing() -> None:
    rig = Rig()
    rig.fail(3)
    rig.now += 0.5
    rig.fail(10, error=NotEnoughReplicasError("later"))
    (status,) = rig.circuits.statuses(rig.now)
    assert status == CircuitStatus("t", "open", 13, 0.5, 0.5, "later")
    assert rig.changes == ["open"]
    rig.succeed()
    assert rig.takes()


def test_each_topic_has_its_own() -> None:
    rig = Rig()
    rig.fail(3)
    assert rig.takes("another")
    assert rig.circuits.lets_through("another")
    assert not rig.circuits.lets_through("t")
    rig.succeed("another")
    assert not rig.takes()


def test_the_producer_may_have_one_circuit_for_all() -> None:
    rig = Rig(scope="producer")
    rig.fail(2)
    rig.fail(topic="another")
    assert not rig.takes("third")
    assert rig.told == [("", CircuitStatus(None, "open", 3, 0.0, 1.0, "no outcome"))]
    with pytest.raises(CircuitOpenError, match="of all topics"):
        rig.circuits.admit("third", rig.now)
    rig.succeed("fourth")
    assert rig.takes("third")


@pytest.mark.parametrize(
    "error",
    [
        RecordTooLargeError("x"), PurgedError("x"), ProducerClosedError("x"), CircuitOpenError("x"),
        ZeroDivisionError("a bug"), PolicyViolationError("x"), UnsupportedForMessageFormatError("x"),
    ],
)  # fmt: skip
def test_an_error_that_says_nothing_of_the_cluster_does_not_count(error: BaseException) -> None:
    rig = Rig()
    rig.fail(10, error=error)
    assert rig.circuits.statuses(rig.now) == ()


@pytest.mark.parametrize("error", [ERROR, TopicAuthorizationFailedError("no"), KafkaError("odd")])
def test_time_outs_and_refusals_count(error: BaseException) -> None:
    rig = Rig()
    rig.fail(3, error=error)
    assert not rig.takes()


def test_without_trouble_it_lets_all_through() -> None:
    rig = Rig()
    rig.succeed()
    assert rig.circuits.lets_through("t")
    assert rig.takes()
    assert not rig.circuits.is_alert


@pytest.mark.parametrize("seed", range(20))
def test_circuits_are_alert_exactly_while_one_is_not_closed(seed: int) -> None:
    chance = random.Random(seed)
    rig = Rig(failures=chance.choice((1, 2, 5)), probes=chance.choice((1, 3)))
    for _ in range(500):
        topic = chance.choice("abc")
        what = chance.choice(("fail", "fail", "succeed", "takes", "pass", "give_back"))
        if what == "pass":
            rig.now += chance.choice((0.1, 1.0))
        elif what == "give_back":
            rig.circuits.give_back(topic)
        else:
            getattr(rig, what)(topic=topic)
        states = [status.state for status in rig.circuits.statuses(rig.now)]
        assert rig.circuits.is_alert == any(state != "closed" for state in states)
    for topic in "abc":
        rig.succeed(topic)
    assert not rig.circuits.is_alert
    assert rig.circuits.statuses(rig.now) == ()


def test_a_transaction_is_a_probe_as_a_whole() -> None:
    circuits = Circuits(CircuitBreaker(failures=1, open_ms=1_000), lambda *_: None, has_transactions=True)
    circuits.failed("t", ERROR, 100.0)
    with pytest.raises(CircuitOpenError):
        circuits.admit("t", 100.5)
    for _ in range(100):
        circuits.admit("t", 101.0)
    circuits.failed("t", ERROR, 101.1)
    with pytest.raises(CircuitOpenError):
        circuits.admit("t", 101.2)
