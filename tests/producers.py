"""Shared by tests of a producer on a dev broker: short time-outs, and the accounts, records and tasks that they look
at.
"""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker

SHORT: dict[str, Any] = {
    "request_timeout_ms": 500,
    "delivery_timeout_ms": 1500,
    "max_block_ms": 1000,
    "retry_backoff_ms": 20,
}


def assert_accounts(producer: KafkaProducer[Any, Any]) -> None:
    """accepted = delivered + failed + pending."""
    numbers = producer.statistics()
    assert numbers.accepted == numbers.delivered + numbers.failed + numbers.pending


def values(broker: DevBroker, topic: str, partition: int = 0) -> list[bytes | None]:
    return [record.value for record in broker.records(topic, partition)]


def numbered(count: int) -> list[bytes]:
    return [b"%06d" % number for number in range(count)]


def our_tasks() -> set[str]:
    """Tasks of this loop that are ours."""
    return {task.get_name() for task in asyncio.all_tasks() if "aiokafkapy" in task.get_name()}
