"""AWS Signature Version 4, after AWS's "Create a signed AWS API request", as far as MSK needs it.

Owns the canonical request, the string to sign, and the key. Knows no clock and no Kafka: the time is an argument.
"""

from __future__ import annotations

import datetime
import hashlib
import hmac
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from .secret import Secret

__all__ = ["ALGORITHM", "SigningScope", "canonical_request", "uri_encoded"]

ALGORITHM: Final = "AWS4-HMAC-SHA256"


@dataclass(frozen=True, slots=True)
class SigningScope:
    """The time, region and service of a signature; ``at`` is in seconds since the epoch."""

    at: float
    region: str
    service: str

    @property
    def timestamp(self) -> str:
        """``20150830T123600Z``."""
        return datetime.datetime.fromtimestamp(int(self.at), datetime.UTC).strftime("%Y%m%dT%H%M%SZ")

    @property
    def text(self) -> str:
        """``20150830/us-east-1/kafka-cluster/aws4_request``."""
        return f"{self.timestamp[:8]}/{self.region}/{self.service}/aws4_request"

    def signing_key(self, secret_access_key: Secret[str]) -> Secret[bytes]:
        """The key of one day, region and service."""
        key = Secret(b"AWS4" + secret_access_key.reveal().encode())
        for part in self.text.split("/"):
            key = Secret(_mac(key, part))
        return key

    def signature(self, secret_access_key: Secret[str], request: str) -> str:
        """The signature of a canonical request, in hexadecimal digits."""
        digest = hashlib.sha256(request.encode()).hexdigest()
        to_sign = f"{ALGORITHM}\n{self.timestamp}\n{self.text}\n{digest}"
        return _mac(self.signing_key(secret_access_key), to_sign).hex()


def canonical_request(
    method: str, path: str, parameters: Mapping[str, str], headers: Mapping[str, str], payload_hash: str
) -> str:
    """The form of a request that is signed; names of headers are in lower case."""
    pairs = sorted((uri_encoded(name), uri_encoded(value)) for name, value in parameters.items())
    query = "&".join(f"{name}={value}" for name, value in pairs)
    lines = "".join(f"{name}:{' '.join(headers[name].split())}\n" for name in sorted(headers))
    return "\n".join((method, path, query, lines, ";".join(sorted(headers)), payload_hash))


def uri_encoded(text: str) -> str:
    """Everything but letters, digits and ``-._~`` as ``%XX``."""
    return urllib.parse.quote(text, safe="-._~")


def _mac(key: Secret[bytes], message: str) -> bytes:
    return hmac.digest(key.reveal(), message.encode(), "sha256")
