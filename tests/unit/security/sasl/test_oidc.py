"""Tokens from an OAuth server, which here answers in this process."""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.mechanism import mechanism_for
from aiokafkapy.security.sasl.oauthbearer import OAuthBearerToken
from aiokafkapy.security.sasl.oidc import ClientCredentials, FileToken, JwtBearer, provider_for
from aiokafkapy.security.sasl.options import SaslOptions
from tests.blocked_threads import blocked_default_executor
from tests.unit.security.sasl.oauth_server import Server, answer
from tests.unit.virtual_time import in_virtual_time

from .exchanges import everything_shown_of

URL = "https://id.example.com/oauth2/token"
CLIENT: dict[str, Any] = {
    "sasl_mechanism": "OAUTHBEARER",
    "sasl_oauthbearer_token_endpoint_url": URL,
    "sasl_oauthbearer_client_credentials_client_id": "my client",
    "sasl_oauthbearer_client_credentials_client_secret": "hunter2/+",
}
RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
Handler = Callable[[httpx.Request], httpx.Response]


async def token_of(server: Server, **options: Any) -> OAuthBearerToken:
    given = SaslOptions(**CLIENT, **options)
    return await ClientCredentials(given, server.endpoint(given))()


def test_client_credentials_are_posted_and_the_token_is_read() -> None:
    async def program() -> None:
        server = Server(answer(scope="read write"))
        token = await token_of(server, sasl_oauthbearer_scope="read write")
        (request,) = server.requests
        assert (request.method, str(request.url)) == ("POST", URL)
        assert server.form == {"grant_type": "client_credentials", "scope": "read write"}
        assert request.headers["authorization"] == "Basic " + base64.b64encode(b"my client:hunter2/+").decode()
        assert request.headers["content-type"] == "application/x-www-form-urlencoded"
        assert token.value == "abc"
        assert token.scope == {"read", "write"}
        assert token.expires_at_ms is not None

    in_virtual_time(program)


def test_names_and_secrets_can_be_encoded_as_the_rfc_wants() -> None:
    async def program() -> None:
        server = Server(answer())
        await token_of(server, sasl_oauthbearer_header_urlencode=True)
        encoded = base64.b64encode(b"my+client:hunter2%2F%2B").decode()
        assert server.requests[0].headers["authorization"] == f"Basic {encoded}"
        assert "scope" not in server.form

    in_virtual_time(program)


@pytest.mark.parametrize("lifetime", [None, "300", True, -5, 1e300, []])
def test_an_invalid_lifetime_leaves_the_expiry_to_the_token(lifetime: Any) -> None:
    async def program() -> None:
        assert (await token_of(Server(answer(expires_in=lifetime)))).expires_at_ms is None

    in_virtual_time(program)


def test_an_id_token_will_do_as_in_java() -> None:
    async def program() -> None:
        assert (await token_of(Server(answer(access_token=None, id_token="id")))).value == "id"

    in_virtual_time(program)


@pytest.mark.parametrize(
    ("status", "body", "words"),
    [
        (
            401,
            b'{"error":"invalid_client","error_description":"no such client"}',
            "401: invalid_client - no such client",
        ),
        (400, b'{"errorCode":"E1","errorSummary":"bad scope"}', "400: E1 - bad scope"),
        (403, b"<html>", "answered 403$"),
        (404, b'{"error":["x"]}', "answered 404$"),
        (400, b'{"error":"\\u001b[31m"}', "answered 400$"),
        (400, b"[" * 100_000, "answered 400$"),
        (400, json.dumps({"error": "x" * 5_000}).encode(), "400: x{300}$"),
        (200, b"{}", "gave no access_token"),
        (200, b"nonsense", "gave no access_token"),
        (200, b'{"access_token":7}', "gave no access_token"),
    ],
)
def test_a_refusal_is_raised_in_the_servers_words_and_not_tried_again(status: int, body: bytes, words: str) -> None:
    async def program() -> None:
        server = Server(httpx.Response(status, content=body))
        with pytest.raises(SaslAuthenticationFailedError, match=words) as caught:
            await token_of(server)
        assert len(server.requests) == 1
        assert "id.example.com" in str(caught.value)
        assert "hunter2" not in everything_shown_of(caught.value)

    in_virtual_time(program)


