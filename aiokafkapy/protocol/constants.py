"""Numbers that have a meaning in Kafka's messages, for both ends of a connection.

Kafka's counterparts are ``ListOffsetsRequest`` and ``ConfigResource.Type``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BROKER_LOGGER_RESOURCE",
    "BROKER_RESOURCE",
    "CLIENT_METRICS_RESOURCE",
    "CONSUMER_REPLICA_ID",
    "EARLIEST",
    "GROUP_RESOURCE",
    "LATEST",
    "MAX_TIMESTAMP",
    "TOPIC_RESOURCE",
]

CONSUMER_REPLICA_ID: Final = -1
"""The replica id that a client, which is not a replica, puts into Fetch and ListOffsets."""

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
