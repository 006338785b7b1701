"""Share sessions: a member of a share group names its partitions once, and then only those that change (KIP-932).

Owns the sessions of one node. Knows no message class and no log. Kafka's counterparts are ``ShareSessionCache``,
``ShareSession`` and the part of ``SharePartitionManager`` that looks after them.

Rules:

- a fetch of epoch 0 opens a session, in place of the one that the member had; every other request continues its
  session; epoch -1 ends it;
- a session ends with its connection too; the caller that ends it releases the member's acquired records;
- when there are too many sessions a new one is refused: the others are in use, for each has its connection.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...errors import (
    InvalidRequestError,
    InvalidShareSessionEpochError,
    ShareSessionLimitReachedError,
    ShareSessionNotFoundError,
)
from .assignors import TopicIdPartition

__all__ = ["FINAL_EPOCH", "INITIAL_EPOCH", "ShareSessionRequest", "ShareSession", "ShareSessions"]

INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
MAX_EPOCH: Final = 2**31 - 1


@dataclass(slots=True, kw_only=True)
class ShareSessionRequest:
    """A ShareFetch as its session sees it: the partitions that it names, and those that the session is to forget."""

    group_id: str
    member_id: str
    epoch: int
    connection_id: str
    named: Sequence[TopicIdPartition]
    forgotten: Sequence[TopicIdPartition]
    acknowledges: bool


class ShareSession:
    """The partitions of one member at one node, in the order in which they were named."""

    __slots__ = ("connection_id", "epoch", "group_id", "member_id", "partitions", "untold")

    def __init__(
        self, group_id: str, member_id: str, connection_id: str, partitions: Iterable[TopicIdPartition]
    ) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.connection_id = connection_id
        self.partitions: dict[TopicIdPartition, None] = dict.fromkeys(partitions)
        # new partitions, and those whose last answer was an error: the next response contains them in any case
        self.untold = set(self.partitions)
        self.epoch = INITIAL_EPOCH + 1

    def advance(self, epoch: int) -> None:
        """Take a request of this epoch. InvalidShareSessionEpochError unless it is the next one."""
        if epoch != self.epoch:
            raise InvalidShareSessionEpochError
        self.epoch = 1 if self.epoch == MAX_EPOCH else self.epoch + 1

    def change(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Take over the partitions that a request names."""
        for each in added:
            if each not in self.partitions:
                self.partitions[each] = None
                self.untold.add(each)
        for each in forgotten:
            self.partitions.pop(each, None)
            self.untold.discard(each)

    def rotated(self) -> list[TopicIdPartition]:
        """The partitions, from the next one on with each request, so that each gets its turn."""
        partitions = list(self.partitions)
        first = self.epoch % len(partitions) if partitions else 0
        return partitions[first:] + partitions[:first]


class ShareSessions:
    """The sessions of a node; ``on_end`` is called with each that ends, ``on_empty`` with a group whose last session
    has ended with its connection.
    """

    def __init__(
        self, max_sessions: int, on_end: Callable[[ShareSession], object], on_empty: Callable[[str], object]
    ) -> None:
        self._max_sessions = max_sessions
        self._on_end = on_end
        self._on_empty = on_empty
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def begin_fetch(self, request: ShareSessionRequest) -> ShareSession:
        """The session of a ShareFetch, opened or changed by it.

        Raises InvalidRequestError, ShareSessionNotFoundError, ShareSessionLimitReachedError,
        InvalidShareSessionEpochError.
        """
        if request.epoch == INITIAL_EPOCH:
            if request.acknowledges:
                raise InvalidRequestError
            return self._open(request)
        session = self._existing(request.group_id, request.member_id)
        if request.epoch != FINAL_EPOCH:
            session.advance(request.epoch)
            session.change(request.named, request.forgotten)
        return session

    def begin_acknowledge(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """The session of a ShareAcknowledge. ShareSessionNotFoundError, InvalidShareSessionEpochError."""
        if epoch == INITIAL_EPOCH:
            raise InvalidShareSessionEpochError
        session = self._existing(group_id, member_id)
        if epoch != FINAL_EPOCH:
            session.advance(epoch)
        return session

    def end(self, session: ShareSession) -> None:
        """End a session; idempotent."""
        if self._sessions.get((session.group_id, session.member_id)) is session:
            del self._sessions[session.group_id, session.member_id]
            self._on_end(session)

    def end_of_connection(self, connection_id: str) -> None:
        """End the sessions that were opened by a connection, which is closed."""
        for session in [each for each in self._sessions.values() if each.connection_id == connection_id]:
            self.end(session)
            if not any(group_id == session.group_id for group_id, _ in self._sessions):
                self._on_empty(session.group_id)

    # internals

    def _open(self, request: ShareSessionRequest) -> ShareSession:
        group_id, member_id = request.group_id, request.member_id
        # The records of the session before are not given back: its member is still there.
        self._sessions.pop((group_id, member_id), None)
        if len(self._sessions) >= self._max_sessions:
            raise ShareSessionLimitReachedError
        session = ShareSession(group_id, member_id, request.connection_id, request.named)
        self._sessions[group_id, member_id] = session
        return session

    def _existing(self, group_id: str, member_id: str) -> ShareSession:
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise ShareSessionNotFoundError
        return session
