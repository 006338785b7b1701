"""Key managements, which encrypt and decrypt data keys: a protocol, and a local one for tests.

Confluent's counterparts are ``KmsDriver`` and ``LocalKmsDriver``.

Rules: a driver does its I/O without blocking the loop; after an OSError or TimeoutError a later call may succeed; every
other error is final. An error never contains a key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Protocol

from ....errors import ConfigurationError
from .ciphers import derived_key, gcm_decrypt, gcm_encrypt

__all__ = ["KmsDriver", "LocalKms"]


class KmsDriver(Protocol):
    """A key management. ``kms_type`` is its name in contracts: ``aws-kms``, ``gcp-kms``, ``azure-kms``, ``hcvault``.

    ``key_id`` is ``encrypt.kms.key.id`` of the rule, ``properties`` are those of the key in the registry. Confluent's
    clients can read the result only if it has the form that Tink's driver of the same key management writes.
    """

    kms_type: str

    async def encrypt(self, key_id: str, plain: bytes, properties: Mapping[str, str]) -> bytes:
        """Encrypt a data encryption key with the key of this id."""

    async def decrypt(self, key_id: str, ciphertext: bytes, properties: Mapping[str, str]) -> bytes:
        """Decrypt a data encryption key."""


class LocalKms:
    """Confluent's ``local-kms``: one secret, for tests. It is read from ``LOCAL_SECRET`` if it is not given."""

    kms_type: str = "local-kms"

    def __init__(self, secret: str | None = None) -> None:
        found = os.environ.get("LOCAL_SECRET") if secret is None else secret
        if not found:
            raise ConfigurationError("LocalKms has no secret: give it one, or set LOCAL_SECRET")
        self._key = derived_key(found)

    async def encrypt(self, key_id: str, plain: bytes, properties: Mapping[str, str]) -> bytes:
        """Encrypt with the secret's key, for any id."""
        return gcm_encrypt(self._key, plain)

    async def decrypt(self, key_id: str, ciphertext: bytes, properties: Mapping[str, str]) -> bytes:
        """Decrypt with the secret's key."""
        return gcm_decrypt(self._key, ciphertext)
