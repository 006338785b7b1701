"""Numbers that have a meaning in Kafka's messages, for both ends of a connection.

Kafka's counterparts are ``ListOffsetsRequest``, ``IsolationLevel``, ``FindCoordinatorRequest.CoordinatorType``,
``MetadataResponse.AUTHORIZED_OPERATIONS_OMITTED`` and ``ConfigResource.Type``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "AUTHORIZED_OPERATIONS_OMITTED",
    "BROKER_LOGGER_RESOURCE",
    "BROKER_RESOURCE",
    "CLIENT_METRICS_RESOURCE",
    "CONSUMER_REPLICA_ID",
    "EARLIEST",
    "FIRST_FETCH_WITH_TOPIC_IDS",
    "FIRST_METADATA_WITH_TOPIC_IDS",
    "FIRST_PRODUCE_WITH_TOPIC_IDS",
    "GROUP_COORDINATOR",
    "GROUP_RESOURCE",
    "LATEST",
    "MAX_TIMESTAMP",
    "READ_COMMITTED",
    "READ_UNCOMMITTED",
    "SHARE_COORDINATOR",
    "TOPIC_RESOURCE",
    "TRANSACTION_COORDINATOR",
]

CONSUMER_REPLICA_ID: Final = -1
"""The replica id that a client, which is not a replica, puts into Fetch and ListOffsets."""

# Isolation levels of Fetch and ListOffsets.
READ_UNCOMMITTED: Final = 0
READ_COMMITTED: Final = 1
"""Leaves out the records of open and aborted transactions."""

# The first versions that have topic ids (KIP-516); Produce and Fetch have no names since then.
FIRST_PRODUCE_WITH_TOPIC_IDS: Final = 13
FIRST_FETCH_WITH_TOPIC_IDS: Final = 13
FIRST_METADATA_WITH_TOPIC_IDS: Final = 10

# Types of keys of FindCoordinator.
GROUP_COORDINATOR: Final = 0
TRANSACTION_COORDINATOR: Final = 1
SHARE_COORDINATOR: Final = 2
"""Of share groups' states, for brokers only (KIP-932)."""

AUTHORIZED_OPERATIONS_OMITTED: Final = -(2**31)
"""The bit field of authorized operations in a response, when the client did not ask for them."""

# Special times of ListOffsets.
LATEST: Final = -1
EARLIEST: Final = -2
MAX_TIMESTAMP: Final = -3
"""The record with the largest timestamp (KIP-734)."""

# Types of the resources that have options.
TOPIC_RESOURCE: Final = 2
BROKER_RESOURCE: Final = 4
BROKER_LOGGER_RESOURCE: Final = 8
CLIENT_METRICS_RESOURCE: Final = 16
GROUP_RESOURCE: Final = 32
