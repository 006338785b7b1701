"""Sends questions to a schema registry over HTTP.

Owns the choice of the URL, attempts, time-outs, back-off, failover and credentials; knows neither subjects nor
schemas, which the text of a ``Question`` names. Thin I/O over httpx. Confluent's counterpart is ``RestService``.

Rules:

- 429, 5xx and connections that fail are tried again, at the next URL and, when all have failed, after a back-off;
  everything else is the answer. A registration is repeated too: registering a schema twice gives the same id. A token
  provider that raises OSError or TimeoutError is called again, too.
- One request takes ``timeout_ms`` at most, with all retries; ``Retry-After`` is honoured within that.
- An answer larger than ``MAX_ANSWER_BYTES`` is refused before it fills the memory.
- httpx's own log has the URL of each request; the credentials are in headers, so they are in no log and no error.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from inspect import isawaitable
from typing import TYPE_CHECKING, Final, TypedDict

from ...common import ExponentialBackoff, JsonLike, JsonValue
from ...errors import ConfigurationError, IllegalStateError, WrongEventLoopError
from ...security.tls import TlsContexts
from .caching import is_cancelling
from .config import RegistryConfig
from .errors import RegistryUnavailableError, SchemaRegistryError, error_for

if TYPE_CHECKING:
    import httpx

__all__ = ["About", "Question", "RegistryTransport"]

MAX_ANSWER_BYTES: Final = 32_000_000
_SHOWN_FAILURES: Final = 3
"""The most failed attempts in an error: the newest ones that differ."""
_GRACE: Final = 0.25
"""Seconds after which an attempt is cancelled if its own time-outs did not end it. When it is cancelled in a TLS
handshake, httpcore leaves its socket to the garbage collector.
"""
_CONTENT_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class About(TypedDict, total=False):
    """The optional parts of a ``Question``."""

    query: Mapping[str, str | int] | None
    body: JsonLike
    subject: str | None
    schema_id: int | str | None


@dataclass(frozen=True, slots=True)
class Question:
    """One request. ``doing`` describes it in words, for errors, with its ``subject`` or ``schema_id``."""

    method: str
    path: str
    doing: str
    query: Mapping[str, str | int] | None = None
    body: JsonLike = None
    subject: str | None = None
    schema_id: int | str | None = None


class RegistryTransport:
    """Asks one of several registries that have the same content."""

    def __init__(self, config: RegistryConfig) -> None:
        try:
            import httpx
        except ModuleNotFoundError as missing:
            raise ModuleNotFoundError(
                "a schema registry's client needs httpx: pip install 'aiokafkapy[schema-registry]'", name=missing.name
            ) from missing
        self._httpx = httpx
        self._config = config
        self._backoff = ExponentialBackoff(config.retry_backoff_ms / 1000, config.retry_backoff_max_ms / 1000)
        self._tls = TlsContexts(config) if any(url.startswith("https:") for url in config.urls) else None
        # Bound to the loop of the first question
        self._client: httpx.AsyncClient | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._first = 0
        self._is_closed = False
        # Statistics
        self.requests = 0

    async def ask(self, question: Question) -> JsonValue:
        """The answer's JSON. Raises SchemaRegistryError."""
        client = await self._usable_client()
        failures: list[str] = []
        last: RegistryUnavailableError | None = None
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._config.timeout_ms / 1000
        attempts = 0
        try:
            async with asyncio.timeout_at(deadline + _GRACE):
                while loop.time() < deadline:
                    for url in self._urls_in_order():
                        seconds = min(self._config.request_timeout_ms / 1000, max(deadline - loop.time(), 0.001))
                        try:
                            return await self._ask_one(client, url, question, seconds)
                        except RegistryUnavailableError as error:
                            last = error
                            failures.append(f"{url}: {error}")
                    pause = max(self._backoff.delay(attempts), 0.0 if last is None else last.retry_after)
                    attempts += 1
                    await asyncio.sleep(min(pause, max(deadline - loop.time(), 0.0)))
        except TimeoutError:
            pass
        raise self._unavailable(question, failures, last)

    async def close(self) -> None:
        """Close the connections. Idempotent."""
        self._is_closed = True
        client, self._client = self._client, None
        if client is not None:
            await client.aclose()

    # internals

    async def _usable_client(self) -> httpx.AsyncClient:
        loop = asyncio.get_running_loop()
        if self._is_closed:
            raise IllegalStateError("the schema registry's client is closed")
        if self._client is None:
            # Reading the system's trust store takes tens of milliseconds.
            verify = False if self._tls is None else await asyncio.to_thread(self._tls.context)
            if self._client is None:
                self._loop = loop
                self._client = self._httpx.AsyncClient(
                    verify=verify,
                    headers={"Accept": f"{_CONTENT_TYPE}, application/json", **self._config.http_headers},
                    auth=self._basic_auth(),
                    trust_env=False,
                )
        if loop is not self._loop:
            raise WrongEventLoopError("the schema registry's client was used on another event loop: make one for each")
        return self._client

    def _basic_auth(self) -> tuple[str, str] | None:
        if self._config.basic_auth_user_info is None:
            return None
        user, _, password = self._config.basic_auth_user_info.partition(":")
        return user, password

    def _urls_in_order(self) -> list[str]:
        urls = self._config.urls
        return [*urls[self._first :], *urls[: self._first]]

    async def _ask_one(self, client: httpx.AsyncClient, url: str, question: Question, seconds: float) -> JsonValue:
        headers = {"Content-Type": _CONTENT_TYPE} if question.body is not None else {}
        if self._config.bearer_auth_token is not None:
            headers["Authorization"] = f"Bearer {await self._token(question, seconds)}"
        self.requests += 1
        try:
            # httpx's own time-out is for each read: an answer that trickles in would never be late.
            async with (
                asyncio.timeout(seconds + _GRACE),
                client.stream(
                    question.method,
                    f"{url}/{question.path}",
                    params=question.query,
                    content=None if question.body is None else json.dumps(question.body).encode(),
                    headers=headers,
                    timeout=seconds,
                ) as answer,
            ):
                status, text = answer.status_code, await _bounded_text(answer)
                retry_after = answer.headers.get("Retry-After", "")
        except (self._httpx.RequestError, OSError) as error:
            raise RegistryUnavailableError(f"{type(error).__name__}: {error}".rstrip(": "), url=url) from error
        except ExceptionGroup as error:  # an error of anyio, for a port beyond 65,535
            raise RegistryUnavailableError(str(error.exceptions[0]), url=url) from error
        if 200 <= status < 300:
            self._first = self._config.urls.index(url)
            return _json_of(text, url, question)
        refusal = _refusal(status, text, url, question)
        if isinstance(refusal, RegistryUnavailableError) and retry_after.isascii() and retry_after.isdigit():
            refusal.retry_after = float(retry_after)
        raise refusal

    async def _token(self, question: Question, seconds: float) -> str:
        token = self._config.bearer_auth_token
        if callable(token):
            try:
                async with asyncio.timeout(seconds):
                    found = token()
                    token = await found if isawaitable(found) else found
            except OSError as error:  # a TimeoutError too: it may pass
                raise RegistryUnavailableError(_provider_failed(error)) from error
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelling():
                    raise
                raise SchemaRegistryError(
                    f"{question.doing}: {_provider_failed(error)}",
                    subject=question.subject,
                    schema_id=question.schema_id,
                ) from error
        if not isinstance(token, str) or not token.isprintable() or not token.isascii():
            raise ConfigurationError("bearer_auth_token returned an invalid token: a str of printable ASCII is needed")
        return token

    def _unavailable(
        self, question: Question, failures: list[str], last: RegistryUnavailableError | None
    ) -> RegistryUnavailableError:
        newest = "; ".join(list(dict.fromkeys(reversed(failures)))[: max(_SHOWN_FAILURES, len(self._config.urls))])
        error = RegistryUnavailableError(
            f"{question.doing}: no answer within timeout_ms={self._config.timeout_ms} after {len(failures)} attempts: "
            f"{newest or f'the first, at {self._config.urls[0]}, was still under way'}",
            subject=question.subject,
            schema_id=question.schema_id,
            url=self._config.urls[0],
            status=None if last is None else last.status,
        )
        error.__cause__ = last
        return error


