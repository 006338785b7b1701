"""The keys that a listener's OAUTHBEARER tokens are signed with: a JWKS in a file or at a URL, which may be replaced.

Owns the reading of it, at the start and later, and its times. Tokens are checked by ``security.sasl.json_web_tokens``.
Kafka's counterparts are ``JwksFileVerificationKeyResolver`` and ``RefreshingHttpsJwks``.

Rules:

- a JWKS that cannot be used is an error at the start; after that, the previous keys stay in use;
- a file is looked at before each authentication. A URL is asked when its keys are older than
  ``sasl_oauthbearer_jwks_endpoint_refresh_ms``, and for a token with a key that is not known, at most once a second;
  no authentication waits for it: a client that was refused tries again.

Event: ``broker.token_keys_unreadable`` (warning, once for each version of a file, each time for a URL).
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..common import JsonValue
from ..errors import ConfigurationError, KafkaConnectionError
from ..observability import get_logger
from ..security.pem_files import file_version
from ..security.sasl.http_json import get_json

if TYPE_CHECKING:
    from ..security.sasl.json_web_tokens import TokenValidator

__all__ = ["FileKeys", "UrlKeys", "token_keys"]

MILLISECONDS_BETWEEN: Final = 1_000
MOST_SECONDS: Final = 10.0
"""The seconds that one answer may take: Kafka's ``sasl.oauthbearer`` connect and read time-outs together."""

logger = get_logger(__name__)


def token_keys(url: str, refresh_ms: int, now_ms: int) -> FileKeys | UrlKeys:
    """The source of the keys at this URL, of which nothing is read yet; raises ConfigurationError for a scheme other
    than file, http and https.
    """
    if url.startswith("file:"):
        return FileKeys(url)
    if not url.startswith(("https://", "http://")):
        raise ConfigurationError(
            f"sasl_oauthbearer_jwks_endpoint_url={url!r} is not a URL of keys: write https://host/path or file:///path"
        )
    if importlib.util.find_spec("httpx") is None:
        raise ConfigurationError(
            f"sasl_oauthbearer_jwks_endpoint_url={url!r}: asking for it needs httpx: pip install 'aiokafkapy[oauth]'"
        )
    return UrlKeys(url, refresh_ms, now_ms)


class FileKeys:
    """The keys in a file. ``jwks``: as they were read last."""

    def __init__(self, url: str) -> None:
        self.jwks: JsonValue = None
        self._url = url
        self._path = Path(urllib.parse.unquote(url.removeprefix("file://").removeprefix("file:")))
        self._version = file_version(self._path)

    async def read(self) -> None:
        """Take the JWKS that is in the file now. Raises ConfigurationError when it cannot be obtained."""
        self._read()

    def refresh(self, validator: TokenValidator, now_ms: int) -> None:
        """Take the file's keys if it has changed."""
        version = file_version(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            self._read()
            validator.use_keys(self.jwks)
        except ConfigurationError as error:
            logger.warning("broker.token_keys_unreadable", url=self._url, error=str(error))

    def ask_again(self, validator: TokenValidator, now_ms: int) -> None:
        """The file was looked at just before."""

    def close(self) -> None:
        """Nothing is open."""

    # internals

    def _read(self) -> None:
        try:
            self.jwks = json.loads(self._path.read_text())
        except (OSError, ValueError) as error:
            raise _unreadable(self._url, error) from error


class UrlKeys:
    """The keys that a server gives, over HTTP. ``jwks``: as they were read last."""

    def __init__(self, url: str, refresh_ms: int, now_ms: int) -> None:
        self.jwks: JsonValue = None
        self._url = url
        self._refresh_ms = refresh_ms
        self._asked_at_ms = now_ms
        self._asking: asyncio.Task[None] | None = None

    async def read(self) -> None:
        """Take the JWKS that the server gives now. Raises ConfigurationError when it cannot be obtained."""
        try:
            self.jwks = await get_json(self._url, MOST_SECONDS)
        except KafkaConnectionError as error:
            raise _unreadable(self._url, error) from error

    def refresh(self, validator: TokenValidator, now_ms: int) -> None:
        """Ask when the keys are old."""
        self._ask_after(self._refresh_ms, validator, now_ms)

    def ask_again(self, validator: TokenValidator, now_ms: int) -> None:
        """Ask for the key that is not known: it may be new."""
        self._ask_after(MILLISECONDS_BETWEEN, validator, now_ms)

    def close(self) -> None:
        """Cancel the request under way."""
        if self._asking is not None:
            self._asking.cancel()

    # internals

    def _ask_after(self, interval_ms: int, validator: TokenValidator, now_ms: int) -> None:
        if now_ms - self._asked_at_ms >= interval_ms and (self._asking is None or self._asking.done()):
            self._asked_at_ms = now_ms
            self._asking = asyncio.get_running_loop().create_task(self._take_newer(validator))

    async def _take_newer(self, validator: TokenValidator) -> None:
        try:
            await self.read()
            validator.use_keys(self.jwks)
        except ConfigurationError as error:
            logger.warning("broker.token_keys_unreadable", url=self._url, error=str(error))


def _unreadable(url: str, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"sasl_oauthbearer_jwks_endpoint_url={url!r} cannot be read: {error}")
