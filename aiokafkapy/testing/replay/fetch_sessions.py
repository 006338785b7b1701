"""``as_full_fetches``: turns the fetches of sessions (KIP-227) into fetches that name all of their partitions.

Owns the state of a session. Pure: it knows no recording. In a session a request names only the partitions whose
position has changed, and an answer only those with news, so neither is complete by itself. Kafka's counterpart is
``FetchSession``.

Rules:

- a partition that a session's answer leaves out has no news: it gets its last answer, without records;
- a session whose beginning is missing is not used.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Iterable
from typing import Final, NamedTuple

from ...errors import FetchSessionIdNotFoundError, MalformedFrameError
from ...protocol.api import ApiKey
from ...protocol.codec import RequestHeader, Struct, decode_request, decode_response, encode_response
from ...protocol.messages import build_response
from .partitions import TopicKey, Values, topic_key

__all__ = ["Fetch", "as_full_fetches", "end_of_session"]

_FINAL_EPOCH: Final = -1
_Place = tuple[TopicKey, int]
"""A topic, by its id or name, and the number of a partition."""


class Fetch(NamedTuple):
    """A recorded fetch: the broker that was asked, and request and answer without their sizes."""

    broker: Hashable
    header: RequestHeader
    request: bytes
    answer: bytes


class _Session:
    """The positions that a session's client has sent, and the last answer for each partition."""

    def __init__(self) -> None:
        self.positions: dict[_Place, int] = {}
        self.told: dict[_Place, Struct] = {}

    def ask(self, request: Struct) -> None:
        """Apply the changes of a request."""
        for topic in getattr(request, "forgotten_topics_data", ()):  # before version 7 there are no sessions
            for index in topic.partitions:
                self.positions.pop((topic_key(topic), index), None)
        for topic in request.topics:
            for each in topic.partitions:
                self.positions[topic_key(topic), each.partition] = each.fetch_offset

    def tell(self, answer: Struct) -> list[Struct]:
        """The topics of an answer for all partitions."""
        found = {
            (topic_key(topic), each.partition_index): dataclasses.replace(topic, partitions=(each,))
            for topic in answer.responses
            for each in topic.partitions
        }
        before = {place: _emptied(topic) for place, topic in self.told.items()}
        self.told |= found
        whole = before | found
        return [whole[place] for place in self.positions if place in whole]

    def values(self) -> Values:
        """The request for all partitions, in the form for comparison."""
        return {
            "topics": [
                {"topic": name, "partitions": [{"partition": index, "fetch_offset": position}]}
                for (name, index), position in self.positions.items()
            ]
        }


def as_full_fetches(fetches: Iterable[Fetch]) -> list[tuple[Values, bytes] | None]:
    """The values of each request and its answer, without sessions, in order; None for an unusable one."""
    sessions: dict[tuple[Hashable, int], _Session] = {}
    return [_full(each, sessions) for each in fetches]


def end_of_session(header: RequestHeader, frame: bytes) -> bytes | None:
    """The answer to a request of a session that was recorded otherwise: "no such session", after which a client names
    all of its partitions. None for a request without a session.
    """
    _, request = decode_request(frame)
    if not getattr(request, "session_id", 0) or request.session_epoch == 0:
        return None
    code = 0 if request.session_epoch == _FINAL_EPOCH else FetchSessionIdNotFoundError.code
    body = build_response(ApiKey.FETCH, header.api_version, error_code=code, session_id=0, responses=[])
    return encode_response(body, header.correlation_id)


# internals


def _full(fetch: Fetch, sessions: dict[tuple[Hashable, int], _Session]) -> tuple[Values, bytes] | None:
    try:
        _, request = decode_request(fetch.request)
        _, answer = decode_response(ApiKey.FETCH, fetch.header.api_version, fetch.answer)
    except MalformedFrameError:
        return None
    session: _Session | None = _Session()
    if getattr(request, "session_id", 0) and request.session_epoch > 0:
        session = sessions.get((fetch.broker, request.session_id))
    if session is None or getattr(answer, "error_code", 0) != 0:
        return None
    session.ask(request)
    whole = dataclasses.replace(answer, responses=tuple(session.tell(answer)))
    if getattr(answer, "session_id", 0):
        sessions[fetch.broker, answer.session_id] = session
        whole = dataclasses.replace(whole, session_id=0)
    return session.values(), encode_response(whole, fetch.header.correlation_id)


def _emptied(topic: Struct) -> Struct:
    (partition,) = topic.partitions
    return dataclasses.replace(topic, partitions=(dataclasses.replace(partition, records=b""),))
