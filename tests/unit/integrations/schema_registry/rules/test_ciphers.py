"""aiokafkapy.integrations.schema_registry.rules.ciphers: keys and ciphertexts, as Tink writes them."""

from __future__ import annotations

import pytest

from aiokafkapy.integrations.schema_registry.rules.ciphers import (
    ALGORITHMS,
    Cipher,
    derived_key,
    gcm_decrypt,
    gcm_encrypt,
    version_of,
    with_version,
)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("text", [b"", b"a", b"hello" * 1000])
def test_encrypted_data_is_decrypted_and_altered_data_is_not(algorithm: str, text: bytes) -> None:
    cipher = Cipher(algorithm, Cipher.new_key(algorithm))
    written = cipher.encrypt(text)
    assert cipher.decrypt(written) == text
    assert (cipher.encrypt(text) == written) is (algorithm == "AES256_SIV")
    for place in range(0, len(written), 7):
        touched = bytearray(written)
        touched[place] ^= 1
        with pytest.raises(ValueError, match="not of this key"):
            cipher.decrypt(bytes(touched))
    with pytest.raises(ValueError):
        Cipher(algorithm, Cipher.new_key(algorithm)).decrypt(written[:5])


def test_keys_are_tinks_messages_with_and_without_a_version() -> None:
    key = bytes(range(32))
    for prefix in (b"", b"\x08\x00"):
        assert Cipher("AES256_GCM", prefix + b"\x1a\x20" + key).encrypt(b"x")
    for wrong in (b"", b"\x1a", b"\x1a\x20" + key[:31], b"\x12\x20" + key, b"\x1a\x10" + key[:16], b"\xff"):
        with pytest.raises(ValueError, match="no key of 32"):
            Cipher("AES256_GCM", wrong)


def test_siv_is_rfc_5297s_with_one_empty_string_as_tink_has_it() -> None:
    # Written by tink 1.16, key 00..3f, text "hello", empty associated data.
    cipher = Cipher("AES256_SIV", b"\x12\x40" + bytes(range(64)))
    assert cipher.encrypt(b"hello").hex() == "4c796974c0dfa6582b0961c08ee00b524803219221"


def test_the_local_key_management_derives_confluents_key() -> None:
    # hkdf 0.0.3: hkdf_expand(hkdf_extract(None, b"mysecret", sha256), length=16, hash=sha256)
    assert derived_key("mysecret").hex() == "1ae4d97ac1e81594bfd1993c1a75ee36"
    assert gcm_decrypt(derived_key("a"), gcm_encrypt(derived_key("a"), b"key")) == b"key"


def test_a_version_stands_before_the_ciphertext() -> None:
    assert with_version(258, b"rest") == b"\x00\x00\x00\x01\x02rest"
    assert version_of(with_version(258, b"rest")) == (258, b"rest")
    for wrong in (b"", b"\x00\x00\x00\x01", b"\x01\x00\x00\x00\x01rest"):
        with pytest.raises(ValueError, match="version"):
            version_of(wrong)
