"""aiokafkapy.integrations.schema_registry.rules.encryption: a reader's keys, which its messages name."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, KafkaError
from aiokafkapy.integrations.schema_registry import PreparedRule, Rule, RuleContext, Schema, SchemaRules
from aiokafkapy.integrations.schema_registry.rules.ciphers import Cipher, with_version
from aiokafkapy.integrations.schema_registry.rules.encryption import FieldEncryptionRules, PayloadEncryptionRules
from aiokafkapy.integrations.schema_registry.rules.fields import Field
from aiokafkapy.integrations.schema_registry.rules.running import KeyNeeded
from tests.unit.virtual_time import elapsed

PARAMS = {"encrypt.kek.name": "kek", "encrypt.kms.type": "mine", "encrypt.kms.key.id": "id"}
MATERIAL = Cipher.new_key("AES256_GCM")


class Kms:
    """Decrypts nothing; counts."""

    kms_type = "mine"

    def __init__(self) -> None:
        self.error: BaseException | None = None
        self.asked = 0

    async def encrypt(self, key_id: str, plain: bytes, properties: Mapping[str, str]) -> bytes:
        return plain

    async def decrypt(self, key_id: str, ciphertext: bytes, properties: Mapping[str, str]) -> bytes:
        self.asked += 1
        await elapsed(0)
        if self.error is not None:
            raise self.error
        return MATERIAL


class Keys:
    """A DEK registry of one key."""

    async def ask(self, method: str, path: str, doing: str, **about: Any) -> Any:
        if "/deks/" in path:
            return {"version": 3, "encryptedKeyMaterial": "AAAA", "ts": 1}
        return {"name": "kek", "kmsType": "mine", "kmsKeyId": "id"}


async def reading_rule(kms: Kms) -> PreparedRule:
    params = tuple({**PARAMS, "encrypt.dek.expiry.days": "1"}.items())
    registry: Any = Keys()
    context = RuleContext(
        Rule("encrypt", "ENCRYPT_PAYLOAD", "READ", params=params), "READ", "s", Schema("{}"), registry
    )
    return await PayloadEncryptionRules(SchemaRules(kms=[kms])).prepare(context)


async def decrypted(rule: PreparedRule, message: bytes) -> object:
    """The decrypted message, as a deserializer gets it."""
    for _ in range(3):
        try:
            return rule.apply(message, None)
        except KeyNeeded as needed:
            await needed.fetch()
    raise AssertionError("it asks again and again")


MESSAGE = with_version(3, Cipher("AES256_GCM", MATERIAL).encrypt(b"a text"))


async def test_a_key_that_many_messages_name_is_fetched_once() -> None:
    kms = Kms()
    rule = await reading_rule(kms)
    assert await asyncio.gather(*(decrypted(rule, MESSAGE) for _ in range(200))) == [b"a text"] * 200
    assert kms.asked == 1


async def test_a_failure_to_fetch_it_is_told_to_each_message_and_then_forgotten() -> None:
    kms = Kms()
    rule = await reading_rule(kms)
    kms.error = ValueError("odd")
    found = await asyncio.gather(*(decrypted(rule, MESSAGE) for _ in range(200)), return_exceptions=True)
    assert {type(one) for one in found} == {KafkaError}
    assert kms.asked == 1
    kms.error = None
    assert await decrypted(rule, MESSAGE) == b"a text"


async def test_a_key_management_that_cancels_itself_has_failed() -> None:
    kms = Kms()
    rule = await reading_rule(kms)
    kms.error = asyncio.CancelledError()
    with pytest.raises(KafkaError, match="could not decrypt with the key 'kek': CancelledError"):
        await decrypted(rule, MESSAGE)


@pytest.mark.parametrize(("kind", "logical", "value"), [("STRING", "uuid", "text"), ("BYTES", "decimal", b"text")])
async def test_a_field_whose_ciphertext_no_reader_could_read_is_refused(kind: str, logical: str, value: Any) -> None:
    registry: Any = Keys()
    context = RuleContext(
        Rule("encrypt", "ENCRYPT", "WRITE", params=tuple(PARAMS.items())), "WRITE", "s", Schema("{}"), registry
    )
    rule = await FieldEncryptionRules(SchemaRules(kms=[Kms()])).prepare(context)
    field = Field("r.f", "f", kind, frozenset(), {}, logical_type=logical)
    with pytest.raises(ConfigurationError, match=f"is a {logical}: no reader"):
        rule.apply(value, lambda message, visit: visit(field, message))
