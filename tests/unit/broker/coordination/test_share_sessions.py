"""Share sessions: their epochs, their partitions, their limit, and their end (KIP-932)."""

from __future__ import annotations

from uuid import UUID

import pytest

from aiokafkapy.broker.coordination.assignors import TopicIdPartition
from aiokafkapy.broker.coordination.share_sessions import FINAL_EPOCH, ShareSession, ShareSessionRequest, ShareSessions
from aiokafkapy.errors import (
    InvalidRequestError,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)

A, B, C = (TopicIdPartition(UUID(int=1), index) for index in range(3))


class Sessions:
    def __init__(self, most: int = 10) -> None:
        self.ended: list[str] = []
        self.empty: list[str] = []
        self.all = ShareSessions(most, lambda each: self.ended.append(each.member_id), self.empty.append)

    def fetch(
        self,
        epoch: int,
        *named: TopicIdPartition,
        member: str = "m",
        forgotten: tuple[TopicIdPartition, ...] = (),
        connection: str = "1",
        acknowledges: bool = False,
    ) -> ShareSession:
        request = ShareSessionRequest(
            group_id="g",
            member_id=member,
            epoch=epoch,
            connection_id=connection,
            named=named,
            forgotten=forgotten,
            acknowledges=acknowledges,
        )
        return self.all.begin_fetch(request)


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_each_request_is_the_next_of_its_session(sessions: Sessions) -> None:
    session = sessions.fetch(0, A)
    assert sessions.fetch(1, B) is session
    assert sessions.all.begin_acknowledge("g", "m", 2) is session
    assert list(sessions.fetch(3, C, forgotten=(A,)).partitions) == [B, C]
    with pytest.raises(InvalidShareSessionEpochError):
        sessions.fetch(3)
    with pytest.raises(InvalidShareSessionEpochError):
        sessions.all.begin_acknowledge("g", "m", 0)


def test_epochs_begin_again_at_one(sessions: Sessions) -> None:
    session = sessions.fetch(0)
    session.epoch = 2**31 - 1
    session.advance(2**31 - 1)
    assert session.epoch == 1


def test_a_first_fetch_acknowledges_nothing(sessions: Sessions) -> None:
    with pytest.raises(InvalidRequestError):
        sessions.fetch(0, A, acknowledges=True)
    with pytest.raises(ShareSessionNotFoundError):
        sessions.fetch(1)


@pytest.mark.parametrize("epoch", [1, FINAL_EPOCH])
def test_there_is_no_session_but_by_a_first_fetch(sessions: Sessions, epoch: int) -> None:
    with pytest.raises(ShareSessionNotFoundError):
        sessions.fetch(epoch)
    with pytest.raises(ShareSessionNotFoundError):
        sessions.all.begin_acknowledge("g", "m", epoch)


def test_a_second_first_fetch_opens_another_session_and_gives_nothing_back(sessions: Sessions) -> None:
    first = sessions.fetch(0, A)
    second = sessions.fetch(0, B)
    sessions.all.end(first)
    assert sessions.fetch(1) is second
    assert sessions.ended == []
    sessions.all.end(second)
    sessions.all.end(second)
    assert (sessions.ended, sessions.empty) == (["m"], [])
    with pytest.raises(ShareSessionNotFoundError):
        sessions.fetch(2)


def test_too_many_sessions_are_refused() -> None:
    sessions = Sessions(most=1)
    sessions.fetch(0, member="m")
    with pytest.raises(ShareSessionLimitReachedError):
        sessions.fetch(0, member="n")
    sessions.fetch(0, member="m")


def test_sessions_end_with_their_connection(sessions: Sessions) -> None:
    sessions.fetch(0, member="m", connection="1")
    sessions.fetch(0, member="n", connection="2")
    sessions.all.end_of_connection("1")
    assert (sessions.ended, sessions.empty) == (["m"], [])
    sessions.all.end_of_connection("2")
    assert (sessions.ended, sessions.empty) == (["m", "n"], ["g"])


def test_each_partition_gets_its_turn_to_be_first(sessions: Sessions) -> None:
    session = sessions.fetch(0, A, B, C)
    firsts = []
    for epoch in (1, 2, 3):
        firsts.append(session.rotated()[0])
        assert sorted(session.rotated()) == [A, B, C]
        sessions.fetch(epoch)
    assert set(firsts) == {A, B, C}
    assert sessions.fetch(0).rotated() == []
