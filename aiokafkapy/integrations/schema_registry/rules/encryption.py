"""Field-level encryption (CSFLE): ``ENCRYPT`` for fields, ``ENCRYPT_PAYLOAD`` for a message's bytes.

Owns the choice of a field's key, the time of a new one, and the form of ciphertexts in fields. Confluent's counterparts
are ``FieldEncryptionExecutor`` and ``EncryptionExecutor``, with the same parameters: ``encrypt.kek.name``,
``encrypt.kms.type``, ``encrypt.kms.key.id``, ``encrypt.dek.algorithm``, ``encrypt.dek.expiry.days``.

Rules:

- The ciphertext of text is Base64, and of bytes it is bytes; a field of another type cannot be encrypted.
- A key is fetched, made and decrypted when a rule is prepared, and kept for as long as the rule is: a record needs no
  request. With renewed keys a ciphertext names the version of its key, and a reader requests an unknown version.
- A writer makes the first key, and a new one when ``encrypt.dek.expiry.days`` are over; a reader makes no keys.
- Of several key ids (``encrypt.alternate.kms.key.ids`` of the key in the registry) the first that works is used.
"""

from __future__ import annotations

import asyncio
import base64
import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from ....errors import ConfigurationError, KafkaError
from ..caching import SingleFlight, is_cancelling
from ..errors import KeyManagementError, SchemaRegistryError
from .ciphers import ALGORITHMS, Cipher, version_of, with_version
from .dek_registry import LATEST, Dek, DekRegistry, Kek
from .fields import Field, Walk
from .running import KeyNeeded, PreparedRule, RuleContext, SchemaRules, on_fields

if TYPE_CHECKING:
    from .kms import KmsDriver

__all__ = ["FieldEncryptionRules", "PayloadEncryptionRules"]

_DAY_MS: Final = 86_400_000
_CHECKED_BY_READERS: Final = frozenset({"uuid", "decimal"})
"""Avro's logical types of texts and bytes whose values readers convert before a rule sees them."""
_ALTERNATES: Final = "encrypt.alternate.kms.key.ids"


class _EncryptionRules:
    """The base of both executors: each rule has its own keys."""

    def __init__(self, rules: SchemaRules, wall_clock: Callable[[], float] = time.time) -> None:
        self._rules = rules
        self._wall_clock = wall_clock

    async def _opened_keys(self, context: RuleContext) -> _Keys:
        keys = _Keys(context, self._rules, self._wall_clock)
        await keys.open()
        return keys


class FieldEncryptionRules(_EncryptionRules):
    """Runs rules of type ``ENCRYPT``."""

    async def prepare(self, context: RuleContext) -> PreparedRule:
        """Get the keys."""
        keys = await self._opened_keys(context)
        change = keys.encrypted_field if context.mode == "WRITE" else keys.decrypted_field
        prepared = on_fields(context, change)
        return PreparedRule(prepared.apply, keys.seconds, is_field_rule=True)


class PayloadEncryptionRules(_EncryptionRules):
    """Runs rules of type ``ENCRYPT_PAYLOAD``."""

    async def prepare(self, context: RuleContext) -> PreparedRule:
        """Get the keys."""
        keys = await self._opened_keys(context)
        change = keys.encrypted if context.mode == "WRITE" else keys.decrypted

        def apply(message: object, walk: Walk | None) -> object:
            if not isinstance(message, bytes):
                raise ConfigurationError("ENCRYPT_PAYLOAD is a rule of bytes: it belongs to encodingRules")
            return change(message)

        return PreparedRule(apply, keys.seconds)


