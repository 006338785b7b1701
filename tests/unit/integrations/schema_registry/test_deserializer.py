"""aiokafkapy.integrations.schema_registry.deserializer: schemas and decoders are remembered, and asked for once."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.integrations.schema_registry import (
    AvroDeserializer,
    RegistryUnavailableError,
    SchemaRules,
    record_name_strategy,
)
from tests.unit.integrations.schema_registry.fakes import MINE, NEW, Executor, fake_registry
from tests.unit.virtual_time import elapsed, on_virtual_time

OLD_RECORD = b"\0\0\0\0\1\2"
NEW_RECORD = b"\0\0\0\0\2\2\4"


class CountingDeserializer(AvroDeserializer[Any]):
    """Counts how often a decoder is made, and a schema's name read."""

    decoders = names = 0

    async def _decoder_for(self, registered: Any, path: tuple[int, ...]) -> Any:
        self.decoders += 1
        return await super()._decoder_for(registered, path)

    async def _name_in(self, registered: Any, path: tuple[int, ...]) -> str | None:
        self.names += 1
        return await super()._name_in(registered, path)


@on_virtual_time
async def test_a_schema_without_rules_has_one_decoder_for_all_topics() -> None:
    registry, transport = fake_registry()
    deserializer = CountingDeserializer(registry)
    topics = [f"topic-{number}" for number in range(50)]
    found = await asyncio.gather(*(deserializer(OLD_RECORD, topic=topic) for topic in topics))
    assert found == [{"id": 1}] * 50
    assert await deserializer(OLD_RECORD) == {"id": 1}
    assert (deserializer.decoders, transport.requests) == (1, 1)


@on_virtual_time
async def test_the_rules_of_many_waiting_records_are_prepared_once_for_each_topic() -> None:
    executor = Executor()
    registry, transport = fake_registry()
    transport.publish(NEW, ruleSet=MINE)
    deserializer = CountingDeserializer(registry, rules=SchemaRules(executors={"MINE": executor}))
    topics = ["orders", "refunds"] * 100
    found = await asyncio.gather(*(deserializer(NEW_RECORD, topic=topic) for topic in topics))
    assert found == [{"id": 1, "n": 2}] * 200
    assert (executor.prepared, transport.requests) == (2, 1)


@on_virtual_time
async def test_a_decoder_whose_rules_are_over_is_made_once_for_all_waiting_records() -> None:
    executor = Executor(seconds=30)
    registry, transport = fake_registry()
    transport.publish(NEW, ruleSet=MINE)
    deserializer = AvroDeserializer(registry, rules=SchemaRules(executors={"MINE": executor}))
    for _ in range(2):
        await asyncio.gather(*(deserializer(NEW_RECORD, topic="orders") for _ in range(5)))
        await elapsed(31)
    assert executor.prepared == 2


@on_virtual_time
async def test_a_schemas_name_is_read_once() -> None:
    registry, _ = fake_registry()
    deserializer = CountingDeserializer(registry, use_latest_version=True, subject_name_strategy=record_name_strategy)
    for _ in range(3):
        assert await deserializer(OLD_RECORD, topic="orders") == {"id": 1}
    assert (deserializer.decoders, deserializer.names) == (1, 1)


@on_virtual_time
async def test_the_newest_version_stays_in_use_while_no_registry_answers() -> None:
    registry, transport = fake_registry()
    deserializer = AvroDeserializer(registry, use_latest_version=True)
    assert await deserializer(OLD_RECORD, topic="orders") == {"id": 1}
    transport.error, transport.seconds = RegistryUnavailableError("away"), 30.0
    await elapsed(61)
    before, now = transport.requests, asyncio.get_running_loop().time
    began = now()
    with pytest.raises(TimeoutError):  # of a reader that waits for less than the registry's client
        await asyncio.wait_for(deserializer(OLD_RECORD, topic="orders"), 5)
    for _ in range(10):
        assert await deserializer(OLD_RECORD, topic="orders") == {"id": 1}
    assert now() - began == 30  # all of them waited for one question
    assert transport.requests == before + 1


@on_virtual_time
async def test_a_newest_version_that_was_believed_long_enough_is_looked_up_again() -> None:
    registry, transport = fake_registry()
    deserializer = CountingDeserializer(registry, use_latest_version=True)
    await deserializer(OLD_RECORD, topic="orders")
    asked = transport.requests
    await elapsed(30)
    await deserializer(OLD_RECORD, topic="orders")
    assert transport.requests == asked
    await elapsed(30)
    await deserializer(OLD_RECORD, topic="orders")
    assert transport.requests == asked + 1
