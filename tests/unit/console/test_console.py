"""The console's own options: the address, the token, and the extra that it needs."""

from __future__ import annotations

import asyncio
import importlib.util
import socket
from typing import Any
from urllib.parse import urlsplit

import pytest

from aiokafkapy.broker import DevBroker
from aiokafkapy.console import Console
from aiokafkapy.errors import ConfigurationError, IllegalStateError
from aiokafkapy.testing import TestCertificates

from .sources import FakeSource


@pytest.mark.parametrize("address", ["", "9080", "localhost", "localhost:", ":80", "localhost:x", "localhost:65536"])
def test_an_invalid_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match="write HOST:PORT"):
        Console(FakeSource(), address=address)


@pytest.mark.parametrize("token", ["short", "not printable \n and long enough", "nöt ascii and long enough"])
def test_a_weak_token_is_refused(token: str) -> None:
    with pytest.raises(ConfigurationError, match="16 printable characters"):
        Console(FakeSource(), token=token)


def test_without_the_extra_the_error_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_starlette(name: str, package: str | None = None) -> Any:
        return None if name == "starlette" else find_spec(name, package)

    monkeypatch.setattr(importlib.util, "find_spec", without_starlette)
    with pytest.raises(ConfigurationError, match=r"needs starlette: pip install 'aiokafkapy\[console\]'"):
        DevBroker(console=True)
    DevBroker()  # which needs none


async def test_the_url_is_known_while_it_is_served() -> None:
    console = Console(FakeSource())
    with pytest.raises(IllegalStateError, match="not started"):
        _ = console.url
    async with console:
        assert console.url.startswith("http://127.0.0.1:")
        assert "token" not in console.url
        await console.start()  # a second time is nothing
    with pytest.raises(IllegalStateError):
        _ = console.url
    await console.stop()


@pytest.mark.parametrize("turns", range(1, 6))
async def test_a_stop_that_is_cancelled_closes_all_the_same(turns: int) -> None:
    console = Console(FakeSource())
    await console.start()
    port = urlsplit(console.url).port
    stopping = asyncio.create_task(console.stop())
    for _ in range(turns):
        await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    assert not [task for task in asyncio.all_tasks() if task.get_name().startswith("console-")]
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port or 0))


async def test_beyond_loopback_there_is_always_a_token() -> None:
    async with Console(FakeSource(), address="0.0.0.0:0") as console:
        assert "?token=" in console.url
        assert len(console.url.partition("?token=")[2]) >= 24
    async with Console(FakeSource(), address="0.0.0.0:0", token="a token of my own") as console:
        assert console.url.endswith("?token=a%20token%20of%20my%20own")


async def test_a_broker_without_one_says_how_to_get_one() -> None:
    with pytest.raises(IllegalStateError, match=r"DevBroker\(console=True\)"):
        _ = DevBroker().console


@pytest.mark.parametrize(("address", "warns"), [("127.0.0.1:0", False), ("0.0.0.0:0", True)])
async def test_beyond_loopback_it_warns_that_it_has_no_tls(
    address: str, warns: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with Console(FakeSource(), address=address):
        pass
    assert [record.__dict__["event"] for record in caplog.records] == ["console.unencrypted"] * warns
    for record in caplog.records:
        assert "token=" not in record.getMessage()


async def test_with_tls_it_does_not_warn(caplog: pytest.LogCaptureFixture) -> None:
    with TestCertificates() as certificates:
        tls = {"ssl_keystore_location": str(certificates.server_file)}
        async with Console(FakeSource(), address="0.0.0.0:0", tls=tls) as console:
            assert console.url.startswith("https://localhost:")
    assert caplog.records == []