@pytest.mark.parametrize("failure", [httpx.Response(503), httpx.Response(429), httpx.ConnectError("no route")])
def test_a_passing_failure_is_tried_again(failure: httpx.Response | Exception) -> None:
    async def program() -> None:
        server = Server(failure, failure, answer())
        started = asyncio.get_running_loop().time()
        assert (await token_of(server)).value == "abc"
        assert len(server.requests) == 3
        assert 0.2 < asyncio.get_running_loop().time() - started < 0.5, "0.1 s and 0.2 s, with jitter"

    in_virtual_time(program)


def test_an_endpoint_gives_up_after_the_longest_back_off() -> None:
    async def program() -> None:
        server = Server(httpx.ConnectTimeout("too slow"))
        started = asyncio.get_running_loop().time()
        with pytest.raises(
            KafkaConnectionError, match=r"id\.example\.com could not be asked: ConnectTimeout"
        ) as caught:
            await token_of(server, sasl_login_retry_backoff_max_ms=3_000)
        assert caught.value.retriable
        assert 1 <= asyncio.get_running_loop().time() - started <= 3
        assert 4 <= len(server.requests) <= 8
        assert "hunter2" not in everything_shown_of(caught.value)
        assert caught.value.__context__ is None, "the error of httpx has the request in it"

    in_virtual_time(program)


@pytest.mark.parametrize("error", [httpx.InvalidURL("hunter2"), ExceptionGroup("hunter2", [OverflowError()])])
def test_an_error_of_another_layer_is_not_a_refusal(error: Exception) -> None:
    async def program() -> None:
        with pytest.raises(KafkaConnectionError, match=rf"could not be asked: {type(error).__name__}$") as caught:
            await token_of(Server(error), sasl_login_retry_backoff_max_ms=1_000)
        assert caught.value.__context__ is None

    in_virtual_time(program)


def test_an_endless_answer_is_cut() -> None:
    async def program() -> None:
        server = Server(httpx.Response(200, content=b" " * 2_000_000))
        with pytest.raises(KafkaConnectionError, match="more than 1,000,000 bytes"):
            await token_of(server, sasl_login_retry_backoff_max_ms=100)

    in_virtual_time(program)


@pytest.mark.parametrize("options", [{}, {"connect": 1_500, "read": 2_500}])
def test_the_time_outs_are_kafkas(options: dict[str, int]) -> None:
    async def program() -> None:
        server = Server(answer())
        await token_of(server, **{f"sasl_login_{name}_timeout_ms": value for name, value in options.items()})
        timeout = server.requests[0].extensions["timeout"]
        assert timeout["connect"] == options.get("connect", 10_000) / 1_000
        assert timeout["read"] == options.get("read", 10_000) / 1_000

    in_virtual_time(program)


# the JWT bearer grant


def key_file(folder: Path, key: Any, passphrase: bytes | None = None) -> str:
    encryption: Any = serialization.BestAvailableEncryption(passphrase) if passphrase else serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    path = folder / "key.pem"
    path.write_bytes(pem)
    return str(path)


def bearer_options(**options: Any) -> SaslOptions:
    given = {f"sasl_oauthbearer_assertion_{name}": value for name, value in options.items()}
    return SaslOptions(
        sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=URL, sasl_oauthbearer_scope="s", **given
    )


