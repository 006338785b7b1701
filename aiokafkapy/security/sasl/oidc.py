"""Tokens from an OAuth 2 server: client credentials (KIP-768) and the JWT bearer grant (KIP-1139), or from a file.

Owns the requests to the token endpoint, their retries, and the assertion that the JWT bearer grant presents. Thin I/O
over httpx and PyJWT, which are the extra ``oauth`` and are imported here when a provider is made. Kafka's counterparts
are ``ClientCredentialsJwtRetriever``, ``JwtBearerJwtRetriever``, ``FileJwtRetriever`` and ``DefaultAssertionCreator``.

Rules: a failure that may pass is tried again for ``sasl_login_retry_backoff_max_ms``; a refusal is not. A refusal's
error has the server's words, which are bounded; no request and no answer is shown. Files are read again for each token,
so that they can be replaced.
"""

from __future__ import annotations

import asyncio
import base64
import importlib.util
import json
import os
import ssl
import time
import urllib.parse
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...common import ExponentialBackoff, JsonObject, JsonValue
from ...errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from ...worker_thread import run_in_thread
from .http_json import bounded_body
from .oauthbearer import OAuthBearerToken
from .options import SaslOptions
from .secret import Secret

if TYPE_CHECKING:
    import httpx

__all__ = ["ClientCredentials", "FileToken", "JwtBearer", "provider_for"]

JWT_BEARER_GRANT: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
"""As Kafka's ``HttpJwtRetriever``."""
_REFUSALS: Final = frozenset({400, 401, 402, 403, 404, 405, 406, 407, 409, 410, 411, 412, 413, 414, 415, 501, 505})
"""Statuses that the same request gets again; Kafka's list."""
_SHOWN_OF_A_REFUSAL: Final = 300
_DEFAULT_TIMEOUT: Final = 10.0
"""Seconds; Kafka has no time-outs unless they are set, and then waits forever."""
_ALGORITHMS: Final = ("RS256", "ES256")
_ASSERTION_FILES: Final = (
    "sasl_oauthbearer_assertion_file",
    "sasl_oauthbearer_assertion_template_file",
    "sasl_oauthbearer_assertion_private_key_file",
)


