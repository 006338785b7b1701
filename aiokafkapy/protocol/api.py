"""The APIs and versions that aiokafkapy speaks.

Kafka's counterpart is ``org.apache.kafka.common.protocol.ApiKeys``. ``client_versions`` is the range of our clients; a
connection uses the highest version in it that the broker supports. The dev broker's ranges are in its handlers. kio is
imported with the first of its classes that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from functools import cache
from typing import Any, Final

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
"""Version 6 is for KIP-939 only: in released brokers it is among the unstable versions."""

_NEVER: Final = 1_000
_SPOKEN: Final[Mapping[int, tuple[int, int, int]]] = {
    ApiKey.PRODUCE: (3, 13, 9),
    ApiKey.FETCH: (4, 18, 12),
    ApiKey.LIST_OFFSETS: (1, 10, 6),  # 11 is tiered storage's earliest pending upload (KIP-1023)
    ApiKey.METADATA: (0, 13, 9),
    ApiKey.OFFSET_COMMIT: (2, 9, 8),  # 10 has topic ids, unstable in 4.1
    ApiKey.OFFSET_FETCH: (1, 9, 6),  # likewise
    ApiKey.FIND_COORDINATOR: (0, 6, 3),
    ApiKey.JOIN_GROUP: (0, 9, 6),
    ApiKey.HEARTBEAT: (0, 4, 4),
    ApiKey.LEAVE_GROUP: (0, 5, 4),
    ApiKey.SYNC_GROUP: (0, 5, 4),
    ApiKey.DESCRIBE_GROUPS: (0, 6, 5),
    ApiKey.LIST_GROUPS: (0, 5, 3),
    ApiKey.SASL_HANDSHAKE: (0, 1, _NEVER),
    ApiKey.API_VERSIONS: (0, 4, 3),
    ApiKey.CREATE_TOPICS: (2, 7, 5),
    ApiKey.DELETE_TOPICS: (1, 6, 4),
    ApiKey.DELETE_RECORDS: (0, 2, 2),
    ApiKey.INIT_PRODUCER_ID: (0, 6, 2),
    ApiKey.OFFSET_FOR_LEADER_EPOCH: (2, 4, 4),
    ApiKey.ADD_PARTITIONS_TO_TXN: (0, 5, 3),
    ApiKey.ADD_OFFSETS_TO_TXN: (0, 4, 3),
    ApiKey.END_TXN: (0, 5, 3),
    ApiKey.WRITE_TXN_MARKERS: (1, 2, 1),
    ApiKey.TXN_OFFSET_COMMIT: (0, 5, 3),
    ApiKey.DESCRIBE_ACLS: (1, 3, 2),
    ApiKey.CREATE_ACLS: (1, 3, 2),
    ApiKey.DELETE_ACLS: (1, 3, 2),
    ApiKey.DESCRIBE_CONFIGS: (1, 4, 4),
    ApiKey.ALTER_CONFIGS: (0, 2, 2),
    ApiKey.ALTER_REPLICA_LOG_DIRS: (1, 2, 2),
    ApiKey.DESCRIBE_LOG_DIRS: (1, 5, 2),
    ApiKey.SASL_AUTHENTICATE: (0, 2, 2),
    ApiKey.CREATE_PARTITIONS: (0, 3, 2),
    ApiKey.DELETE_GROUPS: (0, 2, 2),
    ApiKey.ELECT_LEADERS: (0, 2, 2),
    ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1, 1),
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 1, 0),
    ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0, 0),
    ApiKey.OFFSET_DELETE: (0, 0, _NEVER),
    ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.ALTER_CLIENT_QUOTAS: (0, 1, 1),
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: (0, 0, 0),
    ApiKey.DESCRIBE_QUORUM: (0, 2, 0),
    ApiKey.UPDATE_FEATURES: (0, 2, 0),
    ApiKey.DESCRIBE_CLUSTER: (0, 2, 0),
    ApiKey.DESCRIBE_PRODUCERS: (0, 0, 0),
    ApiKey.DESCRIBE_TRANSACTIONS: (0, 0, 0),
    ApiKey.LIST_TRANSACTIONS: (0, 2, 0),
    ApiKey.CONSUMER_GROUP_HEARTBEAT: (0, 1, 0),
    ApiKey.CONSUMER_GROUP_DESCRIBE: (0, 1, 0),
    ApiKey.GET_TELEMETRY_SUBSCRIPTIONS: (0, 0, 0),
    ApiKey.PUSH_TELEMETRY: (0, 0, 0),
    ApiKey.LIST_CONFIG_RESOURCES: (0, 1, 0),
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: (0, 0, 0),
    ApiKey.SHARE_GROUP_HEARTBEAT: (1, 1, 1),
    ApiKey.SHARE_GROUP_DESCRIBE: (1, 1, 1),
    ApiKey.SHARE_FETCH: (1, 2, 1),
    ApiKey.SHARE_ACKNOWLEDGE: (1, 2, 1),
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS: (0, 1, 0),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: (0, 0, 0),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: (0, 0, 0),
}
"""The lowest and the highest version that our clients use, and the first flexible one (KIP-482).

As in kio, which a test checks, except for later versions that are unstable in released brokers or of no use to us.
"""


_API_KEYS: Final = frozenset(ApiKey)


def api_name(api_key: int) -> str:
    """An API's name for messages; the number of an unknown one."""
    return ApiKey(api_key).name if api_key in _API_KEYS else str(api_key)


@cache
def schema_versions(api_key: int) -> tuple[int, int]:
    """The lowest and highest version with message classes; raises KeyError for an unknown API."""
    from ._kio import api_key_map, schema_name_map

    versions = schema_name_map[api_key_map[int(api_key)]]
    return min(versions), max(versions)


def client_versions(api_key: int) -> tuple[int, int]:
    """The lowest and highest version that our clients use; raises KeyError for an unknown API."""
    return _SPOKEN[api_key][:2]


@cache
def request_class(api_key: int, version: int) -> type[Any]:
    """kio's dataclass of a request."""
    from ._kio import load_request_schema

    return load_request_schema(int(api_key), version)


@cache
def response_class(api_key: int, version: int) -> type[Any]:
    """kio's dataclass of a response."""
    from ._kio import load_response_schema

    return load_response_schema(int(api_key), version)


@cache
def is_flexible(api_key: int, version: int) -> bool:
    """True when this version has compact lengths and tagged fields (KIP-482)."""
    lowest, highest, first_flexible = _SPOKEN.get(api_key, (0, -1, _NEVER))
    if lowest <= version <= highest:
        return version >= first_flexible
    return bool(request_class(api_key, version).__flexible__)
