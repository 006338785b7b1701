"""Builds messages independently of their version.

kio has one dataclass per message, version and nested struct. ``build_request(ApiKey.METADATA, version,
topics=[{"name": "t"}])`` turns plain dicts and lists into the classes of that version: a field that the version
lacks is dropped, a field that is not given takes the schema's default (or the zero of its type). kio's
durations and timestamps are datetime objects; give ints of milliseconds, and read them back with
``common.milliseconds``.

kio is imported when the first message is built.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..common import TopicPartition
from .api import request_class, response_class
from .codec import Struct

__all__ = ["build_request", "build_response", "by_topic"]


def build_request(api_key: int, version: int, **fields: object) -> Struct:
    """A request's body in one version; raises TypeError for a field that no version of it has."""
    from .entities import build

    request: Struct = build(request_class(api_key, version), fields)
    return request


def build_response(api_key: int, version: int, **fields: object) -> Struct:
    """A response's body in one version; raises TypeError as ``build_request`` does."""
    from .entities import build

    response: Struct = build(response_class(api_key, version), fields)
    return response


def by_topic(partitions: Iterable[tuple[TopicPartition, object]]) -> list[dict[str, object]]:
    """The ``topics`` of most requests: each name once, with the entries of its partitions, in the order given."""
    topics: dict[str, list[object]] = {}
    for tp, entry in partitions:
        topics.setdefault(tp.topic, []).append(entry)
    return [{"name": name, "partitions": entries} for name, entries in topics.items()]
