"""The ApiVersions request and its response, all versions, without kio: the first messages on each connection.

Kafka's counterparts are ``ApiVersionsRequest`` and ``ApiVersionsResponse``. Version 1 has the throttle time, 3 is
flexible, names the client (KIP-511) and has the features (KIP-584). Invalid bytes raise MalformedFrameError; tagged
fields that are not known are skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple, TypeVar

from ..common import Buffer
from .api import ApiKey
from .codec import read_response, unsigned_varint
from .cursor import (
    Cursor,
    FieldReader,
    not_null,
    read_array,
    read_compact_array,
    read_compact_string,
    read_int16,
    read_int32,
    read_int64,
    read_tagged_fields,
)

__all__ = ["ApiVersion", "ApiVersionsRequest", "ApiVersionsResponse", "FinalizedFeature", "SupportedFeature"]

T = TypeVar("T")

_FIRST_WITH_THROTTLE_TIME: Final = 1
_FIRST_FLEXIBLE: Final = 3


class ApiVersion(NamedTuple):
    """An API that the broker supports, in these versions."""

    api_key: int
    min_version: int
    max_version: int


class SupportedFeature(NamedTuple):
    """A feature, and the levels of it that the broker supports."""

    name: str
    min_version: int
    max_version: int


class FinalizedFeature(NamedTuple):
    """A feature, and the levels of it that the cluster has."""

    name: str
    max_version_level: int
    min_version_level: int


class ApiVersionsRequest:
    """The request in one version; it names the client from version 3 on."""

    __slots__ = ("__version__", "client_software_name", "client_software_version")

    __api_key__: Final = ApiKey.API_VERSIONS

    def __init__(self, version: int, client_software_name: str, client_software_version: str) -> None:
        self.__version__ = version
        self.client_software_name = client_software_name
        self.client_software_version = client_software_version

    def append_to(self, append: Callable[[Buffer], object]) -> None:
        """Give its bytes, in pieces and in order, to ``append``."""
        if self.__version__ >= _FIRST_FLEXIBLE:
            for text in (self.client_software_name.encode(), self.client_software_version.encode()):
                append(unsigned_varint(len(text) + 1) + text)
            append(b"\0")


class ApiVersionsResponse(NamedTuple):
    """The response of any version."""

    error_code: int
    api_keys: tuple[ApiVersion, ...] = ()
    throttle_time_ms: int = 0
    supported_features: tuple[SupportedFeature, ...] = ()
    finalized_features_epoch: int = -1
    finalized_features: tuple[FinalizedFeature, ...] = ()

    @classmethod
    def read(cls, version: int, frame: bytes) -> ApiVersionsResponse:
        """From a response's frame, without its size; raises MalformedFrameError."""
        response: ApiVersionsResponse = read_response(ApiKey.API_VERSIONS, version, frame, partial(_read, version))[1]
        return response


# internals


def _read(version: int, cursor: Cursor) -> ApiVersionsResponse:
    is_flexible = version >= _FIRST_FLEXIBLE
    error_code = read_int16(cursor)
    read = partial(read_compact_array if is_flexible else read_array, partial(_read_api_version, is_flexible))
    api_keys = not_null(read, cursor)
    throttle_time_ms = read_int32(cursor) if version >= _FIRST_WITH_THROTTLE_TIME else 0
    features = read_tagged_fields(_TAGGED, "an ApiVersions response", cursor) if is_flexible else {}
    return ApiVersionsResponse(error_code, api_keys, throttle_time_ms, **features)


def _read_api_version(is_flexible: bool, cursor: Cursor) -> ApiVersion:
    api_version = ApiVersion(read_int16(cursor), read_int16(cursor), read_int16(cursor))
    if is_flexible:
        cursor.skip_tags()
    return api_version


def _read_features(make: Callable[[str, int, int], T], cursor: Cursor) -> tuple[T, ...]:
    def read_feature(cursor: Cursor) -> T:
        feature = make(not_null(read_compact_string, cursor), read_int16(cursor), read_int16(cursor))
        cursor.skip_tags()
        return feature

    return not_null(partial(read_compact_array, read_feature), cursor)


_TAGGED: Final[Mapping[int, tuple[str, FieldReader]]] = {
    0: ("supported_features", partial(_read_features, SupportedFeature)),
    1: ("finalized_features_epoch", read_int64),
    2: ("finalized_features", partial(_read_features, FinalizedFeature)),
}
