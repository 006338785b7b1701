"""Fetch sessions: opening, continuing, ending, news, order, and too many of them."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from aiokafkapy.broker.coordination.fetch_sessions import (
    FetchSession,
    FetchSessions,
    NamedPartition,
    SessionPartition,
    SessionRequest,
)
from aiokafkapy.errors import (
    FetchSessionIdNotFoundError,
    FetchSessionTopicIdError,
    InvalidFetchSessionEpochError,
    KafkaError,
)


def partitions(*indexes: int, offset: int = 0) -> list[SessionPartition]:
    return [SessionPartition("t", None, index, offset, 100, -1) for index in indexes]


class Sessions:
    """Fetch sessions with ids 1, 2, 3 …"""

    def __init__(self, slots: int = 2) -> None:
        self.sessions = FetchSessions(slots, itertools.count(1).__next__)
        self.now = 0.0

    def begin(
        self, session_id: int, epoch: int, *named: SessionPartition, forgotten: Any = (), by_id: bool = False
    ) -> tuple[FetchSession | None, list[int]]:
        gone = [NamedPartition("t", None, index) for index in forgotten]
        request = SessionRequest(
            session_id=session_id, epoch=epoch, partitions=named, forgotten=gone, uses_topic_ids=by_id
        )
        session, found = self.sessions.begin(request, self.now)
        return session, [each.index for each in found]

    def open(self, *indexes: int) -> FetchSession:
        session, _ = self.begin(0, 0, *partitions(*indexes))
        assert session is not None
        return session


@pytest.fixture
def sessions() -> Sessions:
    return Sessions()


def test_a_session_remembers_its_partitions_and_their_changes(sessions: Sessions) -> None:
    session = sessions.open(0, 1, 2)
    assert (session.session_id, session.epoch) == (1, 1)
    assert sessions.begin(1, 1) == (session, [0, 1, 2])
    assert sessions.begin(1, 2, *partitions(1, 3, offset=7), forgotten=[0]) == (session, [1, 2, 3])
    assert [each.offset for each in session.partitions.values()] == [7, 0, 7]
    assert sessions.begin(1, 3, forgotten=[1, 2, 3]) == (None, [])
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.begin(1, 4)


@pytest.mark.parametrize(
    ("session_id", "epoch", "by_id", "expected"),
    [
        (9, 1, False, FetchSessionIdNotFoundError),
        (1, 2, False, InvalidFetchSessionEpochError),
        (1, 1, True, FetchSessionTopicIdError),
    ],
)
def test_a_request_that_is_not_the_next_one_is_refused(
    sessions: Sessions, session_id: int, epoch: int, by_id: bool, expected: type[KafkaError]
) -> None:
    sessions.open(0)
    with pytest.raises(expected):
        sessions.begin(session_id, epoch, by_id=by_id)
    assert sessions.begin(1, 1)[1] == [0]


def test_a_whole_request_ends_the_session_that_it_names(sessions: Sessions) -> None:
    sessions.open(0)
    assert sessions.begin(1, -1, *partitions(5)) == (None, [5])
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.begin(1, 1)
    sessions.open(0)
    session, _ = sessions.begin(2, 0, *partitions(6))
    assert session is not None
    assert session.session_id == 3
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.begin(2, 1)


def test_epochs_begin_again_behind_the_last_one(sessions: Sessions) -> None:
    session = sessions.open(0)
    session.epoch = 2**31 - 1
    sessions.begin(1, 2**31 - 1)
    assert session.epoch == 1


def test_news_are_records_errors_and_other_offsets(sessions: Sessions) -> None:
    session = sessions.open(0, 1)
    first = session.partitions[NamedPartition("t", None, 0)]

    def is_news(**changes: int) -> bool:
        told = {"error_code": 0, "size": 0, "high_watermark": 5, "log_start_offset": 0, **changes}
        return session.is_news(first, **told)

    assert is_news()
    assert not is_news()
    assert is_news(high_watermark=6)
    assert is_news(high_watermark=6, log_start_offset=1)
    assert not is_news(high_watermark=6, log_start_offset=1)
    assert is_news(error_code=3)
    assert is_news(high_watermark=6, log_start_offset=1)
    assert [each.index for each in session.partitions.values()] == [0, 1]
    assert is_news(size=10, high_watermark=6, log_start_offset=1)
    assert [each.index for each in session.partitions.values()] == [1, 0]


def test_a_session_that_rests_makes_room_when_there_are_too_many(sessions: Sessions) -> None:
    sessions.open(0)
    sessions.now = 60.0
    sessions.open(0)
    assert sessions.begin(0, 0, *partitions(0)) == (None, [0])
    sessions.now = 121.0
    sessions.begin(1, 1)
    assert sessions.begin(0, 0, *partitions(0)) == (None, [0])
    sessions.now = 181.0
    sessions.open(0)
    with pytest.raises(FetchSessionIdNotFoundError):
        sessions.begin(2, 1)
    assert Sessions(slots=0).begin(0, 0, *partitions(0)) == (None, [0])
