"""``put_together``: makes an answer for partitions that clients request in another combination than in the recording.

Owns the places of partitions in requests and answers of the APIs that take several at once. Pure: it knows no
recording. The partitions that a consumer requests together depend on the moment when it heard of each, and on its
group's assignment.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias
from uuid import UUID

from ...errors import MalformedFrameError
from ...protocol.api import ApiKey
from ...protocol.codec import RequestHeader, Struct, decode_response, encode_response

__all__ = ["PARTED", "TopicKey", "Values", "put_together", "topic_key"]

Values: TypeAlias = Mapping[str, Any]
"""A request in the form for comparison: its fields, whose lists are lists of such mappings."""
TopicKey: TypeAlias = str | UUID
_Place: TypeAlias = tuple[TopicKey, int, int]
"""A topic, the number of a partition, and the requested position."""


class _Names(NamedTuple):
    """The names of fields: a partition's number and position in the request, and the topics in the answer."""

    partition: str
    position: str
    answers: str


_NAMES: Final[Mapping[int, _Names]] = {
    ApiKey.FETCH: _Names("partition", "fetch_offset", "responses"),
    ApiKey.LIST_OFFSETS: _Names("partition_index", "timestamp", "topics"),
}
PARTED: Final = frozenset({*_NAMES, ApiKey.OFFSET_FETCH})
"""The APIs whose answers are put together."""
_TOPIC: Final = ("topic_id", "topic", "name")
"""The first of these fields that a message has names the topic."""


def put_together(header: RequestHeader, asked: Values, known: Sequence[tuple[Values, bytes]]) -> bytes | None:
    """The answer to a request with these values, from ``known`` requests' values and answers; None if these lack one
    of its partitions. Answers of a fetch session do not count: they leave partitions out.

    Of several answers for a partition the first counts, but one with records before those without, so that a client
    that repeats a request makes progress.
    """
    if header.api_key == ApiKey.OFFSET_FETCH:
        return _committed_offsets(header, asked, known)
    names = _NAMES[header.api_key]
    answers: dict[_Place, Struct | None] = {}
    first: Struct | None = None
    for values, frame in known:
        body = _body(header, frame)
        if body is not None:
            first = body if first is None else first
            for place in _partitions(names, values):
                if not _has_records(answers.get(place)):
                    found = _answer_for(names, body, place)
                    answers[place] = found if _has_records(found) else answers.get(place, found)
    wanted = [answers.get(place) for place in _partitions(names, asked)]
    if first is None or not wanted or None in wanted:
        return None
    return encode_response(dataclasses.replace(first, **{names.answers: tuple(wanted)}), header.correlation_id)


def topic_key(topic: Struct) -> TopicKey:
    """The id or name of a topic in a request or an answer."""
    key: TopicKey = next(getattr(topic, field) for field in _TOPIC if hasattr(topic, field))
    return key


# internals


def _body(header: RequestHeader, frame: bytes) -> Struct | None:
    try:
        _, body = decode_response(header.api_key, header.api_version, frame[4:])
    except MalformedFrameError:
        return None
    return None if getattr(body, "session_id", 0) or getattr(body, "error_code", 0) else body


def _partitions(names: _Names, values: Values) -> Iterator[_Place]:
    """The topic, the number and the position of each partition of a request."""
    for topic in values.get("topics") or ():
        name = next(topic[field] for field in _TOPIC if field in topic)
        for partition in topic["partitions"]:
            yield name, partition[names.partition], partition[names.position]


def _committed_offsets(header: RequestHeader, asked: Values, known: Sequence[tuple[Values, bytes]]) -> bytes | None:
    """As ``put_together``, for groups' offsets. An answer for all partitions of a group contains each of them, too."""
    answers: dict[tuple[str, str, int], Struct] = {}
    first: Struct | None = None
    for values, frame in known:
        body = _body(header, frame)
        if body is not None:
            first = body if first is None else first
            for group_id, topic, partition in _told(values, body):
                place = group_id, topic.name, partition.partition_index
                answers.setdefault(place, dataclasses.replace(topic, partitions=(partition,)))
    found: list[tuple[str, list[Struct]]] = []
    for group in _groups(asked):
        wanted = [
            (group["group_id"], topic["name"], index)
            for topic in group["topics"] or ()
            for index in topic["partition_indexes"]
        ]
        if not wanted or not all(place in answers for place in wanted):
            return None
        found.append((group["group_id"], [answers[place] for place in wanted]))
    if first is None or not found:
        return None
    if not hasattr(first, "groups"):
        told = dataclasses.replace(first, topics=tuple(found[0][1]))
    else:
        like = dataclasses.replace(first.groups[0], error_code=type(first.groups[0].error_code)(0))
        groups = (dataclasses.replace(like, group_id=name, topics=tuple(topics)) for name, topics in found)
        told = dataclasses.replace(first, groups=tuple(groups))
    return encode_response(told, header.correlation_id)


def _groups(values: Values) -> Sequence[Values]:
    """The groups of a request: one before version 8, then several."""
    found: Sequence[Values] = values.get("groups", [values])
    return found


def _told(values: Values, body: Struct) -> Iterator[tuple[str, Struct, Struct]]:
    """Each group's topics and partitions in an answer."""
    groups = (
        [(each.group_id, each) for each in body.groups] if hasattr(body, "groups") else [(values["group_id"], body)]
    )
    for name, group in groups:
        if not getattr(group, "error_code", 0):
            for topic in group.topics:
                for partition in topic.partitions:
                    yield name, topic, partition


def _has_records(topic: Struct | None) -> bool:
    return topic is not None and any(getattr(each, "records", None) for each in topic.partitions)


def _answer_for(names: _Names, body: Struct, place: _Place) -> Struct | None:
    """A topic of the answer, with only this partition; None if the answer lacks it."""
    for topic in getattr(body, names.answers):
        key = topic_key(topic)
        for partition in topic.partitions:
            if (key, partition.partition_index) == place[:2]:
                found: Struct = dataclasses.replace(topic, partitions=(partition,))
                return found
    return None
