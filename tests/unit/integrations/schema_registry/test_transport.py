"""aiokafkapy.integrations.schema_registry.transport: the failures of a token's provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.integrations.schema_registry import RegistryUnavailableError, SchemaRegistryError
from aiokafkapy.integrations.schema_registry.config import make_config
from aiokafkapy.integrations.schema_registry.transport import Question, RegistryTransport
from tests.unit.virtual_time import elapsed, on_virtual_time

QUESTION = Question("GET", "subjects", "listing the subjects")


async def failure(provider: Callable[[], Any]) -> SchemaRegistryError:
    """The error of a question whose token comes from this provider."""
    transport = RegistryTransport(
        make_config("http://localhost:1", None, {"bearer_auth_token": provider, "timeout_ms": 5_000})
    )
    try:
        with pytest.raises(SchemaRegistryError) as caught:
            await transport.ask(QUESTION)
    finally:
        await transport.close()
    assert transport.requests == 0
    return caught.value


@pytest.mark.parametrize("error", [TimeoutError("of the vault"), ConnectionError("no way there")])
@on_virtual_time
async def test_a_provider_that_does_not_reach_its_source_is_called_again(error: Exception) -> None:
    calls = 0

    async def provider() -> str:
        nonlocal calls
        calls += 1
        raise error

    told = await failure(provider)
    assert isinstance(told, RegistryUnavailableError)
    assert f"the provider of bearer_auth_token failed: {type(error).__name__}: {error}" in str(told)
    assert calls > 3


@on_virtual_time
async def test_a_provider_that_hangs_is_named() -> None:
    told = await failure(lambda: elapsed(100))
    assert isinstance(told, RegistryUnavailableError)
    assert "the provider of bearer_auth_token failed: TimeoutError" in str(told)


@pytest.mark.parametrize("error", [RuntimeError("sealed"), asyncio.CancelledError()])
@on_virtual_time
async def test_every_other_failure_of_a_provider_is_final(error: BaseException) -> None:
    calls = 0

    def provider() -> str:
        nonlocal calls
        calls += 1
        raise error

    told = await failure(provider)
    assert str(told).startswith("listing the subjects: the provider of bearer_auth_token failed: ")
    assert not getattr(told, "retriable", False)
    assert calls == 1


@on_virtual_time
async def test_a_caller_that_is_cancelled_while_the_provider_works_stays_so() -> None:
    asking = asyncio.ensure_future(failure(lambda: elapsed(4)))
    await elapsed(1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