async def _bounded_text(answer: httpx.Response) -> bytes:
    body = bytearray()
    async for piece in answer.aiter_bytes():
        body += piece
        if len(body) > MAX_ANSWER_BYTES:
            raise SchemaRegistryError(f"the registry's answer has more than {MAX_ANSWER_BYTES:,} bytes")
    return bytes(body)


def _provider_failed(error: BaseException) -> str:
    return f"the provider of bearer_auth_token failed: {type(error).__name__}: {error}".rstrip(": ")


def _json_of(text: bytes, url: str, question: Question) -> JsonValue:
    try:
        told: JsonValue = json.loads(text) if text else None
    except (ValueError, RecursionError) as error:
        raise SchemaRegistryError(
            f"{question.doing}: the answer of {url} is not JSON: is it a schema registry?",
            subject=question.subject,
            schema_id=question.schema_id,
            url=url,
        ) from error
    return told


def _refusal(status: int, text: bytes, url: str, question: Question) -> SchemaRegistryError:
    code, message = None, text.decode(errors="replace").strip() or "nothing more"
    try:
        told = json.loads(text)
        code, message = int(told["error_code"]), str(told["message"])
    except (ValueError, TypeError, KeyError, OverflowError, RecursionError):
        pass
    return error_for(
        status, code, message, doing=question.doing, url=url, subject=question.subject, schema_id=question.schema_id
    )
