"""The keys of the registry in memory: keys of key managements (KEK), and data keys (DEK) encrypted by them.

Owns their names, versions and algorithms, with Confluent's codes, and knows no HTTP and no cryptography. Pure.
Confluent's counterpart is ``DekRegistry``.

Rules: a data key belongs to a key, a subject and an algorithm, and its versions begin with 1; registering the same
again returns the existing one, and another one under the same name is refused with 409.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ...common import JsonObject, JsonValue
from .errors import RegistryRefusal

__all__ = ["KeyStore"]

_ALGORITHMS: Final = ("AES128_GCM", "AES256_GCM", "AES256_SIV")


class KeyStore:
    """The keys of one registry. ``clock`` gives seconds. Every refusal is a ``RegistryRefusal``."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._keks: dict[str, JsonObject] = {}
        self._deks: dict[tuple[str, str, str], list[JsonObject]] = {}

    def names(self) -> list[str]:
        """The names of keys."""
        return sorted(self._keks)

    def kek(self, name: str) -> JsonObject:
        """A key."""
        try:
            return self._keks[name]
        except KeyError:
            raise RegistryRefusal(40470, f"Key '{name}' not found") from None

    def create_kek(self, body: JsonValue) -> JsonObject:
        """Register a key."""
        given = body if isinstance(body, dict) else {}
        wanted = ("name", "kmsType", "kmsKeyId")
        if not all(isinstance(given.get(field), str) and given[field] for field in wanted):
            raise RegistryRefusal(42271, "Invalid key: name, kmsType and kmsKeyId are needed")
        made: JsonObject = {field: given[field] for field in wanted}
        made |= {"kmsProps": given.get("kmsProps") or {}, "doc": given.get("doc"), "shared": bool(given.get("shared"))}
        name = str(made["name"])
        known = self._keks.get(name)
        if known is None:
            self._keks[name] = made | {"ts": self._now(), "deleted": False}
        elif {field: known[field] for field in made} != made:
            raise RegistryRefusal(40972, f"Key '{name}' already exists")
        return self._keks[name]

    def dek(self, kek: str, subject: str, version: str, algorithm: str) -> JsonObject:
        """A data key: by its number, or ``latest`` or -1."""
        self.kek(kek)
        found = self._deks.get((kek, subject, algorithm.rpartition(".")[2] or "AES256_GCM"), [])
        for one in reversed(found):
            if version in ("latest", "-1", str(one["version"])):
                return one
        raise RegistryRefusal(40470, f"Key '{kek}' of subject '{subject}' not found")

    def create_dek(self, kek: str, subject: str, body: JsonValue) -> JsonObject:
        """Register a data key."""
        self.kek(kek)
        given = body if isinstance(body, dict) else {}
        algorithm, version = given.get("algorithm") or "AES256_GCM", given.get("version", 1)
        if not isinstance(algorithm, str) or algorithm not in _ALGORITHMS or type(version) is not int or version < 1:
            raise RegistryRefusal(42272, f"Invalid key: algorithm {algorithm!r}, version {version!r}")
        known = self._deks.setdefault((kek, subject, algorithm), [])
        if any(one["version"] == version for one in known):
            raise RegistryRefusal(40972, f"Key '{kek}' of subject '{subject}' already exists")
        made: JsonObject = {"kekName": kek, "subject": subject, "version": version, "algorithm": algorithm}
        made |= {"encryptedKeyMaterial": given.get("encryptedKeyMaterial"), "ts": self._now(), "deleted": False}
        known.append(made)
        return made

    def _now(self) -> int:
        return int(self._clock() * 1000)
