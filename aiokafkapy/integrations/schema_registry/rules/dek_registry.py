"""The registry of keys: key encryption keys (KEK), which a key management has, and data encryption keys (DEK), which
are stored encrypted by them.

Owns the REST paths and the shapes. Confluent's counterpart is ``DekRegistryClient``.

Rules: a key that does not exist is None; one that another client has created meanwhile (409) is None too, and is asked
for again.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Unpack
from urllib.parse import quote

from ....common import JsonLike, JsonValue
from ..errors import SchemaRegistryError

if TYPE_CHECKING:
    from ..client import SchemaRegistryClient
    from ..transport import About

__all__ = ["LATEST", "Dek", "DekRegistry", "Kek"]

LATEST: Final = -1
"""The version that asks for the newest key."""

_ROOT: Final = "dek-registry/v1/keks"


@dataclass(frozen=True, slots=True)
class Kek:
    """A key of a key management. The registry itself uses a ``shared`` one, and tells data keys in plain."""

    name: str
    kms_type: str
    kms_key_id: str
    properties: Mapping[str, str]
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Dek:
    """A data key: encrypted, or plain if the registry tells it so. ``timestamp_ms`` is the time of its creation."""

    version: int
    encrypted: bytes | None
    plain: bytes | None
    timestamp_ms: int


class DekRegistry:
    """Requests keys, through the client of a schema registry, which has both."""

    def __init__(self, registry: SchemaRegistryClient) -> None:
        self._registry = registry

    async def kek(self, name: str, context: str | None) -> Kek | None:
        """A key encryption key. Raises SchemaRegistryError."""
        query = {"deleted": "false"} | _context_query(context)
        told = await self._ask("GET", f"{_ROOT}/{quote(name, safe='')}", f"reading the key {name!r}", query=query)
        return None if told is None else _kek_of(told)

    async def create_kek(self, name: str, kms_type: str, kms_key_id: str, context: str | None) -> Kek | None:
        """Register a key encryption key."""
        body: dict[str, JsonLike] = {"name": name, "kmsType": kms_type, "kmsKeyId": kms_key_id, "shared": False}
        query = _context_query(context) or None
        told = await self._ask("POST", _ROOT, f"registering the key {name!r}", query=query, body=body)
        return None if told is None else _kek_of(told)

    async def dek(self, kek: str, subject: str, algorithm: str, version: int, *, deleted: bool) -> Dek | None:
        """A data encryption key; for a reader also a deleted one."""
        path = f"{_deks(kek, subject)}/versions/{version}"
        query = {"algorithm": algorithm, "deleted": str(deleted).lower()}
        doing = f"reading the data key {version} of subject {subject!r}"
        told = await self._ask("GET", path, doing, query=query, subject=subject)
        return None if told is None else _dek_of(told)

    async def create_dek(
        self, kek: str, subject: str, algorithm: str, version: int, encrypted: bytes | None
    ) -> Dek | None:
        """Register a data encryption key; without ``encrypted`` the registry makes it, with a shared key."""
        body: dict[str, JsonLike] = {"subject": subject, "version": version, "algorithm": algorithm}
        if encrypted is not None:
            body["encryptedKeyMaterial"] = base64.b64encode(encrypted).decode()
        doing = f"registering the data key {version} of subject {subject!r}"
        try:
            told = await self._ask("POST", _deks(kek, subject), doing, body=body, subject=subject)
        except SchemaRegistryError as error:
            if error.status != 405:
                raise
            # Registries from before the path had a subject.
            told = await self._ask("POST", f"{_ROOT}/{quote(kek, safe='')}/deks", doing, body=body, subject=subject)
        return None if told is None else _dek_of(told)

    async def _ask(self, method: str, path: str, doing: str, **about: Unpack[About]) -> JsonValue:
        try:
            return await self._registry.ask(method, path, doing, **about)
        except SchemaRegistryError as error:
            if error.status == (404 if method == "GET" else 409):
                return None
            raise


# internals


def _deks(kek: str, subject: str) -> str:
    return f"{_ROOT}/{quote(kek, safe='')}/deks/{quote(subject, safe='')}"


def _context_query(context: str | None) -> dict[str, str]:
    return {} if context is None else {"context": context}


def _kek_of(told: Any) -> Kek:
    try:
        properties = {str(name): str(one) for name, one in (told.get("kmsProps") or {}).items()}
        return Kek(str(told["name"]), str(told["kmsType"]), str(told["kmsKeyId"]), properties, bool(told.get("shared")))
    except (KeyError, TypeError, AttributeError) as error:
        raise SchemaRegistryError(f"the registry's answer is not a key: {type(error).__name__}: {error}") from error


def _dek_of(told: Any) -> Dek:
    try:
        return Dek(
            int(told["version"]),
            _bytes_of(told.get("encryptedKeyMaterial")),
            _bytes_of(told.get("keyMaterial")),
            int(told.get("ts") or 0),
        )
    except (KeyError, TypeError, ValueError, AttributeError, binascii.Error):
        # Neither text nor cause: they may contain a key.
        raise SchemaRegistryError("the registry's answer is not a readable data key") from None


def _bytes_of(text: Any) -> bytes | None:
    return base64.b64decode(text, validate=True) if text else None
