"""Other products that speak Kafka's protocol, as far as a recorded or published source says how they answer.

Owns their ranges and their answers to ApiVersions; each has its sources. Nothing here is guessed: where a source says
nothing, the answer is Kafka's.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from ...errors import UnsupportedForMessageFormatError
from ...protocol.api import ApiKey
from ...record.compression import Compression
from .model import Emulation, UnknownApiVersions

__all__ = ["PROFILES"]

_CODECS_BUT_GZIP: Final = (Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)

_EVENT_HUBS: Final = Emulation(
    # Ranges: "Recorded API versions" in the debug log of a Java client that talks to Event Hubs, 2022-09-23, in
    # https://github.com/Azure/azure-event-hubs-for-kafka/issues/209. There are no APIs of transactions, of ACLs and
    # of incremental changes of options; Metadata has no leader epochs (7) and no topic ids (10), Fetch no sessions (7).
    # An unknown version of ApiVersions: in that log the client, which begins with version 3, comes again with version 0
    # ("Using older server API v0 to send API_VERSIONS"), as it does for an UNSUPPORTED_VERSION without ranges; version
    # 4 resets the connection: https://github.com/twmb/franz-go/pull/1022, also dpkp/kafka-python#2602.
    # Codecs but gzip: UNSUPPORTED_FOR_MESSAGE_FORMAT, https://github.com/twmb/franz-go/issues/144 and its part of
    # https://learn.microsoft.com/azure/event-hubs/apache-kafka-troubleshooting-guide; gzip is taken in some tiers.
    # Later recordings have higher versions of groups and offsets (https://github.com/tulios/kafkajs/issues/1487,
    # https://github.com/oliveigah/klife/issues/13), and the same of Produce, Fetch and Metadata.
    version="event-hubs",
    name="Azure Event Hubs",
    source="a client's log of 2022-09-23, Azure/azure-event-hubs-for-kafka#209",
    apis={
        ApiKey.PRODUCE: (3, 7),
        ApiKey.FETCH: (4, 6),
        ApiKey.LIST_OFFSETS: (0, 2),
        ApiKey.METADATA: (0, 5),
        ApiKey.OFFSET_COMMIT: (0, 3),
        ApiKey.OFFSET_FETCH: (0, 3),
        ApiKey.FIND_COORDINATOR: (0, 1),
        ApiKey.JOIN_GROUP: (0, 4),
        ApiKey.HEARTBEAT: (0, 1),
        ApiKey.LEAVE_GROUP: (0, 1),
        ApiKey.SYNC_GROUP: (0, 1),
        ApiKey.DESCRIBE_GROUPS: (0, 1),
        ApiKey.LIST_GROUPS: (0, 1),
        ApiKey.SASL_HANDSHAKE: (0, 1),
        ApiKey.API_VERSIONS: (0, 1),
        ApiKey.CREATE_TOPICS: (0, 2),
        ApiKey.DELETE_TOPICS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 1),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 0),
        ApiKey.DESCRIBE_CONFIGS: (0, 2),
        ApiKey.SASL_AUTHENTICATE: (0, 1),
        ApiKey.CREATE_PARTITIONS: (0, 1),
        ApiKey.DELETE_GROUPS: (0, 0),
    },
    refused_codecs=dict.fromkeys(_CODECS_BUT_GZIP, UnsupportedForMessageFormatError.code),
    unknown_api_versions=UnknownApiVersions.NONE,
    answers_api_versions_up_to=3,
    has_features=False,
)

_REDPANDA: Final = Emulation(
    # Ranges: the handlers of https://github.com/redpanda-data/redpanda at v24.3.2, src/v/kafka/server/handlers/*.h, as
    # far as handlers.h lists them. There are no topic ids (Metadata 10), no features and no groups of KIP-848.
    # An unknown version of ApiVersions: handlers/api_versions.cc has UNSUPPORTED_VERSION with the ranges of all APIs,
    # which request_context.h writes in version 0. Any other unknown version or API throws in requests.cc, which closes
    # the connection. The cluster's id tells the product (handlers/metadata.cc).
    version="redpanda",
    name="Redpanda 24.3",
    source="the handlers of Redpanda v24.3.2",
    apis={
        ApiKey.PRODUCE: (0, 7),
        ApiKey.FETCH: (4, 11),
        ApiKey.LIST_OFFSETS: (0, 4),
        ApiKey.METADATA: (0, 8),
        ApiKey.OFFSET_COMMIT: (1, 8),
        ApiKey.OFFSET_FETCH: (1, 7),
        ApiKey.FIND_COORDINATOR: (0, 3),
        ApiKey.JOIN_GROUP: (0, 6),
        ApiKey.HEARTBEAT: (0, 4),
        ApiKey.LEAVE_GROUP: (0, 4),
        ApiKey.SYNC_GROUP: (0, 4),
        ApiKey.DESCRIBE_GROUPS: (0, 5),
        ApiKey.LIST_GROUPS: (0, 4),
        ApiKey.SASL_HANDSHAKE: (0, 1),
        ApiKey.API_VERSIONS: (0, 3),
        ApiKey.CREATE_TOPICS: (0, 6),
        ApiKey.DELETE_TOPICS: (0, 5),
        ApiKey.DELETE_RECORDS: (0, 2),
        ApiKey.INIT_PRODUCER_ID: (0, 3),
        ApiKey.OFFSET_FOR_LEADER_EPOCH: (0, 4),
        ApiKey.ADD_PARTITIONS_TO_TXN: (0, 3),
        ApiKey.ADD_OFFSETS_TO_TXN: (0, 1),
        ApiKey.END_TXN: (0, 3),
        ApiKey.TXN_OFFSET_COMMIT: (0, 3),
        ApiKey.DESCRIBE_ACLS: (0, 2),
        ApiKey.CREATE_ACLS: (0, 2),
        ApiKey.DELETE_ACLS: (0, 2),
        ApiKey.DESCRIBE_CONFIGS: (0, 4),
        ApiKey.ALTER_CONFIGS: (0, 2),
        ApiKey.DESCRIBE_LOG_DIRS: (0, 2),
        ApiKey.SASL_AUTHENTICATE: (0, 2),
        ApiKey.CREATE_PARTITIONS: (0, 3),
        ApiKey.DELETE_GROUPS: (0, 2),
        ApiKey.INCREMENTAL_ALTER_CONFIGS: (0, 1),
        ApiKey.ALTER_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.LIST_PARTITION_REASSIGNMENTS: (0, 0),
        ApiKey.OFFSET_DELETE: (0, 0),
        ApiKey.DESCRIBE_CLIENT_QUOTAS: (0, 1),
        ApiKey.ALTER_CLIENT_QUOTAS: (0, 1),
        ApiKey.DESCRIBE_PRODUCERS: (0, 0),
        ApiKey.DESCRIBE_TRANSACTIONS: (0, 0),
        ApiKey.LIST_TRANSACTIONS: (0, 0),
    },
    unknown_api_versions=UnknownApiVersions.ALL,
    has_features=False,
    cluster_id_prefix="redpanda.",
)

PROFILES: Final[Mapping[str, Emulation]] = MappingProxyType({each.version: each for each in (_EVENT_HUBS, _REDPANDA)})
"""The products by the name that ``DevBroker(version=...)`` takes."""