class _Keys:
    """The keys of one rule of a subject."""

    def __init__(self, context: RuleContext, rules: SchemaRules, wall_clock: Callable[[], float]) -> None:
        if context.mode not in ("WRITE", "READ") or context.rule.kind != "TRANSFORM":
            raise ConfigurationError(f"an encryption is a TRANSFORM of WRITE and READ, not of {context.mode}")
        self._context = context
        self._kms = rules.kms
        self._registry = DekRegistry(context.registry)
        self._wall_clock = wall_clock
        self._algorithm = context.parameter("encrypt.dek.algorithm") or "AES256_GCM"
        if self._algorithm not in ALGORITHMS:
            raise ConfigurationError(f"encrypt.dek.algorithm={self._algorithm!r}: write one of {', '.join(ALGORITHMS)}")
        self._expiry_days = _expiry_days(context.parameter("encrypt.dek.expiry.days"))
        self._kek: Kek | None = None
        # By version; a reader's failed look-up stays until it is reported
        self._ciphers: dict[int, Cipher] = {}
        self._failures: dict[int, Exception] = {}
        self._questions = SingleFlight()  # by version
        self._current = 1
        self.seconds = math.inf

    @property
    def _is_renewed(self) -> bool:
        return self._expiry_days > 0

    async def open(self) -> None:
        """Get the keys that a writer needs, and a reader's if there is only one."""
        self._kek = await self._found_kek()
        if self._context.mode == "READ":
            if not self._is_renewed:
                await self._load(1)
            return
        dek = await self._current_dek(self._kek)
        self._current = dek.version
        self._ciphers[dek.version] = Cipher(self._algorithm, await self._material(self._kek, dek))
        if self._is_renewed:
            ends = dek.timestamp_ms / 1000 + self._expiry_days * 86_400
            # Clocks of clients differ, so that a new key may be due at once: do not loop.
            self.seconds = max(ends - self._wall_clock(), 60.0)

    # the rules' work

    def encrypted_field(self, field: Field, value: object) -> object:
        """The field's ciphertext."""
        if value is None:
            return None
        if field.logical_type in _CHECKED_BY_READERS:
            raise ConfigurationError(
                f"the field {field.full_name} is a {field.logical_type}: no reader could read its ciphertext as one"
            )
        if field.type_name == "STRING" and isinstance(value, str):
            return base64.b64encode(self.encrypted(value.encode())).decode()
        if field.type_name == "BYTES" and isinstance(value, (bytes, bytearray)):
            return self.encrypted(bytes(value))
        raise ConfigurationError(
            f"the field {field.full_name} is a {type(value).__name__} of type {field.type_name}: texts and bytes "
            "can be encrypted"
        )

    def decrypted_field(self, field: Field, value: object) -> object:
        """The field's text."""
        if field.type_name == "STRING" and isinstance(value, str):
            return self.decrypted(base64.b64decode(value, validate=True)).decode()
        if field.type_name == "BYTES" and isinstance(value, (bytes, bytearray)):
            return self.decrypted(bytes(value))
        return value

    def encrypted(self, plain: bytes) -> bytes:
        """The ciphertext by the newest key."""
        ciphertext = self._ciphers[self._current].encrypt(plain)
        return with_version(self._current, ciphertext) if self._is_renewed else ciphertext

    def decrypted(self, ciphertext: bytes) -> bytes:
        """The text, by the key whose version the ciphertext names."""
        version = 1
        if self._is_renewed:
            version, ciphertext = version_of(ciphertext)
        cipher = self._ciphers.get(version)
        if cipher is None:
            failure = self._failures.pop(version, None)
            if failure is not None:
                raise failure
            raise KeyNeeded(lambda: self._load_or_remember(version))
        return cipher.decrypt(ciphertext)

    # internals

    async def _load_or_remember(self, version: int) -> None:
        failure = await self._questions.once(version, lambda: self._failure_of_loading(version))
        if failure is not None:  # raised by ``decrypted``, which the waiting caller runs next
            self._failures[version] = failure

    async def _failure_of_loading(self, version: int) -> Exception | None:
        try:
            await self._load(version)
        except Exception as error:
            if getattr(error, "retriable", False):
                raise
            return error
        return None

    async def _load(self, version: int) -> None:
        kek = self._kek or await self._found_kek()
        dek = await self._registry.dek(kek.name, self._context.subject, self._algorithm, version, deleted=True)
        if dek is None:
            raise SchemaRegistryError(f"the registry has no data key {version} of the key {kek.name!r}")
        self._ciphers[version] = Cipher(self._algorithm, await self._material(kek, dek))

    async def _found_kek(self) -> Kek:
        context = self._context
        name = context.parameter("encrypt.kek.name")
        if not name:
            raise ConfigurationError("it has no parameter encrypt.kek.name")
        kms_type, key_id = (context.parameter(f"encrypt.kms.{one}") for one in ("type", "key.id"))
        where = _context_of(context.subject)
        kek = await self._registry.kek(name, where)
        if kek is None and context.mode == "WRITE":
            if not kms_type or not key_id:
                raise ConfigurationError(
                    f"the registry has no key {name!r}, and the rule no encrypt.kms.type and encrypt.kms.key.id to "
                    "make it"
                )
            kek = await self._registry.create_kek(name, kms_type, key_id, where)
            kek = kek or await self._registry.kek(name, where)  # another client was first
        if kek is None:
            raise SchemaRegistryError(f"the registry has no key {name!r}")
        for given, found in ((kms_type, kek.kms_type), (key_id, kek.kms_key_id)):
            if given and given != found:
                raise ConfigurationError(f"the key {name!r} is {found!r} in the registry, and {given!r} in the rule")
        return kek

    async def _current_dek(self, kek: Kek) -> Dek:
        """The key to write with: a new one if there is none, or if it is too old."""
        subject, algorithm = self._context.subject, self._algorithm
        version = LATEST if self._is_renewed else 1
        dek = await self._registry.dek(kek.name, subject, algorithm, version, deleted=False)
        if dek is not None and not self._is_over(dek):
            return dek
        encrypted = None
        if not kek.is_shared:
            encrypted = await self._with_kms(kek, "encrypt", Cipher.new_key(algorithm))
        number = 1 if dek is None else dek.version + 1
        try:
            made = await self._registry.create_dek(kek.name, subject, algorithm, number, encrypted)
            made = made or await self._registry.dek(kek.name, subject, algorithm, version, deleted=False)
        except SchemaRegistryError:
            if dek is None:
                raise
            made = None
        found = made or dek  # an old key is better than no record
        if found is None:
            raise SchemaRegistryError(f"the registry has no data key of {kek.name!r} and made none")
        return found

    def _is_over(self, dek: Dek) -> bool:
        return self._is_renewed and self._wall_clock() * 1000 - dek.timestamp_ms > self._expiry_days * _DAY_MS

    async def _material(self, kek: Kek, dek: Dek) -> bytes:
        if dek.plain is not None:
            return dek.plain
        if dek.encrypted is None:
            raise SchemaRegistryError(f"the registry tells no material of data key {dek.version} of {kek.name!r}")
        return await self._with_kms(kek, "decrypt", dek.encrypted)

    async def _with_kms(self, kek: Kek, what: str, data: bytes) -> bytes:
        """Ask the key management, by one key id after another."""
        driver: KmsDriver | None = self._kms.get(kek.kms_type)
        if driver is None:
            known = ", ".join(sorted(self._kms)) or "none"
            raise ConfigurationError(f"no key management for {kek.kms_type!r}: SchemaRules(kms=[...]) has {known}")
        alternates = kek.properties.get(_ALTERNATES, "").split(",")
        ids = [kek.kms_key_id, *(one.strip() for one in alternates if one.strip())]
        last: BaseException | None = None
        for key_id in ids:
            try:
                found: bytes = await getattr(driver, what)(key_id, data, kek.properties)
            except (Exception, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and is_cancelling():
                    raise
                last = error
            else:
                return found
        text = f"the key management {kek.kms_type!r} could not {what} with the key {kek.name!r}: {type(last).__name__}"
        kind: type[KafkaError] = KeyManagementError if isinstance(last, (OSError, TimeoutError)) else KafkaError
        raise kind(text) from last


def _expiry_days(text: str | None) -> int:
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise ConfigurationError(f"encrypt.dek.expiry.days={text!r}: write a whole number of 0 or more")
    return int(text)


def _context_of(subject: str) -> str | None:
    """The registry's context of a subject ``:.context:name``."""
    if not subject.startswith(":."):
        return None
    context = subject[1:].partition(":")[0]
    return None if context == "." else context
