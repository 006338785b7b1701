"""The options of a connection to a schema registry: ``RegistryConfig``, which checks them when they are given.

Owns names, defaults and checks; the options of TLS have the producer's names and rules. Confluent's counterparts are
the options ``schema.registry.url``, ``basic.auth.user.info``, ``bearer.auth.token`` and ``schema.registry.ssl.*``.

Rules: a wrong option is a ConfigurationError that gives the valid form; secrets are never shown, not even by ``repr``;
user and password in a URL are taken out of it at once.
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, TypeAlias, TypedDict
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from ...client.config import complete_config
from ...errors import ConfigurationError
from ...security.tls import check_settings
from ..http_headers import HEADER_NAME

__all__ = ["RegistryConfig", "RegistryOptions", "TokenProvider", "make_config"]

TokenProvider: TypeAlias = Callable[[], str | Awaitable[str]]
"""Gives the bearer token of a request; called for each request, so it should cache a valid token.

It has ``request_timeout_ms``. After an OSError or TimeoutError it is called again.
"""

_USER_INFO: Final = "basic_auth_user_info"


class RegistryOptions(TypedDict, total=False):
    """The options of ``RegistryConfig`` but the URL, for type checkers and editors."""

    basic_auth_user_info: str | None
    bearer_auth_token: str | TokenProvider | None
    http_headers: dict[str, str]
    request_timeout_ms: int
    timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    latest_cache_ttl_ms: int
    max_cached_schemas: int
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_keystore_location: str | None
    ssl_key_location: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: Sequence[str]
    ssl_cipher_suites: Sequence[str] | None
    ssl_crl_location: str | None
    ssl_context: ssl.SSLContext | None


class RegistryConfig(BaseModel):
    """The options of a ``SchemaRegistryClient``. ``urls`` are tried in order, from the one that answered last."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", arbitrary_types_allowed=True, hide_input_in_errors=True, validate_default=True
    )

    urls: tuple[str, ...]
    basic_auth_user_info: str | None = Field(None, repr=False, description="user:password, also in the URL")
    bearer_auth_token: str | TokenProvider | None = Field(None, repr=False, description="a token, or its provider")
    http_headers: dict[str, str] = Field(default_factory=dict, repr=False, description="sent with each request")

    request_timeout_ms: int = Field(10_000, gt=0, description="for one attempt at one URL")
    timeout_ms: int = Field(30_000, gt=0, description="for one question, with all attempts")
    retry_backoff_ms: int = Field(100, ge=0, description="before the second attempt; doubles, with jitter")
    retry_backoff_max_ms: int = Field(5_000, ge=0)
    latest_cache_ttl_ms: int = Field(60_000, ge=0, description="how long a subject's latest version is believed")
    max_cached_schemas: int = Field(1_000, gt=0, description="of each kind; the least recently used is forgotten")

    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_location: str | None = None
    ssl_key_location: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_keystore_key: str | None = Field(None, repr=False)
    ssl_key_password: str | None = Field(None, repr=False)
    ssl_endpoint_identification_algorithm: Literal["https", ""] = "https"
    ssl_enabled_protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: tuple[str, ...] | None = None
    ssl_crl_location: str | None = None
    ssl_context: ssl.SSLContext | None = Field(None, repr=False)

    @model_validator(mode="before")
    @classmethod
    def _take_credentials_out_of_urls(cls, given: dict[str, Any]) -> dict[str, Any]:
        urls = given.get("urls")
        parts = [urls] if isinstance(urls, str) else urls
        if not isinstance(parts, Sequence) or not all(isinstance(part, str) for part in parts):
            raise ValueError("url must be a str, or a sequence of them")
        found: dict[str, None] = {}
        user_infos = set()
        for part in (piece.strip() for text in parts for piece in text.split(",")):
            plain, user_info = _plain_url(part)
            found[plain] = None
            user_infos |= {user_info} if user_info else set()
        if not found:
            raise ValueError("url is empty: write http://host:8081, or several with commas")
        if user_infos:
            if len(user_infos) > 1 or given.get(_USER_INFO):
                raise ValueError(f"user and password are given twice: write them in {_USER_INFO} alone")
            given = {**given, _USER_INFO: user_infos.pop()}
        return {**given, "urls": tuple(found)}

    @field_validator(_USER_INFO)
    @classmethod
    def _check_user_info(cls, given: str | None) -> str | None:
        if given is not None and ":" not in given:
            raise ValueError("write user:password")
        return given

    @field_validator("bearer_auth_token")
    @classmethod
    def _check_token(cls, given: str | TokenProvider | None) -> str | TokenProvider | None:
        if isinstance(given, str) and not (given.isascii() and given.isprintable()):
            raise ValueError("a token is printable ASCII: take the line break off its end, if it was read from a file")
        return given

    @field_validator("http_headers")
    @classmethod
    def _check_headers(cls, given: dict[str, str]) -> dict[str, str]:
        # httpx would refuse them at each request, and show the value.
        for name, value in given.items():
            if not HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name!r} is not the name of an HTTP header")
            if not (value.isascii() and value.isprintable()) or value != value.strip():
                raise ValueError(f"the value of {name} is not printable ASCII without blanks or line breaks around it")
        return given

    @model_validator(mode="after")
    def _check_together(self) -> RegistryConfig:
        if self.basic_auth_user_info is not None and self.bearer_auth_token is not None:
            raise ValueError(f"{_USER_INFO} and bearer_auth_token exclude each other")
        if any(url.startswith("https:") for url in self.urls):
            check_settings(self)
        return self


def make_config(
    url: str | Sequence[str] | None, config: RegistryConfig | None, options: RegistryOptions
) -> RegistryConfig:
    """The ready configuration, or one made of the arguments. Raises ConfigurationError, which shows no secret."""
    if config is not None:
        return complete_config(RegistryConfig, config, options if url is None else ("url", *options))
    try:
        return RegistryConfig.model_validate({"urls": () if url is None else url, **options})
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, one['loc'])) or 'url'}: {one['msg']}" for one in error.errors()]
        raise ConfigurationError("schema registry: " + "; ".join(problems)) from None


def _plain_url(text: str) -> tuple[str, str | None]:
    """The URL without its credentials, and the credentials."""
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise ValueError("a URL cannot be read: write http://host:8081 or https://host") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("a URL has no http:// or https://, or no host: write http://host:8081 or https://host")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    place = host if port is None else f"{host}:{port}"
    user_info = None
    if parts.username is not None:
        user_info = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return urlunsplit(SplitResult(parts.scheme, place, parts.path.rstrip("/"), "", "")), user_info
