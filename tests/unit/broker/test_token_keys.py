"""Keys are read from a file or a server, which is asked again by the times that are passed in."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker import token_keys
from aiokafkapy.broker.token_keys import UrlKeys
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.testing.servers.ports import free_port

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


async def test_keys_are_read_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "keys.json").write_text(json.dumps({"keys": []}))
    keys = token_keys.token_keys(f"file://{tmp_path}/keys.json", REFRESH_MS, 0)
    await keys.read()
    assert keys.jwks == {"keys": []}


async def test_a_url_without_keys_is_refused(tmp_path: Path) -> None:
    for url, words in (
        ("ftp://issuer.invalid/keys", "is not a URL of keys: write https://host/path or file:///path"),
        (f"http://127.0.0.1:{free_port()}/keys", "cannot be read: All connection attempts failed"),
        ("http://[", "cannot be read: "),
        ("http://127.0.0.1:99999/keys", "cannot be read: "),
        (f"file://{tmp_path}/none.json", "cannot be read"),
    ):
        with pytest.raises(ConfigurationError, match=words):
            await token_keys.token_keys(url, REFRESH_MS, 0).read()
