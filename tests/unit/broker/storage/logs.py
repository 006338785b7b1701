"""Calls and constants that the tests of logs and topics share."""

from __future__ import annotations

from collections.abc import Callable

from aiokafkapy.broker.storage.log import PartitionLog
from aiokafkapy.broker.storage.topics import TopicRegistry

__all__ = ["NOW_MS", "OpenLog", "OpenRegistry", "append", "values"]

NOW_MS = 1_700_000_000_000

OpenLog = Callable[..., PartitionLog]
OpenRegistry = Callable[..., TopicRegistry]


def append(log: PartitionLog, batch: bytes, epoch: int = 0) -> int:
    return log.append(batch, epoch, NOW_MS).base_offset


def values(log: PartitionLog, offset: int | None = None) -> list[bytes | None]:
    return [record.value for record in log.records(offset)]
