"""The producer's states, its life through them, and the error of each for a call."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import (
    ForkedProducerError,
    IllegalStateError,
    KafkaError,
    ProducerClosedError,
    ProducerNotStartedError,
    SenderCrashedError,
    WrongEventLoopError,
)
from aiokafkapy.producer import state as state_module
from aiokafkapy.producer.state import PRODUCER_STATES, Lifecycle, ProducerState, why_unusable

S = ProducerState


@pytest.mark.parametrize(
    ("state", "crash", "error"),
    [
        (S.NEW, None, ProducerNotStartedError),
        (S.STARTING, None, ProducerNotStartedError),
        (S.RUNNING, None, WrongEventLoopError),
        (S.RUNNING, SenderCrashedError("died"), SenderCrashedError),
        (S.CLOSING, None, ProducerClosedError),
        (S.CLOSED, SenderCrashedError("died"), ProducerClosedError),
        (S.FORKED, None, ForkedProducerError),
    ],
)
def test_each_state_has_its_error(state: ProducerState, crash: KafkaError | None, error: type[KafkaError]) -> None:
    assert type(why_unusable(state, crash)) is error


async def test_the_loop_error_says_whether_there_is_one() -> None:
    assert "on another event loop" in str(why_unusable(S.RUNNING, None))


def test_outside_of_a_loop_it_says_so() -> None:
    assert "outside of any event loop" in str(why_unusable(S.RUNNING, None))


def test_a_failed_start_may_be_repeated_and_a_closed_producer_stays_closed() -> None:
    assert PRODUCER_STATES.can_follow(S.STARTING, S.NEW)
    assert PRODUCER_STATES.is_final(S.CLOSED)
    assert PRODUCER_STATES.is_final(S.FORKED)


class ShutGate:
    """A transaction that takes no record."""

    def why_no_record(self) -> KafkaError:
        return IllegalStateError("no transaction is open")


class Runtime:
    """A runtime that ends when it is told."""

    crash: KafkaError | None = None
    is_usable_here = True
    transaction: ShutGate | None = None


def test_a_life_goes_through_the_states_of_the_table() -> None:
    life: Lifecycle[Runtime] = Lifecycle()
    assert life.state is S.NEW
    assert not life.is_open
    assert not life.may_become(S.RUNNING)
    with pytest.raises(IllegalStateError):
        life.become(S.RUNNING)
    for state, is_open in ((S.STARTING, True), (S.RUNNING, True), (S.CLOSING, False), (S.CLOSED, False)):
        assert life.may_become(state)
        life.become(state)
        assert life.state is state
        assert life.is_open is is_open


def test_a_running_life_whose_sender_died_is_crashed_until_it_is_closed() -> None:
    life: Lifecycle[Runtime] = Lifecycle()
    life.become(S.STARTING)
    life.runtime = Runtime()
    life.become(S.RUNNING)
    before = life.state
    life.runtime.crash = SenderCrashedError("died")
    assert (before, life.state) == (S.RUNNING, S.CRASHED)
    assert life.is_open
    assert str(life.why_unusable()) == "died"
    life.become(S.CLOSING)
    assert life.state is S.CLOSING
    assert isinstance(life.why_unusable(), ProducerClosedError)


def test_a_record_is_refused_for_its_transaction_only_where_the_producer_could_send_it() -> None:
    life: Lifecycle[Runtime] = Lifecycle()
    assert isinstance(life.why_no_record(), ProducerNotStartedError)
    life.become(S.STARTING)
    runtime = life.runtime = Runtime()
    runtime.transaction = ShutGate()
    assert isinstance(life.why_no_record(), ProducerNotStartedError)
    life.become(S.RUNNING)
    assert str(life.why_no_record()) == "no transaction is open"
    runtime.is_usable_here = False
    assert isinstance(life.why_no_record(), WrongEventLoopError)
    runtime.is_usable_here = True
    runtime.crash = SenderCrashedError("died")
    assert str(life.why_no_record()) == "died"


def test_the_state_says_whether_it_is_open_when_the_names_of_modules_are_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """``__del__`` asks for it at the interpreter's end."""
    life: Lifecycle[Any] = Lifecycle()
    for name in ("_S", "ProducerState", "PRODUCER_STATES"):
        monkeypatch.setattr(state_module, name, None)
    assert not life.is_open
