"""A server is asked for its keys again by the times that are passed in."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokafkapy.broker import token_keys
from aiokafkapy.broker.token_keys import UrlKeys

REFRESH_MS = 60_000


class Validator:
    def __init__(self) -> None:
        self.taken: list[Any] = []

    def use_keys(self, jwks: Any) -> None:
        self.taken.append(jwks)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    found: list[str] = []

    async def get_json(url: str, timeout: float) -> object:
        found.append(url)
        return {"keys": len(found)}

    monkeypatch.setattr(token_keys, "get_json", get_json)
    return found


async def turns() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_keys_are_asked_for_when_they_are_old_or_one_is_missing(asked: list[str]) -> None:
    validator: Any = Validator()
    keys = UrlKeys("https://h/keys", REFRESH_MS, 1_000)
    keys.refresh(validator, 1_000 + REFRESH_MS - 1)
    keys.ask_again(validator, 1_999)
    await turns()
    assert asked == []
    keys.ask_again(validator, 2_000)
    keys.ask_again(validator, 9_000)  # while the first question waits for its answer
    await turns()
    assert validator.taken == [{"keys": 1}]
    keys.refresh(validator, 1_000 + REFRESH_MS)
    await turns()
    assert len(asked) == 1, "the time counts from the last question"
    keys.refresh(validator, 2_000 + REFRESH_MS)
    await turns()
    assert validator.taken == [{"keys": 1}, {"keys": 2}]
