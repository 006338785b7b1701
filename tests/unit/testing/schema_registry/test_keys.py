"""aiokafkapy.testing.schema_registry.keys: names, versions and refusals of keys."""

from __future__ import annotations

import pytest

from aiokafkapy.common import JsonObject, JsonValue
from aiokafkapy.testing.schema_registry.errors import RegistryRefusal
from aiokafkapy.testing.schema_registry.keys import KeyStore

KEK: JsonObject = {"name": "kek", "kmsType": "local-kms", "kmsKeyId": "id"}


def store() -> KeyStore:
    made = KeyStore(lambda: 12.5)
    made.create_kek(KEK)
    return made


def test_a_key_is_registered_once_and_the_same_again_is_the_same() -> None:
    keys = store()
    assert keys.create_kek(KEK) == keys.kek("kek")
    assert keys.kek("kek")["ts"] == 12_500
    assert keys.names() == ["kek"]
    with pytest.raises(RegistryRefusal, match="already exists") as caught:
        keys.create_kek(KEK | {"kmsKeyId": "another"})
    assert caught.value.status == 409


@pytest.mark.parametrize("body", [None, {}, {"name": "kek"}, KEK | {"kmsType": 5}])
def test_a_key_needs_its_names(body: JsonValue) -> None:
    with pytest.raises(RegistryRefusal, match="Invalid key") as caught:
        KeyStore(lambda: 0.0).create_kek(body)
    assert caught.value.status == 422


def test_data_keys_have_versions_by_subject_and_algorithm() -> None:
    keys = store()
    first = keys.create_dek("kek", "s", {"encryptedKeyMaterial": "AA=="})
    second = keys.create_dek("kek", "s", {"version": 2})
    keys.create_dek("kek", "s", {"algorithm": "AES256_SIV"})
    assert keys.dek("kek", "s", "1", "AES256_GCM") is first
    assert keys.dek("kek", "s", "-1", "") is second
    with pytest.raises(RegistryRefusal, match="already exists"):
        keys.create_dek("kek", "s", {"version": 2})
    for kek, version, algorithm in (("kek", "3", "AES256_GCM"), ("kek", "2", "AES256_SIV"), ("no", "1", "AES256_GCM")):
        with pytest.raises(RegistryRefusal, match="not found") as caught:
            keys.dek(kek, "s", version, algorithm)
        assert caught.value.status == 404
    wrongs: tuple[JsonObject, ...] = ({"algorithm": "ROT13"}, {"version": 0}, {"version": "1"})
    for wrong in wrongs:
        with pytest.raises(RegistryRefusal, match="Invalid key"):
            keys.create_dek("kek", "s", wrong)
