"""The API versions that a broker supports, and the choice among them.

Owns the ranges of one broker (``NodeApiVersions``) and of all connected ones (``ApiVersions``). Sends nothing: the
network client asks the broker. Kafka's counterparts have the same names.

Rules: the version used is the highest that both sides support, within the request's own limits; if there is none,
UnsupportedVersionError is raised before any I/O. Exceptions to a broker's advertisement:

- Produce 13 and Fetch 13 name topics by id. Azure Event Hubs advertises Produce 13, but no Metadata version with topic
  ids (10 or later): then Produce is limited to 12.
- The client has to wait for a response's throttle time only in the versions in which brokers respond before they
  throttle (KIP-219).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from ..._version import __version__
from ...errors import MalformedFrameError, UnsupportedVersionError
from ...protocol.api import ApiKey, client_versions
from ...protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ...protocol.constants import (
    FIRST_FETCH_WITH_TOPIC_IDS,
    FIRST_METADATA_WITH_TOPIC_IDS,
    FIRST_PRODUCE_WITH_TOPIC_IDS,
)

__all__ = [
    "ApiVersions",
    "NodeApiVersions",
    "build_api_versions_request",
    "decode_api_versions_response",
    "fallback_version",
    "throttle_seconds",
]

# Our name in the brokers' metrics; KIP-511 allows letters, digits, dots and dashes.
_SOFTWARE_NAME: Final = "aiokafkapy"

_LAST_VERSIONS_WITH_TOPIC_NAMES: Final = {
    ApiKey.PRODUCE: FIRST_PRODUCE_WITH_TOPIC_IDS - 1,
    ApiKey.FETCH: FIRST_FETCH_WITH_TOPIC_IDS - 1,
}
# KIP-219: before these versions the broker has already waited when it answers.
_FIRST_THROTTLED_BY_CLIENT: Final[Mapping[int, int]] = {
    ApiKey.PRODUCE: 6,
    ApiKey.FETCH: 8,
    ApiKey.LIST_OFFSETS: 3,
    ApiKey.METADATA: 6,
    ApiKey.OFFSET_COMMIT: 4,
    ApiKey.OFFSET_FETCH: 4,
    ApiKey.FIND_COORDINATOR: 2,
    ApiKey.JOIN_GROUP: 3,
    ApiKey.HEARTBEAT: 2,
    ApiKey.LEAVE_GROUP: 2,
    ApiKey.SYNC_GROUP: 2,
    ApiKey.DESCRIBE_GROUPS: 2,
    ApiKey.LIST_GROUPS: 2,
    ApiKey.API_VERSIONS: 2,
    ApiKey.CREATE_TOPICS: 3,
    ApiKey.DELETE_TOPICS: 2,
    ApiKey.INIT_PRODUCER_ID: 1,
    ApiKey.ADD_PARTITIONS_TO_TXN: 1,
    ApiKey.ADD_OFFSETS_TO_TXN: 1,
    ApiKey.END_TXN: 1,
    ApiKey.TXN_OFFSET_COMMIT: 1,
    ApiKey.DESCRIBE_CONFIGS: 2,
    ApiKey.CREATE_PARTITIONS: 1,
    ApiKey.DELETE_GROUPS: 1,
}


class NodeApiVersions:
    """The version ranges of one broker, and the versions to use with it; immutable except for a cache."""

    __slots__ = (
        "_last_api_key", "_last_max", "_last_min", "_last_version", "_usable", "finalized_features", "ranges",
        "supported_features",
    )  # fmt: skip

    def __init__(
        self,
        ranges: Mapping[int, tuple[int, int]],
        *,
        supported_features: Mapping[str, tuple[int, int]] | None = None,
        finalized_features: Mapping[str, int] | None = None,
    ) -> None:
        self.ranges = _shared_ranges(tuple(ranges.items()))
        self.supported_features: Mapping[str, tuple[int, int]] = MappingProxyType(dict(supported_features or {}))
        self.finalized_features: Mapping[str, int] = MappingProxyType(dict(finalized_features or {}))
        self._usable: dict[tuple[int, int | None, int | None], int] = {}
        # The last question and its answer: most requests are of the same kind as the one before.
        self._last_api_key: int | None = None
        self._last_min: int | None = None
        self._last_max: int | None = None
        self._last_version = -1

    @classmethod
    def from_response(cls, response: ApiVersionsResponse) -> NodeApiVersions:
        """Read an ApiVersions response of any version. Features count only with a valid epoch (KIP-584)."""
        finalized = response.finalized_features if response.finalized_features_epoch >= 0 else ()
        return cls(
            {each.api_key: (each.min_version, each.max_version) for each in response.api_keys},
            supported_features={
                each.name: (each.min_version, each.max_version) for each in response.supported_features
            },
            finalized_features={each.name: each.max_version_level for each in finalized},
        )

    def latest_usable_version(
        self, api_key: int, min_version: int | None = None, max_version: int | None = None
    ) -> int:
        """The highest version that both sides support, between the given ones; raises UnsupportedVersionError if there
        is none.
        """
        if api_key is self._last_api_key and min_version is self._last_min and max_version is self._last_max:
            return self._last_version
        key = (api_key, min_version, max_version)
        version = self._usable.get(key)
        if version is None:
            version = self._usable[key] = self._find_usable(api_key, min_version, max_version)
        self._last_api_key, self._last_min, self._last_max = key
        self._last_version = version
        return version

    def supports(self, api_key: int, version: int | None = None) -> bool:
        """True when the broker supports the API, in this version if one is given."""
        offered = self.ranges.get(api_key)
        return offered is not None and (version is None or offered[0] <= version <= offered[1])

    # internals

    def _find_usable(self, api_key: int, min_version: int | None, max_version: int | None) -> int:
        lowest, highest = client_versions(api_key)
        if min_version is not None:
            lowest = max(lowest, min_version)
        if max_version is not None:
            highest = min(highest, max_version)
        name = ApiKey(api_key).name
        offered = self.ranges.get(api_key)
        if offered is None:
            raise UnsupportedVersionError(f"the broker does not have {name}")
        version = min(highest, offered[1])
        if version < max(lowest, offered[0]):
            raise UnsupportedVersionError(
                f"the broker has {name} in versions {offered[0]} to {offered[1]}; "
                f"needed is one of {lowest} to {highest}"
            )
        return version


class ApiVersions:
    """The ``NodeApiVersions`` of each connected node."""

    __slots__ = ("_nodes",)

    def __init__(self) -> None:
        self._nodes: dict[int, NodeApiVersions] = {}

    def update(self, node_id: int, versions: NodeApiVersions) -> None:
        """Record the versions of a node."""
        self._nodes[node_id] = versions

    def remove(self, node_id: int) -> None:
        """Forget the versions of a node: it may be upgraded when it comes back."""
        self._nodes.pop(node_id, None)

    def get(self, node_id: int) -> NodeApiVersions | None:
        """The versions of the node, or None while they are not known."""
        return self._nodes.get(node_id)


def build_api_versions_request(version: int) -> ApiVersionsRequest:
    """The body of a request for the broker's versions, which also names this client (KIP-511)."""
    return ApiVersionsRequest(version, _SOFTWARE_NAME, __version__)


