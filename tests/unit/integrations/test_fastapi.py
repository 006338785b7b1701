"""The typed dependency, as FastAPI resolves it and as a type checker sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from aiokafkapy import KafkaProducer
from aiokafkapy.integrations.fastapi import ProducerDep, get_producer

TYPED_PROGRAM = """\
from aiokafkapy.integrations.fastapi import ProducerDep
class Order: ...
async def typed(producer: ProducerDep[str, Order]) -> None:
    await producer.send("orders", Order(), key="ann")
    await producer.send("orders", b"bytes", key="ann")
    await producer.send("orders", Order(), key=b"ann")
async def untyped(producer: ProducerDep) -> None:
    await producer.send("orders", Order(), key=5)
"""


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


def test_a_type_checker_knows_the_types_of_keys_and_values(tmp_path: Path) -> None:
    program = tmp_path / "typed.py"
    program.write_text(TYPED_PROGRAM)
    command = [sys.executable, "-m", "mypy", "--strict", "--no-error-summary", str(program)]
    lines = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()
    assert [int(line.split(":")[1]) for line in lines if "error:" in line] == [5, 6], lines
