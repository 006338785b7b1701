"""The APIs and versions that aiokafkapy speaks.

Kafka's counterpart is ``org.apache.kafka.common.protocol.ApiKeys``. ``client_versions`` is the range of our clients; a
connection uses the highest version in it that the broker supports. The dev broker's ranges are in its handlers.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Final

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map, schema_name_map

__all__ = [
    "INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT",
    "PROOF_FIELDS",
    "ApiKey",
    "api_name",
    "client_versions",
    "is_flexible",
    "request_class",
    "response_class",
    "schema_versions",
]


PROOF_FIELDS: Final = frozenset({"auth_bytes", "hmac", "salt", "salted_password"})
"""Fields of requests and responses that prove an identity, which no recording may show."""


class ApiKey(IntEnum):
    """API keys by Kafka's names."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    DESCRIBE_QUORUM = 55
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75
    SHARE_GROUP_HEARTBEAT = 76
    SHARE_GROUP_DESCRIBE = 77
    SHARE_FETCH = 78
    SHARE_ACKNOWLEDGE = 79
    DESCRIBE_SHARE_GROUP_OFFSETS = 90
    ALTER_SHARE_GROUP_OFFSETS = 91
    DELETE_SHARE_GROUP_OFFSETS = 92


INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT: Final = 5
"""Version 6 is for KIP-939 and nothing else: released brokers have it among their unstable ones."""

# The highest versions to use, where kio has later ones that are unstable in released brokers or of no use to us.
_HIGHEST_SPOKEN: Final[Mapping[ApiKey, int]] = {
    ApiKey.LIST_OFFSETS: 10,  # 11 is tiered storage's earliest pending upload (KIP-1023)
    ApiKey.OFFSET_COMMIT: 9,  # 10 has topic ids, unstable in 4.1
    ApiKey.OFFSET_FETCH: 9,
}


_API_KEYS: Final = frozenset(ApiKey)


def api_name(api_key: int) -> str:
    """An API's name for messages; the number of an unknown one."""
    return ApiKey(api_key).name if api_key in _API_KEYS else str(api_key)


@cache
def schema_versions(api_key: int) -> tuple[int, int]:
    """The lowest and highest version with message classes; raises KeyError for an unknown API."""
    versions = schema_name_map[api_key_map[int(api_key)]]
    return min(versions), max(versions)


@cache
def client_versions(api_key: int) -> tuple[int, int]:
    """The lowest and highest version that our clients use; raises KeyError for an unknown API."""
    low, high = schema_versions(api_key)
    return low, min(high, _HIGHEST_SPOKEN.get(ApiKey(api_key), high))


@cache
def request_class(api_key: int, version: int) -> type[Any]:
    """kio's dataclass of a request."""
    return load_request_schema(int(api_key), version)


@cache
def response_class(api_key: int, version: int) -> type[Any]:
    """kio's dataclass of a response."""
    return load_response_schema(int(api_key), version)


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """True when this version has compact lengths and tagged fields (KIP-482)."""
    return bool(request_class(api_key, version).__flexible__)
