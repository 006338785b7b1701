"""An admin whose client is a list of answers."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

from aiokafkapy.admin import TopicAdmin
from aiokafkapy.common import Node
from aiokafkapy.errors import KafkaTimeoutError
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.messages import build_response
from tests.unit.virtual_time import elapsed

BROKERS = [{"node_id": 2, "host": "h", "port": 2, "rack": "r2"}, {"node_id": 1, "host": "h", "port": 1}]

Answer = Callable[[Any], Any] | Exception


class FakeClient:
    """Answers each request, of any kind, with the next of its answers; the last one again and again."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[tuple[ApiKey, Any, Node | None]] = []
        self.has_changed = asyncio.Event()
        self.is_active = True
        self.delays: list[float] = []

    async def wait_for_change(self) -> None:
        await self.has_changed.wait()
        self.has_changed.clear()

    async def send_and_wait(
        self, api_key: ApiKey, build: Callable[[int], Any], node: Node | None = None, timeout: float = math.inf
    ) -> Any:
        _, version = client_versions(api_key)
        self.requests.append((api_key, build(version), node))
        delay = self.delays.pop(0) if self.delays else 0  # no broker answers at once
        await elapsed(min(delay, timeout))
        if delay > timeout:
            raise KafkaTimeoutError(f"no answer within {timeout:g} s")
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer(version)

    async def close(self) -> None:
        """Nothing to close."""


def admin_with(*answers: Answer) -> tuple[TopicAdmin, FakeClient]:
    """A started admin, and the client that it asks."""
    admin = TopicAdmin("localhost:1", retry_backoff_ms=0)
    client = FakeClient(*answers)
    admin._client = client  # type: ignore[assignment]
    return admin, client


def led(*leaders: int, code: int = 0) -> Answer:
    """Metadata of the topic ``t`` with these leaders, of a cluster of two brokers."""
    partitions = [{"partition_index": number, "leader_id": leader} for number, leader in enumerate(leaders)]
    topics = [{"name": "t", "error_code": code, "partitions": partitions}]
    fields: dict[str, Any] = {"brokers": BROKERS, "controller_id": 2, "cluster_id": "c", "topics": topics}
    return lambda version: build_response(ApiKey.METADATA, version, **fields)