@pytest.mark.parametrize(
    ("key", "algorithm", "passphrase"), [(RSA_KEY, "RS256", None), (RSA_KEY, "RS256", "pass"), (EC_KEY, "ES256", None)]
)
def test_an_assertion_is_signed_and_exchanged(tmp_path: Path, key: Any, algorithm: str, passphrase: str | None) -> None:
    template = tmp_path / "template.json"
    template.write_text('{"header": {"kid": "my-key"}, "payload": {"custom": "yes", "sub": "template"}}')
    options = bearer_options(
        private_key_file=key_file(tmp_path, key, passphrase.encode() if passphrase else None),
        private_key_passphrase=passphrase,
        algorithm=algorithm,
        claim_aud="https://id.example.com",
        claim_iss="me",
        claim_sub="alice",
        claim_jti_include=True,
        template_file=str(template),
    )

    async def program() -> None:
        server = Server(answer())
        provider = JwtBearer(options, server.endpoint(options), clock=lambda: 1_700_000_000.9)
        ids = set()
        for _ in range(2):
            assert (await provider()).value == "abc"
            assert server.form["grant_type"] == "urn:ietf:params:oauth:grant-type:jwt-bearer"
            assert server.form["scope"] == "s"
            assert "authorization" not in server.requests[-1].headers
            claims = jwt.decode(
                server.form["assertion"],
                key.public_key(),
                algorithms=[algorithm],
                audience="https://id.example.com",
                options={"verify_exp": False, "verify_nbf": False, "verify_iat": False},
            )
            ids.add(claims.pop("jti"))
            assert claims == {
                "iat": 1_700_000_000,
                "exp": 1_700_000_300,
                "nbf": 1_699_999_940,
                "aud": "https://id.example.com",
                "iss": "me",
                "sub": "alice",
                "custom": "yes",
            }
        assert len(ids) == 2
        header = jwt.get_unverified_header(server.form["assertion"])
        assert header == {"alg": algorithm, "typ": "JWT", "kid": "my-key"}

    in_virtual_time(program)


def test_a_ready_assertion_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "assertion"
    file.touch()
    options = bearer_options(file=str(file))

    async def program() -> None:
        server = Server(answer())
        provider = JwtBearer(options, server.endpoint(options))
        for text in ("one", "two"):
            file.write_text(text + "\n")
            await provider()
            assert server.form["assertion"] == text
        file.unlink()
        with pytest.raises(FileNotFoundError):
            await provider()

    in_virtual_time(program)


@pytest.mark.parametrize(
    ("key", "options", "words"),
    [
        (EC_KEY, {"algorithm": "RS256"}, "cannot sign with RS256"),
        (RSA_KEY, {"private_key_passphrase": "hunter2"}, "cannot sign with RS256 .*_passphrase if it has one"),
        (RSA_KEY, {"template_file": "bad"}, "is not a template: write"),
    ],
)
def test_files_that_cannot_be_used_are_an_error(tmp_path: Path, key: Any, options: dict[str, str], words: str) -> None:
    if "template_file" in options:
        (tmp_path / "bad").write_text('{"header": []}')
        options = {"template_file": str(tmp_path / "bad")}
    given = bearer_options(private_key_file=key_file(tmp_path, key), **options)

    async def program() -> None:
        with pytest.raises(ConfigurationError, match=words) as caught:
            await JwtBearer(given, Server(answer()).endpoint(given))()
        assert "hunter2" not in everything_shown_of(caught.value)
        assert "PRIVATE KEY" not in everything_shown_of(caught.value)

    in_virtual_time(program)


# the choice of a provider


async def test_a_file_is_read_each_time(tmp_path: Path) -> None:
    file = tmp_path / "a token"
    file.touch()
    provider = provider_for(SaslOptions(sasl_oauthbearer_token_endpoint_url=file.as_uri()))
    assert isinstance(provider, FileToken)
    for value in ("one", "two"):
        file.write_text(f" {value}\n")
        assert (await provider()).value == value


