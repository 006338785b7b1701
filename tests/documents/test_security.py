"""The settings for common clusters, to be copied: each is a configuration, and is used on a broker of the same kind."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from aiokafkapy import KafkaProducer, ProducerConfig
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.testing import TestCertificates

from .pages import snippets

TO_OTHERS: Final = ("AWS_MSK", "EVENT_HUBS_WITH_ENTRA_ID")
"""Settings for which no broker here can stand in: credentials are asked for elsewhere."""


def clusters() -> dict[str, dict[str, Any]]:
    """The settings by name."""
    names: dict[str, Any] = {}
    for one in snippets("python"):
        if "CONFLUENT_CLOUD" in one.text or "AIVEN" in one.text:
            exec(one.text, names)  # our own pages
    return {name: value for name, value in names.items() if re.fullmatch(r"[A-Z_]+", name)}


@pytest.fixture
def certificates(tmp_path: Path) -> TestCertificates:
    """Files by the names that the settings have."""
    made = TestCertificates(tmp_path)
    pem = made.client(file="service.pem").read_text()
    keys, chain = re.findall(r"(-----BEGIN [A-Z ]*KEY-----.*KEY-----\n)(.*)", pem, re.DOTALL)[0]
    (tmp_path / "service.key").write_text(keys)
    (tmp_path / "service.cert").write_text(chain)
    return made


def used(settings: Mapping[str, Any], directory: Path) -> dict[str, Any]:
    """The settings with their files found."""
    files = {name: str(directory / value) for name, value in settings.items() if name.endswith("_location")}
    return {**settings, **files}


@pytest.mark.parametrize("name", clusters())
def test_they_are_a_configuration(name: str, certificates: TestCertificates, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hush")
    settings = used(clusters()[name], certificates.directory)
    config = ProducerConfig(**settings)
    assert config.security_protocol == settings["security_protocol"]
    assert config.new_tls_contexts() is not None
    shown = repr(config)
    assert all(secret not in shown for key in settings if "password" in key for secret in [settings[key]])


@pytest.mark.parametrize("name", [name for name in clusters() if name not in TO_OTHERS])
async def test_a_record_is_sent_with_them(name: str, certificates: TestCertificates) -> None:
    settings = used(clusters()[name], certificates.directory)
    del settings["bootstrap_servers"]
    protocol = settings["security_protocol"]
    options = certificates.server_options()
    del options["security_protocol"]
    if "sasl_username" in settings:
        options["sasl_users"] = {settings["sasl_username"]: settings["sasl_password"]}
        options["sasl_enabled_mechanisms"] = [settings["sasl_mechanism"]]
    else:
        options["ssl_client_auth"] = "required"
    # These clusters have certificates of authorities that every system trusts.
    settings.setdefault("ssl_truststore_location", str(certificates.ca_file))
    async with (
        DevBroker(listeners={protocol: "127.0.0.1:0"}, **options) as broker,
        KafkaProducer(broker.bootstrap_servers, **settings) as producer,
    ):
        assert (await producer.send("orders", b"tea")).offset == 0
        assert [record.value for record in broker.records("orders")] == [b"tea"]


async def test_vaults_certificates_are_used_as_the_page_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Vault is a function here that answers as its PKI engine does."""
    certificates = TestCertificates(tmp_path)
    pem = certificates.client(file="issued.pem").read_text()
    key, certificate = re.findall(r"(-----BEGIN [A-Z ]*KEY-----.*KEY-----\n)(.*)", pem, re.DOTALL)[0]
    issued = {"private_key": key, "certificate": certificate, "issuing_ca": certificates.ca_file.read_text()}

    def issue(url: str, **options: Any) -> httpx.Response:
        assert url == "http://vault/v1/pki/issue/orders"
        assert options["headers"] == {"X-Vault-Token": "hush"}
        return httpx.Response(200, json={"data": issued}, request=httpx.Request("POST", url))

    monkeypatch.setattr(httpx, "post", issue)
    monkeypatch.setenv("VAULT_ADDR", "http://vault")
    monkeypatch.setenv("VAULT_TOKEN", "hush")
    (snippet,) = [one.text for one in snippets("python") if "from_vault" in one.text]
    listener = Listener(**certificates.server_options(ssl_client_auth="required"))
    async with DevBroker(listeners={"SSL": listener}) as broker:
        await asyncio.to_thread(exec, snippet.replace("localhost:9093", broker.bootstrap_servers), {})
        assert [record.value for record in broker.records("orders")] == [b"tea"]
