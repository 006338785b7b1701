"""The producer's states, and what is said to whoever cannot use it."""

from __future__ import annotations

import pytest

from aiokafkapy.errors import (
    ForkedProducerError,
    KafkaError,
    ProducerClosedError,
    ProducerNotStartedError,
    SenderCrashedError,
    WrongEventLoopError,
)
from aiokafkapy.producer.state import PRODUCER_STATES, ProducerState, why_unusable

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
