"""The names of attributes that OpenTelemetry's semantic conventions for messaging have, and their version.

In OpenTelemetry's own Python package they are still under ``_incubating``.
"""

from __future__ import annotations

from typing import Final

__all__ = [
    "BODY_SIZE",
    "CLIENT_ID",
    "COUNT",
    "DESTINATION",
    "ERROR_TYPE",
    "GROUP",
    "KEY",
    "OFFSET",
    "OPERATION_NAME",
    "OPERATION_TYPE",
    "PARTITION",
    "SCHEMA_URL",
    "SYSTEM",
    "TOMBSTONE",
]

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/1.36.0"

SYSTEM: Final = "messaging.system"
DESTINATION: Final = "messaging.destination.name"
PARTITION: Final = "messaging.destination.partition.id"
OPERATION_NAME: Final = "messaging.operation.name"
OPERATION_TYPE: Final = "messaging.operation.type"
CLIENT_ID: Final = "messaging.client.id"
GROUP: Final = "messaging.consumer.group.name"
COUNT: Final = "messaging.batch.message_count"
BODY_SIZE: Final = "messaging.message.body.size"
KEY: Final = "messaging.kafka.message.key"
OFFSET: Final = "messaging.kafka.offset"
TOMBSTONE: Final = "messaging.kafka.message.tombstone"
ERROR_TYPE: Final = "error.type"
