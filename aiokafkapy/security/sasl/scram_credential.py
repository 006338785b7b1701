"""The credential that a broker keeps of a SCRAM password: not the password, but enough to check a proof of it (RFC
5802, section 3).

Owns the two hashes, the derivation of keys, and the text form that Kafka stores and its tools take. Knows no message.
Kafka's counterparts are ``ScramMechanism``, ``ScramCredential``, ``ScramCredentialUtils`` and ``ScramFormatter``.

Rules: keys are compared in constant time; nobody's ``repr`` shows a key; the salt and the iterations are not secret: a
broker tells them to every client that asks.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections import UserDict
from dataclasses import dataclass, field
from typing import Final, Self

from ...errors import ConfigurationError
from .secret import Secret

__all__ = [
    "MAX_ITERATIONS",
    "MIN_ITERATIONS",
    "SCRAM_SHA_256",
    "SCRAM_SHA_512",
    "DelegationToken",
    "ScramCredential",
    "ScramCredentialStore",
    "ScramHash",
    "password_bytes",
    "scram_hash",
]

SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
MIN_ITERATIONS: Final = 4_096
MAX_ITERATIONS: Final = 16_384
"""The range that Kafka's brokers take when a credential is made."""
SALT_BYTES: Final = 16


@dataclass(frozen=True, slots=True)
class ScramHash:
    """One of the two mechanisms: its name, and HMAC, H and Hi of RFC 5802 over its hash."""

    name: str
    algorithm: str

    @property
    def digest_bytes(self) -> int:
        """The size of every key, proof and signature."""
        return hashlib.new(self.algorithm).digest_size

    def mac(self, key: bytes, message: bytes) -> bytes:
        """HMAC(key, message)."""
        return hmac.digest(key, message, self.algorithm)

    def hash(self, data: bytes) -> bytes:
        """H(data)."""
        return hashlib.new(self.algorithm, data).digest()

    def salted_password(self, password: Secret[bytes], salt: bytes, iterations: int) -> Secret[bytes]:
        """Hi(password, salt, iterations): PBKDF2, milliseconds to seconds long, without the interpreter's lock."""
        return Secret(hashlib.pbkdf2_hmac(self.algorithm, password.reveal(), salt, iterations))


_HASHES: Final = {
    SCRAM_SHA_256: ScramHash(SCRAM_SHA_256, "sha256"),
    SCRAM_SHA_512: ScramHash(SCRAM_SHA_512, "sha512"),
}


def scram_hash(mechanism: str) -> ScramHash:
    """The hash of a mechanism; raises ConfigurationError for a name that is not a SCRAM mechanism of Kafka's."""
    try:
        return _HASHES[mechanism]
    except KeyError:
        raise ConfigurationError(
            f"{mechanism!r} is not a SCRAM mechanism: write {SCRAM_SHA_256!r} or {SCRAM_SHA_512!r}"
        ) from None


def password_bytes(password: Secret[str]) -> Secret[bytes]:
    """The bytes of a password that are hashed: its UTF-8, as it was given.

    RFC 5802 asks for SASLprep, which changes even '²' and 'µ'. Kafka's brokers, tools and Java
    client (``ScramFormatter.normalize``) and librdkafka leave that step out, so that the RFC's form would be refused.
    """
    return Secret(password.reveal().encode(errors="surrogatepass"))


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """Salt, iterations, and two keys: one to check a proof by, and one to make the server's signature with."""

    salt: bytes
    stored_key: bytes = field(repr=False)
    server_key: bytes = field(repr=False)
    iterations: int

    @classmethod
    def from_password(
        cls, mechanism: str, password: Secret[str] | str, *, iterations: int = MIN_ITERATIONS, salt: bytes | None = None
    ) -> Self:
        """Make one, with a salt of its own; raises ConfigurationError for iterations that no broker takes."""
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise ConfigurationError(
                f"iterations={iterations} is out of range: write {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        secret = password if isinstance(password, Secret) else Secret(password)
        salted = scram_hash(mechanism).salted_password(password_bytes(secret), salt, iterations)
        return cls.from_salted_password(mechanism, salted, iterations=iterations, salt=salt)

    @classmethod
    def from_salted_password(
        cls, mechanism: str, salted_password: Secret[bytes] | bytes, *, iterations: int, salt: bytes
    ) -> Self:
        """Make one from the fields of AlterUserScramCredentials: the password never leaves the client that sets it."""
        hashes = scram_hash(mechanism)
        salted = salted_password.reveal() if isinstance(salted_password, Secret) else salted_password
        stored_key = hashes.hash(hashes.mac(salted, b"Client Key"))
        return cls(salt, stored_key, hashes.mac(salted, b"Server Key"), iterations)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read ``salt=…,stored_key=…,server_key=…,iterations=…``; raises ConfigurationError, which shows no key."""
        parts = dict(part.partition("=")[::2] for part in text.split(","))
        if parts.keys() != {"salt", "stored_key", "server_key", "iterations"} or len(parts) != text.count(",") + 1:
            raise ConfigurationError(
                "a SCRAM credential has other parts: write salt=<base64>,stored_key=<base64>,server_key=<base64>,"
                "iterations=<number>"
            )
        try:
            salt, stored_key, server_key = (
                base64.b64decode(parts[name], validate=True) for name in ("salt", "stored_key", "server_key")
            )
        except (binascii.Error, ValueError):
            raise ConfigurationError("a SCRAM credential has a part that is not base64") from None
        if not (parts["iterations"].isascii() and parts["iterations"].isdigit() and len(parts["iterations"]) < 10):
            raise ConfigurationError(f"iterations={parts['iterations'][:20]!r} of a SCRAM credential is not a number")
        return cls(salt, stored_key, server_key, int(parts["iterations"]))

    def format(self) -> str:
        """The text that Kafka stores, which ``parse`` reads. It has the keys in it: keep it as a password is kept."""
        salt, stored_key, server_key = (
            base64.b64encode(part).decode() for part in (self.salt, self.stored_key, self.server_key)
        )
        return f"salt={salt},stored_key={stored_key},server_key={server_key},iterations={self.iterations}"


class ScramCredentialStore(UserDict[str, ScramCredential]):
    """The credentials of one SCRAM mechanism by user, as a dictionary; ``repr`` has the names only."""

    def __repr__(self) -> str:
        return f"ScramCredentialStore({sorted(self)})"


@dataclass(frozen=True, slots=True)
class DelegationToken:
    """A broker's record of a token (KIP-48): its owner, its end, and its HMAC as a password's credential."""

    owner: str
    credential: ScramCredential
    expires_at_ms: int
