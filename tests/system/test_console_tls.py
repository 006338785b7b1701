"""The console over HTTPS, and the console of clusters that want TLS and SASL."""

from __future__ import annotations

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.console import Console
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.testing import TestCertificates
from tests.browsers import opened_page, require_browser

TOKEN = "a-token-of-24-characters"
USERS = {"ann": "correct horse"}


@pytest.fixture(scope="module")
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as certificates:
        yield certificates


@pytest.fixture
async def broker(certificates: TestCertificates) -> AsyncIterator[DevBroker]:
    """A broker that wants TLS and a password."""
    options = certificates.server_options()
    del options["security_protocol"]
    async with DevBroker(listeners={"SASL_SSL": "127.0.0.1:0"}, sasl_users=USERS, **options) as broker:
        broker.create_topic("orders", 3)
        yield broker


def login(certificates: TestCertificates) -> dict[str, Any]:
    sasl = {"sasl_mechanism": "SCRAM-SHA-512", "sasl_username": "ann", "sasl_password": USERS["ann"]}
    return certificates.client_options(security_protocol="SASL_SSL") | sasl


@asynccontextmanager
async def page_of(url: str, certificates: TestCertificates) -> AsyncIterator[httpx.AsyncClient]:
    trusted = ssl.create_default_context(cafile=str(certificates.ca_file))
    async with httpx.AsyncClient(base_url=url.partition("?")[0], verify=trusted, trust_env=False) as page:
        yield page


async def first_message(page: httpx.AsyncClient, view: str) -> dict[str, Any]:
    async with page.stream("GET", "api/live", params={"view": view}, timeout=10) as answer:
        async for line in answer.aiter_lines():
            found: dict[str, Any] = json.loads(line.removeprefix("data: "))
            return found
    raise AssertionError("the stream has ended")


async def test_a_console_with_a_certificate_is_https_alone(broker: DevBroker, certificates: TestCertificates) -> None:
    tls = {"ssl_keystore_location": str(certificates.server_file)}
    async with Console.of_broker(broker, token=TOKEN, tls=tls) as console, page_of(console.url, certificates) as page:
        assert console.url.startswith("https://127.0.0.1:")
        opened = await page.get("/", params={"token": TOKEN})
        assert (opened.status_code, opened.headers["location"]) == (303, "/")
        assert "Secure" in opened.headers["set-cookie"]
        assert (await first_message(page, "topics"))["view"]["rows"][0]["name"] == "orders"
        async with httpx.AsyncClient(trust_env=False) as plain:
            with pytest.raises(httpx.TransportError):
                await plain.get(console.url.replace("https:", "http:"))


async def test_the_key_may_be_apart_and_have_a_password(
    broker: DevBroker, certificates: TestCertificates, tmp_path: Path
) -> None:
    whole = certificates.server(file="encrypted.pem", password="opened").read_text()
    start = whole.index("-----BEGIN CERTIFICATE-----")
    (tmp_path / "key.pem").write_text(whole[:start])
    (tmp_path / "chain.pem").write_text(whole[start:])
    tls = {
        "ssl_keystore_location": str(tmp_path / "chain.pem"),
        "ssl_key_location": str(tmp_path / "key.pem"),
        "ssl_key_password": "opened",
    }
    async with Console.of_broker(broker, tls=tls) as console, page_of(console.url, certificates) as page:
        assert (await page.get("/api/about")).status_code == 200
    with pytest.raises(ConfigurationError, match="ssl_key_password"):
        Console.of_broker(broker, tls=tls | {"ssl_key_password": "wrong"})
    with pytest.raises(ConfigurationError, match=r"ssl_keystore_location.*none\.pem"):
        Console.of_broker(broker, tls={"ssl_keystore_location": str(tmp_path / "none.pem")})
    with pytest.raises(ConfigurationError, match="num_partitions is not an option of TLS"):
        Console.of_broker(broker, tls={"num_partitions": 3})


async def test_a_browser_opens_it_over_https(broker: DevBroker, certificates: TestCertificates) -> None:
    require_browser()
    tls = {"ssl_keystore_location": str(certificates.server_file)}
    async with (
        Console.of_broker(broker, token=TOKEN, tls=tls) as console,
        opened_page(console.url, ignore_https_errors=True) as page,  # it does not know the CA
    ):
        await page.wait_for_selector("main tbody tr")
        assert page.url.startswith("https://")
        assert "token" not in page.url
        await page.keyboard.press("n")
        await page.get_by_label("Topic", exact=True).fill("orders")
        await page.get_by_label("Value", exact=True).fill("book")
        await page.get_by_role("button", name="Write", exact=True).click()
        await page.get_by_text("Written to orders-").wait_for()
    assert [record.value for record in broker.records("orders")] == [b"book"]


async def test_clients_of_tls_and_sasl_are_shown_with_their_principal(
    broker: DevBroker, certificates: TestCertificates
) -> None:
    tls = {"ssl_keystore_location": str(certificates.server_file)}
    async with (
        Console.of_broker(broker, tls=tls) as console,
        page_of(console.url, certificates) as page,
        KafkaProducer(broker.bootstrap_servers, client_id="shop", **login(certificates)) as producer,
    ):
        await producer.send("orders", b"book")
        clients = (await first_message(page, "clients"))["view"]["rows"]
        assert {(each["client_id"], each["principal"], each["protocol"]) for each in clients} == {
            ("shop", "User:ann", "SASL_SSL")
        }


async def test_the_command_shows_a_cluster_of_tls_and_sasl_over_https(
    broker: DevBroker, certificates: TestCertificates
) -> None:
    async with KafkaProducer(broker.bootstrap_servers, **login(certificates)) as producer:
        await producer.send("orders", b"book", partition=0)
    options = {
        "--bootstrap-servers": broker.bootstrap_servers,
        "--security-protocol": "SASL_SSL",
        "--ca": str(certificates.ca_file),
        "--sasl-mechanism": "SCRAM-SHA-512",
        "--username": "ann",
        "--address": "127.0.0.1:0",
        "--console-certificate": str(certificates.server_file),
    }
    command = [sys.executable, "-m", "aiokafkapy", "console", *(part for pair in options.items() for part in pair)]
    process = await asyncio.create_subprocess_exec(
        *command,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "AIOKAFKAPY_SASL_PASSWORD": USERS["ann"]},
    )
    try:
        assert process.stdout is not None
        url = (await process.stdout.readline()).decode().strip()
        assert url.startswith("https://127.0.0.1:")
        async with page_of(url, certificates) as page:
            found = (await page.get("api/records", params={"topic": "orders", "from": "earliest"})).json()
            assert [row["value"]["text"] for row in found["rows"]] == ["book"]
            message = await first_message(page, "topics")
            assert message["problem"] == ""
            assert [row["name"] for row in message["view"]["rows"]] == ["orders"]
    finally:
        process.terminate()
        _, said = await process.communicate()
    assert process.returncode == 0, said
    assert USERS["ann"].encode() not in said
