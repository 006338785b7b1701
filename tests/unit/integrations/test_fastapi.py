"""The typed dependency, as FastAPI resolves it and as a type checker sees it."""

from __future__ import annotations

import httpx
import pytest
from fastapi import FastAPI

from aiokafkapy import KafkaProducer
from aiokafkapy.integrations.fastapi import ProducerDep, get_producer


class Order:
    """The type that a value serializer takes."""


@pytest.mark.parametrize("dependency", [ProducerDep, ProducerDep[str, Order]])
async def test_the_dependency_is_the_application_s_producer_with_types_and_without(dependency: object) -> None:
    app = FastAPI()
    producer = KafkaProducer("h:1")
    app.dependency_overrides[get_producer] = lambda: producer
    seen = []

    async def handle(producer) -> None:  # type: ignore[no-untyped-def]
        seen.append(producer)

    handle.__annotations__["producer"] = dependency
    app.get("/")(handle)
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        assert (await client.get("/")).status_code == 200
    assert seen == [producer]
    assert app.openapi()["paths"]["/"]["get"].get("parameters", []) == []


async def seen_by_a_type_checker(typed: ProducerDep[str, Order], untyped: ProducerDep) -> None:
    """Checked, not run: mypy, which reads the tests too, reports an error that is wanted here and does not come."""
    await typed.send("orders", Order(), key="ann")
    await typed.send("orders", b"bytes", key="ann")  # type: ignore[arg-type]
    await typed.send("orders", Order(), key=b"ann")  # type: ignore[arg-type]
    await untyped.send("orders", Order(), key=5)