def decode_api_versions_response(version: int, frame: bytes) -> ApiVersionsResponse:
    """Decode a response. A refusal of the request's version should come in version 0 (KIP-511); if it does not,
    only its error code is read.
    """
    error_code = int.from_bytes(frame[4:6], "big", signed=True)
    is_refusal = error_code == UnsupportedVersionError.code
    try:
        return ApiVersionsResponse.read(0 if is_refusal else version, frame)
    except MalformedFrameError:
        if not is_refusal:
            raise
        # librdkafka's mock cluster and Azure Event Hubs each send a refusal in a format of their own.
        return ApiVersionsResponse(error_code)


def fallback_version(response: ApiVersionsResponse) -> int:
    """The version to retry with after a broker refused ours: its highest if the response has it, else 0."""
    for entry in response.api_keys:
        if entry.api_key == ApiKey.API_VERSIONS:
            return max(0, min(int(entry.max_version), client_versions(ApiKey.API_VERSIONS)[1]))
    return 0


def throttle_seconds(api_key: int, version: int, body: object) -> float:
    """Seconds for which nothing may be sent to the node after this response; 0 if the broker has already waited."""
    milliseconds: float | None = getattr(body, "throttle_time_ms", None)
    if milliseconds is None:  # a message of kio's
        throttle_time = getattr(body, "throttle_time", None)
        if not throttle_time:
            return 0.0
        milliseconds = throttle_time.total_seconds() * 1000
    if milliseconds <= 0 or version < _FIRST_THROTTLED_BY_CLIENT.get(api_key, 0):
        return 0.0
    return milliseconds / 1000


@lru_cache(maxsize=64)
def _shared_ranges(ranges: tuple[tuple[int, tuple[int, int]], ...]) -> Mapping[int, tuple[int, int]]:
    """One table for all brokers of a release, in all clients of the process: there are few releases."""
    return MappingProxyType(_without_false_offers(dict(ranges)))


def _without_false_offers(cut: dict[int, tuple[int, int]]) -> dict[int, tuple[int, int]]:
    if cut.get(ApiKey.METADATA, (0, 0))[1] < FIRST_METADATA_WITH_TOPIC_IDS:
        for api_key, highest in _LAST_VERSIONS_WITH_TOPIC_NAMES.items():
            if api_key in cut:
                low, high = cut[api_key]
                cut[int(api_key)] = (low, min(high, highest))
    return cut
