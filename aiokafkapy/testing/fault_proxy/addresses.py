"""Rewrites the brokers' addresses in responses.

Works on decoded messages, in every version with a schema; a response that cannot be decoded, or in which nothing
changes, keeps its bytes. For APIs that carry addresses, the version ranges in ApiVersions responses are limited to
those with a schema: otherwise clients of a broker newer than the schemas would bypass the proxy.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, TypeAlias

from ...errors import MalformedFrameError
from ...protocol.api import ApiKey, response_class, schema_versions
from ...protocol.codec import Struct, decode_response, encode_response

__all__ = ["Rename", "rewrite_addresses"]

Rename: TypeAlias = Callable[[int, str, int], tuple[str, int]]
"""Our address for a node's id, host and port."""

_LISTS: Final[Mapping[int, str]] = {
    ApiKey.PRODUCE: "node_endpoints",
    ApiKey.FETCH: "node_endpoints",
    ApiKey.METADATA: "brokers",
    ApiKey.FIND_COORDINATOR: "coordinators",
    ApiKey.DESCRIBE_CLUSTER: "brokers",
    ApiKey.SHARE_FETCH: "node_endpoints",
    ApiKey.SHARE_ACKNOWLEDGE: "node_endpoints",
}


def rewrite_addresses(api_key: int, version: int, frame: bytes, rename: Rename) -> bytes:
    """A response with the addresses that ``rename`` returns, including its size; ``frame`` is without its size."""
    if not _has_addresses(api_key, version):
        return _sized(frame)
    try:
        correlation_id, body = decode_response(api_key, version, frame)
    except MalformedFrameError:
        return _sized(frame)
    changed = _limit_versions(body) if api_key == ApiKey.API_VERSIONS else _renamed(body, _LISTS[api_key], rename)
    return _sized(frame) if changed is body else encode_response(changed, correlation_id)


def _has_addresses(api_key: int, version: int) -> bool:
    if api_key not in _LISTS and api_key != ApiKey.API_VERSIONS:
        return False
    if not 0 <= version <= _highest_known(api_key):
        return False
    names = response_class(api_key, version).__dataclass_fields__
    return api_key == ApiKey.API_VERSIONS or _LISTS[api_key] in names or "host" in names


def _renamed(body: Struct, name: str, rename: Rename) -> Struct:
    if hasattr(body, "host"):  # FindCoordinator, before it could find several
        return next(_moved([body], rename))
    before = getattr(body, name)
    after = tuple(_moved(before or (), rename))
    return body if all(new is old for new, old in zip(after, before or (), strict=True)) else _with(body, name, after)


def _moved(places: Iterable[Struct], rename: Rename) -> Iterator[Struct]:
    for place in places:
        if not place.host or place.port <= 0:  # the protocol's "none"
            yield place
            continue
        node_id = place.broker_id if hasattr(place, "broker_id") else place.node_id
        host, port = rename(node_id, place.host, place.port)
        is_same = (host, port) == (place.host, place.port)
        yield place if is_same else dataclasses.replace(place, host=host, port=port)


def _limit_versions(body: Struct) -> Struct:
    limited = []
    for each in body.api_keys:
        highest = _highest_known(each.api_key) if each.api_key in _LISTS else each.max_version
        is_too_new = each.min_version <= highest < each.max_version
        limited.append(dataclasses.replace(each, max_version=highest) if is_too_new else each)
    return body if tuple(limited) == body.api_keys else _with(body, "api_keys", tuple(limited))


def _highest_known(api_key: int) -> int:
    try:
        return schema_versions(api_key)[1]
    except KeyError:
        return -1


def _with(body: Struct, name: str, value: object) -> Struct:
    return dataclasses.replace(body, **{name: value})


def _sized(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame
