"""OAUTHBEARER on the dev broker with tokens that are really signed, and a JWKS to check them, in a file or at a URL."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jwt
import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker, Listener
from aiokafkapy.errors import ConfigurationError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.json_web_tokens import unsecured_token

RSA_KEY = rsa.generate_private_key(65_537, 2_048)
STRANGERS_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
CHECKS: dict[str, Any] = {
    "sasl_oauthbearer_expected_issuer": "https://id.example.com",
    "sasl_oauthbearer_expected_audience": "kafka",
    "sasl_oauthbearer_clock_skew_seconds": 0,
}


def write_keys(path: Path, **keys: Any) -> None:
    """A JWKS of the public halves, by key id; the file is replaced as a whole, as a careful program does it."""
    public = []
    for kid, key in keys.items():
        algorithm: Any = jwt.algorithms.RSAAlgorithm if hasattr(key, "decrypt") else jwt.algorithms.ECAlgorithm
        public.append(json.loads(algorithm.to_jwk(key.public_key())) | {"kid": kid})
        public[-1].pop("key_ops", None)
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"keys": public}))
    new.replace(path)


def signed(key: Any = RSA_KEY, algorithm: str = "RS256", kid: str = "first", **claims: Any) -> str:
    now = int(time.time())
    body = {"sub": "alice", "iss": "https://id.example.com", "aud": "kafka", "iat": now, "exp": now + 60}
    return jwt.encode(body | claims, key, algorithm=algorithm, headers={"kid": kid})


def broker_with(keys: Path | str, **options: Any) -> DevBroker:
    return DevBroker(
        listeners={"SASL_PLAINTEXT": Listener(security_protocol="SASL_PLAINTEXT")},
        sasl_enabled_mechanisms=["OAUTHBEARER"],
        sasl_oauthbearer_jwks_endpoint_url=f"file://{keys}" if isinstance(keys, Path) else keys,
        **CHECKS,
        **options,
    )


async def send(broker: DevBroker, token: str) -> None:
    async def provider() -> str:
        return token

    async with KafkaProducer(
        broker.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="OAUTHBEARER",
        sasl_oauthbearer_token_provider=provider,
    ) as producer:
        await producer.send("t", b"x")


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA_KEY, "RS256", "first"), (EC_KEY, "ES256", "second")])
async def test_a_token_that_a_known_key_signed_lets_in(tmp_path: Path, key: Any, algorithm: str, kid: str) -> None:
    write_keys(tmp_path / "jwks.json", first=RSA_KEY, second=EC_KEY)
    async with broker_with(tmp_path / "jwks.json") as broker:
        await send(broker, signed(key, algorithm, kid))
        assert [record.value for record in broker.records("t")] == [b"x"]


@pytest.mark.parametrize(
    "token",
    [
        {"key": STRANGERS_KEY},
        {"kid": "unknown"},
        {"iss": "https://elsewhere.example.com"},
        {"aud": "another"},
        {"exp": 1_000_000_000},
        None,
    ],
    ids=["another key", "unknown kid", "issuer", "audience", "expired", "unsecured"],
)
async def test_every_other_token_is_refused_at_once(tmp_path: Path, token: Mapping[str, Any] | None) -> None:
    write_keys(tmp_path / "jwks.json", first=RSA_KEY)
    now = time.time()
    forged = unsecured_token({"sub": "alice", "iss": "https://id.example.com", "aud": "kafka", "exp": now + 60})
    async with broker_with(tmp_path / "jwks.json") as broker:
        with pytest.raises(SaslAuthenticationFailedError):
            await send(broker, forged if token is None else signed(**token))
        await send(broker, signed())


async def test_keys_are_replaced_while_the_broker_runs(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "jwks.json"
    write_keys(path, first=RSA_KEY)
    async with broker_with(path) as broker:
        with pytest.raises(SaslAuthenticationFailedError):
            await send(broker, signed(EC_KEY, "ES256", "second"))
        write_keys(path, second=EC_KEY)
        await send(broker, signed(EC_KEY, "ES256", "second"))
        with pytest.raises(SaslAuthenticationFailedError):
            await send(broker, signed())
        # Half a file harms nobody, nor does one without a JWKS, and each is told once.
        for text in ('{"keys": [', '["keys"]'):
            path.write_text(text)
            for _ in range(2):
                await send(broker, signed(EC_KEY, "ES256", "second"))
    told = [record.getMessage() for record in caplog.records if "token_keys_unreadable" in record.getMessage()]
    assert len(told) == 2
    assert all("jwks.json" in line for line in told)


class KeyServer:
    """Serves a JWKS over HTTP, or any other body."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.status = 200
        self.asked = 0
        app = web.Application()
        app.router.add_get("/keys", self._answer)
        self._server = TestServer(app)

    async def _answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        return web.Response(status=self.status, body=self.path.read_bytes(), content_type="application/json")

    async def __aenter__(self) -> str:
        await self._server.start_server()
        return str(self._server.make_url("/keys"))

    async def __aexit__(self, *error: object) -> None:
        await self._server.close()


async def test_keys_come_from_a_url_and_newer_ones_when_a_token_needs_them(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    server = KeyServer(tmp_path / "jwks.json")
    write_keys(server.path, first=RSA_KEY)
    async with server as url, broker_with(url) as broker:
        for _ in range(3):
            await send(broker, signed())
        assert server.asked == 1
        write_keys(server.path, second=EC_KEY)
        async with asyncio.timeout(30):
            while True:
                try:
                    await send(broker, signed(EC_KEY, "ES256", "second"))
                    break
                except SaslAuthenticationFailedError:  # until its key is there, which nobody waits for
                    await asyncio.sleep(0.1)
        # An invalid JWKS affects no client.
        server.status = 500
        asked = server.asked
        async with asyncio.timeout(30):
            while server.asked == asked:
                with pytest.raises(SaslAuthenticationFailedError):
                    await send(broker, signed(kid="third"))
        await send(broker, signed(EC_KEY, "ES256", "second"))
    assert any("token_keys_unreadable" in record.getMessage() for record in caplog.records)


async def test_keys_that_are_old_are_asked_for_again(tmp_path: Path) -> None:
    server = KeyServer(tmp_path / "jwks.json")
    write_keys(server.path, first=RSA_KEY)
    async with server as url, broker_with(url, sasl_oauthbearer_jwks_endpoint_refresh_ms=1) as broker:
        async with asyncio.timeout(30):
            while server.asked < 3:
                await send(broker, signed())


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (b"{}", 404, "404 Not Found"),
        (b"[", 200, "Expecting value"),
        (b"[" * 2_000_000, 200, "its answer has more than 1,000,000 bytes"),
    ],
    ids=["not found", "half", "too long"],
)
async def test_a_url_that_gives_no_keys_is_an_error_at_the_start(
    tmp_path: Path, body: bytes, status: int, words: str
) -> None:
    server = KeyServer(tmp_path / "jwks.json")
    server.path.write_bytes(body)
    server.status = status
    async with server as url:
        broker = broker_with(url)
        with pytest.raises(ConfigurationError, match=f"{url}' cannot be read: .*{words}"):
            await broker.start()
        await broker.stop()
