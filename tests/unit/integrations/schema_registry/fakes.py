"""A registry without HTTP, and rules that take their time, for tests on virtual time."""

from __future__ import annotations

import math
from typing import Any, Unpack

from aiokafkapy.integrations.schema_registry import PreparedRule, RuleContext, SchemaRegistryClient
from aiokafkapy.integrations.schema_registry.config import RegistryOptions
from tests.unit.virtual_time import elapsed

__all__ = ["MINE", "NEW", "OLD", "Executor", "FakeTransport", "fake_registry"]

OLD = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
NEW = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "n", "type": "long"}]}'
MINE = {"domainRules": [{"name": "mine", "type": "MINE", "kind": "TRANSFORM", "mode": "WRITEREAD"}]}
"""A rule set whose only rule is executed by ``Executor``."""


class FakeTransport:
    """A registry that has one schema; it takes a second to answer."""

    def __init__(self) -> None:
        self.body: dict[str, Any] = {"id": 1, "version": 1, "schema": OLD}
        self.error: Exception | None = None
        self.seconds = 1.0
        self.requests = 0

    def publish(self, text: str, **contract: Any) -> None:
        """The next version."""
        number = self.body["id"] + 1
        self.body = {"id": number, "version": number, "schema": text, **contract}

    async def ask(self, question: Any) -> Any:
        """The schema, whatever the question is."""
        self.requests += 1
        await elapsed(self.seconds)
        if self.error is not None:
            raise self.error
        return self.body


def fake_registry(**options: Unpack[RegistryOptions]) -> tuple[SchemaRegistryClient, FakeTransport]:
    """A client, and the transport that answers it."""
    registry, transport = SchemaRegistryClient("http://localhost:1", **options), FakeTransport()
    registry._transport = transport  # type: ignore[assignment]
    return registry, transport


class Executor:
    """Executes rules that change nothing; each is ready after a second, and good for so many."""

    def __init__(self, seconds: float = math.inf) -> None:
        self.prepared = 0
        self._seconds = seconds

    async def prepare(self, context: RuleContext, /) -> PreparedRule:
        """Takes a second."""
        self.prepared += 1
        await elapsed(1)
        return PreparedRule(lambda message, walk: message, self._seconds)
