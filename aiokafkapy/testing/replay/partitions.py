"""``put_together``: an answer for partitions that clients asked for in another combination than in the recording.

Owns where partitions are in requests and answers of the APIs that are asked for several of them at once. Pure: it knows
no recording. How many partitions a consumer asks for at once depends on when it has heard of each.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import RequestHeader, decode_response, encode_response

__all__ = ["PARTED", "put_together"]


class _Names(NamedTuple):
    """Of fields: a partition's number and position in the request, and the topics in the answer."""

    partition: str
    position: str
    answers: str


PARTED: Final[Mapping[int, _Names]] = {
    ApiKey.FETCH: _Names("partition", "fetch_offset", "responses"),
    ApiKey.LIST_OFFSETS: _Names("partition_index", "timestamp", "topics"),
}
_TOPIC: Final = ("topic_id", "topic", "name")
"""The first of these that a message has is the topic's."""


def put_together(header: RequestHeader, asked: Any, known: Sequence[tuple[Any, bytes]]) -> bytes | None:
    """The answer to a request with these values, from ``known`` requests' values and answers; None when they have not
    all of its partitions, and for a fetch session, in which an answer leaves partitions out.
    """
    names = PARTED[header.api_key]
    answers: dict[tuple[Any, int, Any], Any] = {}
    first: Any = None
    for values, frame in known:
        body = _body(header, frame)
        if body is not None:
            first = body if first is None else first
            for place in _partitions(names, values):
                answers.setdefault(place, _answer_for(names, body, place))
    found = [answers.get(place) for place in _partitions(names, asked)]
    if first is None or not found or None in found:
        return None
    return encode_response(dataclasses.replace(first, **{names.answers: tuple(found)}), header.correlation_id)


# internals


def _body(header: RequestHeader, frame: bytes) -> Any:
    try:
        _, body = decode_response(header.api_key, header.api_version, frame[4:])
    except MalformedFrameError:
        return None
    return None if getattr(body, "session_id", 0) or getattr(body, "error_code", 0) else body


def _partitions(names: _Names, values: Any) -> Iterator[tuple[Any, int, Any]]:
    """The topic, the number and the position of each partition of a request."""
    for topic in values.get("topics") or ():
        name = next(topic[field] for field in _TOPIC if field in topic)
        for partition in topic["partitions"]:
            yield name, partition[names.partition], partition[names.position]


def _answer_for(names: _Names, body: Any, place: tuple[Any, int, Any]) -> Any:
    """A topic of the answer, with this partition alone; None when it has it not."""
    for topic in getattr(body, names.answers):
        name = next(getattr(topic, field) for field in _TOPIC if hasattr(topic, field))
        for partition in topic.partitions:
            if (name, partition.partition_index) == place[:2]:
                return dataclasses.replace(topic, partitions=(partition,))
    return None
