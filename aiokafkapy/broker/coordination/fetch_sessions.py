"""Fetch sessions: a client names its partitions once, and then only those that change (KIP-227).

Owns the sessions of one node. Knows no message class and no log: an answer is described by numbers. Kafka's
counterparts are ``FetchManager``, ``FetchSessionCache`` and ``FetchSession``.

Rules:

- a request of epoch 0 opens a session, one of epoch -1 needs none, both end the session that they name; any other
  request is the next one of its session;
- the answer in a session has the partitions with news only: records, an error, another start or end of the log;
- a partition that had records goes to the end of its session's order, so that each gets its turn when a request is too
  small for all;
- when there are too many sessions, one that was not used for two minutes makes room; if there is none, no new
  session is opened, and the client goes on without.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple
from uuid import UUID

from ...errors import FetchSessionIdNotFoundError, FetchSessionTopicIdError, InvalidFetchSessionEpochError

__all__ = ["FetchSession", "FetchSessions", "NamedPartition", "SessionPartition", "SessionRequest"]

OPENS: Final = 0
ENDS: Final = -1
LAST_EPOCH: Final = 2**31 - 1
MIN_EVICTION: Final = 120.0
"""Seconds; Kafka's min.incremental.fetch.session.eviction.ms."""


class NamedPartition(NamedTuple):
    """A partition as requests name it: by the topic's name, or from version 13 on by its id."""

    topic: str | None
    topic_id: UUID | None
    partition: int


@dataclass(slots=True)
class SessionPartition:
    """One partition's position in a request, and its state in the last response to the client."""

    name: str | None
    topic_id: UUID | None
    index: int
    offset: int
    max_bytes: int
    leader_epoch: int
    high_watermark: int = -1
    log_start_offset: int = -1

    @property
    def key(self) -> NamedPartition:
        """The partition as requests name it: its key in a session."""
        return NamedPartition(self.name, self.topic_id, self.index)


@dataclass(slots=True, kw_only=True)
class SessionRequest:
    """A Fetch as its session sees it: the partitions that it names, and those that the session is to forget."""

    session_id: int
    epoch: int
    partitions: Iterable[SessionPartition]
    forgotten: Iterable[NamedPartition]
    uses_topic_ids: bool


@dataclass(slots=True)
class FetchSession:
    """The partitions of one client, in the order that they are read in."""

    session_id: int
    uses_topic_ids: bool
    epoch: int
    last_used: float
    partitions: dict[NamedPartition, SessionPartition] = field(default_factory=dict)

    def is_news(
        self, partition: SessionPartition, *, error_code: int, size: int, high_watermark: int, log_start_offset: int
    ) -> bool:
        """Whether a partition belongs in the next answer; it counts as told then."""
        if error_code:
            partition.high_watermark = -1  # so that the next answer has it, too
            return True
        told = (partition.high_watermark, partition.log_start_offset)
        partition.high_watermark, partition.log_start_offset = high_watermark, log_start_offset
        if size and (known := self.partitions.pop(partition.key, None)) is not None:
            self.partitions[partition.key] = known
        return size > 0 or told != (high_watermark, log_start_offset)


class FetchSessions:
    """The sessions of one node."""

    def __init__(self, slots: int, new_number: Callable[[], int]) -> None:
        """At most ``slots`` sessions, with ids from ``new_number``, which may repeat."""
        self._slots = slots
        self._new_number = new_number
        self._sessions: dict[int, FetchSession] = {}

    def begin(self, request: SessionRequest, now: float) -> tuple[FetchSession | None, list[SessionPartition]]:
        """The session that a request belongs to, or opens, and all the partitions to read.

        Raises FetchSessionIdNotFoundError, InvalidFetchSessionEpochError, FetchSessionTopicIdError.
        """
        session_id, epoch = request.session_id, request.epoch
        if epoch in (OPENS, ENDS):
            self._sessions.pop(session_id, None)
            found = list(request.partitions)
            session = self._open(found, now, uses_topic_ids=request.uses_topic_ids) if epoch == OPENS else None
            return session, found
        session = self._sessions.get(session_id)
        if session is None:
            raise FetchSessionIdNotFoundError
        if session.epoch != epoch:
            raise InvalidFetchSessionEpochError
        if session.uses_topic_ids != request.uses_topic_ids:
            raise FetchSessionTopicIdError
        for partition in request.partitions:
            known = session.partitions.get(partition.key)
            if known is None:
                session.partitions[partition.key] = partition
            else:
                known.offset, known.max_bytes = partition.offset, partition.max_bytes
                known.leader_epoch = partition.leader_epoch
        for forgotten in request.forgotten:
            session.partitions.pop(forgotten, None)
        session.epoch = _next_epoch(epoch)
        session.last_used = now
        self._sessions[session_id] = self._sessions.pop(session_id)
        if not session.partitions:
            del self._sessions[session_id]
            return None, []
        return session, list(session.partitions.values())

    # internals

    def _open(self, partitions: list[SessionPartition], now: float, *, uses_topic_ids: bool) -> FetchSession | None:
        if len(self._sessions) >= self._slots and not self._evict(now):
            return None
        session_id = self._new_number()
        while session_id in self._sessions:
            session_id = self._new_number()
        session = FetchSession(session_id, uses_topic_ids, _next_epoch(OPENS), now)
        session.partitions = {partition.key: partition for partition in partitions}
        self._sessions[session_id] = session
        return session

    def _evict(self, now: float) -> bool:
        """Remove the least recently used session if it was idle for long enough; returns whether it was."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now - oldest.last_used <= MIN_EVICTION:
            return False
        del self._sessions[oldest.session_id]
        return True


def _next_epoch(epoch: int) -> int:
    return 1 if epoch == LAST_EPOCH else epoch + 1
