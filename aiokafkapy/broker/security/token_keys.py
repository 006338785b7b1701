"""The keys that a listener's OAUTHBEARER tokens are signed with, from a JWKS file that may be replaced.

Owns reading the file, at the start and again when it has changed. What a token is worth is
``security.sasl.json_web_tokens``'s. Kafka's counterpart is ``RefreshingHttpsJwks``, for files.

Rule: a file that cannot be used is an error at the start; later the keys of before stay in use.

Event: ``broker.token_keys_unreadable`` (warning, once for each version of the file).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...errors import ConfigurationError
from ...observability import get_logger
from ...security.tls import file_version

if TYPE_CHECKING:
    from ...security.sasl.json_web_tokens import TokenValidator

__all__ = ["TokenKeys"]

logger = get_logger(__name__)


class TokenKeys:
    """The JWKS file of ``sasl_oauthbearer_jwks_endpoint_url``; raises ConfigurationError when it cannot be used."""

    def __init__(self, url: str) -> None:
        if not url.startswith("file:"):
            raise ConfigurationError(
                f"sasl_oauthbearer_jwks_endpoint_url={url!r}: the dev broker takes keys from a file only: write "
                "file:///path"
            )
        self._url = url
        self._path = Path(url.removeprefix("file://").removeprefix("file:"))
        self._version = file_version(self._path)

    def read(self) -> Any:
        """The JWKS that is in the file now."""
        try:
            return json.loads(self._path.read_text())
        except (OSError, ValueError) as error:
            raise ConfigurationError(
                f"sasl_oauthbearer_jwks_endpoint_url={self._url!r} cannot be read: {error}"
            ) from error

    def refresh(self, validator: TokenValidator) -> None:
        """Give the validator the keys of the file if it has changed; call it before each authentication."""
        version = file_version(self._path)
        if version == self._version:
            return
        self._version = version
        try:
            validator.use_keys(self.read())
        except ConfigurationError as error:
            logger.warning("broker.token_keys_unreadable", error=str(error))