async def test_a_file_is_read_though_the_loops_own_threads_are_blocked(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("one")
    provider = provider_for(SaslOptions(sasl_oauthbearer_token_endpoint_url=file.as_uri()))
    async with blocked_default_executor():
        assert (await provider()).value == "one"


@pytest.mark.parametrize(
    ("options", "kind"),
    [
        (CLIENT, ClientCredentials),
        (CLIENT | {"sasl_oauthbearer_assertion_file": __file__}, ClientCredentials),
        (CLIENT | {"sasl_oauthbearer_jwt_retriever_class": "a.b.ClientCredentialsJwtRetriever"}, ClientCredentials),
        (
            CLIENT
            | {
                "sasl_oauthbearer_assertion_file": __file__,
                "sasl_oauthbearer_jwt_retriever_class": "org.apache.kafka.JwtBearerJwtRetriever",
            },
            JwtBearer,
        ),
        ({"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_assertion_file": __file__}, JwtBearer),
        (
            {"sasl_oauthbearer_token_endpoint_url": URL, "sasl_oauthbearer_assertion_private_key_file": __file__},
            JwtBearer,
        ),
    ],
)
def test_the_options_say_which_grant_is_meant(options: dict[str, Any], kind: type[object]) -> None:
    assert isinstance(provider_for(SaslOptions(**options)), kind)
    assert mechanism_for(SaslOptions(**{"sasl_mechanism": "OAUTHBEARER"} | options)).name == "OAUTHBEARER"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "OAUTHBEARER has no source of tokens: write sasl_oauthbearer_token_provider"),
        ({"token_endpoint_url": "ftp://x"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": "http://[bad"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": "https://h:65536/"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": "https://h:x/"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": "https:///path"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": "file:///nope/a%20b"}, "token_endpoint_url: the file '/nope/a b' cannot be read"),
        ({"token_endpoint_url": "file:///"}, "token_endpoint_url: the file '/' cannot be read"),
        ({"token_endpoint_url": URL, "assertion_file": "/nope"}, "assertion_file: the file '/nope' cannot be read"),
        (
            {"token_endpoint_url": URL, "assertion_private_key_file": "/nope"},
            "assertion_private_key_file: the file '/nope' cannot be read",
        ),
        ({"token_endpoint_url": "id.example.com"}, "token_endpoint_url is not an address: write https"),
        ({"token_endpoint_url": URL}, "needs a client: write sasl_oauthbearer_client_credentials_client_id"),
        ({"token_endpoint_url": URL, "jwt_retriever_class": "a.MyRetriever"}, "'MyRetriever' is a Java class"),
        ({"token_endpoint_url": URL, "jwt_retriever_class": "JwtBearerJwtRetriever"}, "has no assertion: write"),
        (
            {"token_endpoint_url": URL, "assertion_private_key_file": __file__, "assertion_algorithm": "HS256"},
            "assertion_algorithm='HS256' is unknown: write 'RS256' or 'ES256'",
        ),
    ],
)
def test_options_that_mean_no_provider_are_an_error(options: dict[str, str], words: str) -> None:
    given: dict[str, Any] = {f"sasl_oauthbearer_{name}": value for name, value in options.items()}
    with pytest.raises(ConfigurationError, match=words):
        mechanism_for(SaslOptions(sasl_mechanism="OAUTHBEARER", **given))


@pytest.mark.parametrize("missing", ["httpx", "jwt"])
def test_without_the_extra_it_says_how_to_get_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    options = SaslOptions(sasl_oauthbearer_token_endpoint_url=URL, sasl_oauthbearer_assertion_private_key_file=__file__)
    with pytest.raises(ConfigurationError, match=r"pip install 'aiokafkapy\[oauth\]'"):
        provider_for(options)


def test_the_client_of_a_jaas_string_is_used_unless_options_name_one() -> None:
    jaas = 'a.OAuthBearerLoginModule required clientId="jaas" clientSecret="hunter2" scope="s";'
    given = SaslOptions(sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_endpoint_url=URL, sasl_jaas_config=jaas)
    for options, client in (
        (given, "jaas:hunter2"),
        (SaslOptions(**CLIENT, sasl_jaas_config=jaas), "my client:hunter2/+"),
    ):
        provider: Any = vars(vars(mechanism_for(options))["_keeper"])["_provider"]
        assert isinstance(provider, ClientCredentials)
        authorization = vars(provider)["_authorization"].reveal().removeprefix("Basic ")
        assert base64.b64decode(authorization).decode() == client
        assert vars(provider)["_form"]["scope"].reveal() == "s"
        assert "hunter2" not in repr(vars(provider))