def provider_for(options: SaslOptions) -> ClientCredentials | JwtBearer | FileToken:
    """The provider that the options ask for; raises ConfigurationError without one, or if the extra is missing."""
    url = options.sasl_oauthbearer_token_endpoint_url
    if not url:
        raise ConfigurationError(
            "OAUTHBEARER has no source of tokens: write sasl_oauthbearer_token_provider, or "
            "sasl_oauthbearer_token_endpoint_url with sasl_oauthbearer_client_credentials_client_id and "
            "sasl_oauthbearer_client_credentials_client_secret"
        )
    try:
        parts = urllib.parse.urlsplit(url)
        _ = parts.port  # the port is checked only when it is read
    except ValueError:
        parts = urllib.parse.urlsplit("")
    if parts.scheme == "file":
        return FileToken(_existing("sasl_oauthbearer_token_endpoint_url", urllib.parse.unquote(parts.path)))
    if parts.scheme not in ("http", "https") or not parts.netloc:
        raise ConfigurationError("sasl_oauthbearer_token_endpoint_url is not an address: write https://… or file:///…")
    retriever = (options.sasl_oauthbearer_jwt_retriever_class or "").rpartition(".")[2]
    if retriever not in ("", "DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "JwtBearerJwtRetriever"):
        raise ConfigurationError(
            f"sasl_oauthbearer_jwt_retriever_class={retriever!r} is a Java class that is not here: write "
            "'ClientCredentialsJwtRetriever' or 'JwtBearerJwtRetriever', or sasl_oauthbearer_token_provider"
        )
    has_assertion = options.sasl_oauthbearer_assertion_file or options.sasl_oauthbearer_assertion_private_key_file
    is_bearer = retriever == "JwtBearerJwtRetriever" or (
        not retriever and has_assertion and not options.sasl_oauthbearer_client_credentials_client_id
    )
    return JwtBearer(options) if is_bearer else ClientCredentials(options)


class FileToken:
    """The present token in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def __call__(self) -> OAuthBearerToken:
        """Read it; raises OSError when it cannot be read."""
        text = await run_in_thread(asyncio.get_running_loop(), self._path.read_text)
        return OAuthBearerToken(text.strip())


class TokenEndpoint:
    """Asks the token endpoint until there is a token, a refusal, or no time left; ``url`` comes before the options'."""

    def __init__(
        self,
        options: SaslOptions,
        *,
        url: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if importlib.util.find_spec("httpx") is None:
            raise ConfigurationError(
                "asking for tokens needs httpx: pip install 'aiokafkapy[oauth]', or write "
                "sasl_oauthbearer_token_provider"
            )
        self._url = url or str(options.sasl_oauthbearer_token_endpoint_url)
        self._host = urllib.parse.urlsplit(self._url).netloc.rpartition("@")[2]
        self._connect_timeout = _seconds(options.sasl_login_connect_timeout_ms)
        self._read_timeout = _seconds(options.sasl_login_read_timeout_ms)
        self._backoff = ExponentialBackoff(
            options.sasl_login_retry_backoff_ms / 1_000, options.sasl_login_retry_backoff_max_ms / 1_000
        )
        self._retry_for = options.sasl_login_retry_backoff_max_ms / 1_000
        self._transport = transport
        self._sleep = sleep
        self._monotonic = monotonic
        self._ssl_context: ssl.SSLContext | bool = True

    async def token(
        self, form: Mapping[str, Secret[str]] | None, headers: Mapping[str, Secret[str]]
    ) -> OAuthBearerToken:
        """The token for this form, or from a GET without a form.

        Raises SaslAuthenticationFailedError for a refusal, else KafkaConnectionError.
        """
        if self._ssl_context is True:
            # The system's trust store; reading it takes tens of milliseconds.
            self._ssl_context = await run_in_thread(asyncio.get_running_loop(), ssl.create_default_context)
        give_up_at = self._monotonic() + self._retry_for
        attempts = 0
        while True:
            try:
                return await self._ask(form, headers)
            except KafkaConnectionError as error:
                if not error.retriable:
                    raise
                delay = self._backoff.delay(attempts)
                attempts += 1
                if self._monotonic() + delay > give_up_at:
                    raise
            await self._sleep(delay)

    # internals

    async def _ask(
        self, form: Mapping[str, Secret[str]] | None, headers: Mapping[str, Secret[str]]
    ) -> OAuthBearerToken:
        import httpx

        timeout = httpx.Timeout(self._read_timeout, connect=self._connect_timeout)
        asked_at = time.time()
        failure = ""
        body = b""
        status = 0
        try:
            async with (
                httpx.AsyncClient(verify=self._ssl_context, timeout=timeout, transport=self._transport) as client,
                client.stream(
                    "GET" if form is None else "POST",
                    self._url,
                    data=None if form is None else {name: value.reveal() for name, value in form.items()},
                    headers={name: value.reveal() for name, value in headers.items()}
                    | {"Accept": "application/json", "Cache-Control": "no-cache"},
                ) as answer,
            ):
                status = answer.status_code
                body = await bounded_body(answer)
        except ValueError as error:
            failure = str(error)
        except httpx.HTTPError as error:
            failure = f"{type(error).__name__}: {str(error)[:_SHOWN_OF_A_REFUSAL]}"
        except Exception as error:  # from other layers, e.g. httpx.InvalidURL for a host that IDNA rejects
            failure = type(error).__name__
        # Outside of the block above: its frames and errors have the request, with its secrets.
        if failure:
            body = b""
            raise KafkaConnectionError(f"the token endpoint {self._host} could not be asked: {failure}")
        return self._read(status, Secret(body), asked_at)

    def _read(self, status: int, body: Secret[bytes], asked_at: float) -> OAuthBearerToken:
        fields = _json_fields(body)
        if not 200 <= status < 300:
            words = f"the token endpoint {self._host} answered {status}{_refusal_words(fields)}"
            raise (SaslAuthenticationFailedError if status in _REFUSALS else KafkaConnectionError)(words)
        token = fields["access_token"] or fields["id_token"]
        if not isinstance(token.reveal(), str):
            raise SaslAuthenticationFailedError(f"the token endpoint {self._host} gave no access_token")
        lifetime = fields["expires_in"].reveal()
        is_number = isinstance(lifetime, int | float) and not isinstance(lifetime, bool) and 0 < lifetime < 1e10
        scope = fields["scope"].reveal()
        return OAuthBearerToken(
            str(token.reveal()).strip(),
            int((asked_at + lifetime) * 1_000) if is_number else None,
            scope=frozenset(scope.split()) if isinstance(scope, str) else frozenset(),
        )


class ClientCredentials:
    """Kafka's ``ClientCredentialsJwtRetriever``: a client id and its secret are exchanged for a token."""

    def __init__(self, options: SaslOptions, endpoint: TokenEndpoint | None = None) -> None:
        client_id = options.sasl_oauthbearer_client_credentials_client_id
        client_secret = options.sasl_oauthbearer_client_credentials_client_secret
        if not client_id or not isinstance(client_secret, Secret) or not client_secret:
            raise ConfigurationError(
                "sasl_oauthbearer_token_endpoint_url needs a client: write "
                "sasl_oauthbearer_client_credentials_client_id and sasl_oauthbearer_client_credentials_client_secret"
            )
        self._endpoint = endpoint or TokenEndpoint(options)
        self._authorization = _basic(client_id, client_secret, is_encoded=options.sasl_oauthbearer_header_urlencode)
        self._form = {"grant_type": Secret("client_credentials")}
        if options.sasl_oauthbearer_scope:
            self._form["scope"] = Secret(options.sasl_oauthbearer_scope)

    async def __call__(self) -> OAuthBearerToken:
        """A new token."""
        return await self._endpoint.token(self._form, {"Authorization": self._authorization})


class JwtBearer:
    """Kafka's ``JwtBearerJwtRetriever``: an assertion, signed here or read from a file, is exchanged for a token."""

    def __init__(
        self,
        options: SaslOptions,
        endpoint: TokenEndpoint | None = None,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._options = options
        self._clock = clock
        for name in _ASSERTION_FILES:
            if path := getattr(options, name):
                _existing(name, path)
        if not options.sasl_oauthbearer_assertion_file:
            _check_assertion(options)
        self._endpoint = endpoint or TokenEndpoint(options)

    async def __call__(self) -> OAuthBearerToken:
        """A new token; raises OSError when a file cannot be read."""
        assertion = await run_in_thread(asyncio.get_running_loop(), self._assertion)
        form = {"grant_type": Secret(JWT_BEARER_GRANT), "assertion": assertion}
        if self._options.sasl_oauthbearer_scope:
            form["scope"] = Secret(self._options.sasl_oauthbearer_scope)
        return await self._endpoint.token(form, {})

    # internals

    def _assertion(self) -> Secret[str]:
        options = self._options
        if options.sasl_oauthbearer_assertion_file:
            return Secret(Path(options.sasl_oauthbearer_assertion_file).read_text().strip())
        template = _template(options.sasl_oauthbearer_assertion_template_file)
        header = {"typ": "JWT", **template["header"], "alg": options.sasl_oauthbearer_assertion_algorithm}
        return _signed(header, {**template["payload"], **self._claims()}, options)

    def _claims(self) -> dict[str, JsonValue]:
        options, now = self._options, int(self._clock())
        claims: dict[str, JsonValue] = {
            "iat": now,
            "exp": now + options.sasl_oauthbearer_assertion_claim_exp_seconds,
            "nbf": now - options.sasl_oauthbearer_assertion_claim_nbf_seconds,
        }
        for name in ("aud", "iss", "sub"):
            value = getattr(options, f"sasl_oauthbearer_assertion_claim_{name}")
            if value:
                claims[name] = value
        if options.sasl_oauthbearer_assertion_claim_jti_include:
            claims["jti"] = str(uuid.uuid4())
        return claims


# internals


def _seconds(milliseconds: int | None) -> float:
    return _DEFAULT_TIMEOUT if milliseconds is None else milliseconds / 1_000


def _basic(client_id: str, client_secret: Secret[str], *, is_encoded: bool) -> Secret[str]:
    """RFC 6749, section 2.3.1, wants both encoded as in a form; many servers do not (KAFKA-16345)."""
    encode: Callable[[str], str] = urllib.parse.quote_plus if is_encoded else str
    pair = Secret(f"{encode(client_id)}:{encode(client_secret.reveal())}".encode())
    return Secret("Basic " + base64.b64encode(pair.reveal()).decode())


def _json_fields(body: Secret[bytes]) -> defaultdict[str, Secret[Any]]:
    try:
        found = json.loads(body.reveal())
    except (ValueError, RecursionError):
        found = None
    fields = {name: Secret(value) for name, value in found.items()} if isinstance(found, dict) else {}
    return defaultdict(lambda: Secret(None), fields)


def _refusal_words(fields: Mapping[str, Secret[Any]]) -> str:
    """The error and its description, as RFC 6749 or Okta write them."""
    for names in (("error", "error_description"), ("errorCode", "errorSummary")):
        words = [fields[name].reveal() for name in names]
        shown = " - ".join(word for word in words if isinstance(word, str) and word.isprintable())
        if shown:
            return f": {shown[:_SHOWN_OF_A_REFUSAL]}"
    return ""


def _existing(option: str, path: str) -> Path:
    """The file's path, which is read later, each time anew. Raises ConfigurationError if the file is missing."""
    if not os.access(path, os.R_OK) or Path(path).is_dir():
        raise ConfigurationError(f"{option}: the file {path!r} cannot be read: write one that is there")
    return Path(path)


def _check_assertion(options: SaslOptions) -> None:
    if not options.sasl_oauthbearer_assertion_private_key_file:
        raise ConfigurationError(
            "the JWT bearer grant has no assertion: write sasl_oauthbearer_assertion_file, or "
            "sasl_oauthbearer_assertion_private_key_file"
        )
    if options.sasl_oauthbearer_assertion_algorithm not in _ALGORITHMS:
        raise ConfigurationError(
            f"sasl_oauthbearer_assertion_algorithm={options.sasl_oauthbearer_assertion_algorithm!r} is unknown: write "
            + " or ".join(map(repr, _ALGORITHMS))
        )
    if importlib.util.find_spec("jwt") is None:
        raise ConfigurationError("an assertion is signed with PyJWT: pip install 'aiokafkapy[oauth]'")


def _template(path: str | None) -> dict[str, JsonObject]:
    """The header and claims common to all assertions, from KIP-1139's file: ``{"header": {…}, "payload": {…}}``."""
    try:
        found = json.loads(Path(path).read_text()) if path else {}
    except (ValueError, RecursionError):
        found = None
    template = {name: found.get(name, {}) for name in ("header", "payload")} if isinstance(found, dict) else {}
    if not template or not all(isinstance(part, dict) for part in template.values()):
        raise ConfigurationError(
            f"sasl_oauthbearer_assertion_template_file={path!r} is not a template: write "
            '{"header": {…}, "payload": {…}} into it'
        )
    return template


def _signed(header: JsonObject, claims: JsonObject, options: SaslOptions) -> Secret[str]:
    import jwt
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    path = str(options.sasl_oauthbearer_assertion_private_key_file)
    passphrase = options.sasl_oauthbearer_assertion_private_key_passphrase
    pem = Secret(Path(path).read_bytes())
    try:
        key = load_pem_private_key(
            pem.reveal(), passphrase.reveal().encode() if isinstance(passphrase, Secret) else None
        )
        return Secret(jwt.encode(claims, key, algorithm=header["alg"], headers=header))  # type: ignore[arg-type]
    except (ValueError, TypeError, jwt.PyJWTError) as error:
        reason = type(error).__name__
    raise ConfigurationError(
        f"sasl_oauthbearer_assertion_private_key_file={path!r} cannot sign with {header['alg']} ({reason}): write a "
        "PEM file with a private key of that kind, and sasl_oauthbearer_assertion_private_key_passphrase if it has one"
    )
