"""Ciphers of field-level encryption: AES-GCM and AES-SIV, in the form of Tink's keys and ciphertexts.

Owns key material, ciphertexts and their versions. Pure bytes, over ``cryptography``. Confluent's counterpart is
``Cryptor`` over Tink, with the same form as its RAW output: AES-GCM is a nonce of 12 bytes, the text, a tag of 16;
AES-SIV (RFC 5297, deterministic, so that equal texts stay equal) is the tag of 16 and the text, with empty associated
data.

Rules: key material is Tink's message of the key (field 3 of ``AesGcmKey``, 2 of ``AesSivKey``); a nonce is random and
never a parameter; a ciphertext or a key that does not fit is a ValueError that shows neither.
"""

from __future__ import annotations

import os
from typing import Final

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, AESSIV
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "field-level encryption needs cryptography: pip install 'aiokafkapy[schema-rules]'", name=missing.name
    ) from missing

__all__ = ["ALGORITHMS", "Cipher", "derived_key", "gcm_decrypt", "gcm_encrypt", "version_of", "with_version"]

_NONCE: Final = 12
_KEY_BYTES: Final = {"AES128_GCM": 16, "AES256_GCM": 32, "AES256_SIV": 64}
ALGORITHMS: Final = tuple(_KEY_BYTES)

_VERSION_PREFIX: Final = 5


class Cipher:
    """One algorithm with one data encryption key, given as Tink's message of it."""

    def __init__(self, algorithm: str, material: bytes) -> None:
        number = 2 if algorithm == "AES256_SIV" else 3
        self._key = _key_of(material, number, _KEY_BYTES[algorithm])
        self._is_deterministic = algorithm == "AES256_SIV"

    @staticmethod
    def new_key(algorithm: str) -> bytes:
        """Material of a new key."""
        size = _KEY_BYTES[algorithm]
        number = 2 if algorithm == "AES256_SIV" else 3
        return bytes((number << 3 | 2, size)) + os.urandom(size)

    def encrypt(self, plain: bytes) -> bytes:
        """The ciphertext of a text."""
        if self._is_deterministic:
            return AESSIV(self._key).encrypt(plain, [b""])
        return gcm_encrypt(self._key, plain)

    def decrypt(self, ciphertext: bytes) -> bytes:
        """The text. Raises ValueError."""
        if not self._is_deterministic:
            return gcm_decrypt(self._key, ciphertext)
        try:
            return AESSIV(self._key).decrypt(ciphertext, [b""])
        except InvalidTag:
            raise ValueError("the ciphertext is not of this key") from None


def gcm_encrypt(key: bytes, plain: bytes) -> bytes:
    """Nonce, text and tag."""
    nonce = os.urandom(_NONCE)
    return nonce + AESGCM(key).encrypt(nonce, plain, None)


def gcm_decrypt(key: bytes, ciphertext: bytes) -> bytes:
    """The text. Raises ValueError."""
    if len(ciphertext) < _NONCE + 16:
        raise ValueError(f"a ciphertext has {len(ciphertext)} bytes, at least {_NONCE + 16} are needed")
    try:
        return AESGCM(key).decrypt(ciphertext[:_NONCE], ciphertext[_NONCE:], None)
    except InvalidTag:
        raise ValueError("the ciphertext is not of this key") from None


def derived_key(secret: str) -> bytes:
    """The key of Confluent's local key management: HKDF-SHA256 without salt, 16 bytes."""
    return HKDF(SHA256(), 16, None, b"").derive(secret.encode())


def with_version(version: int, ciphertext: bytes) -> bytes:
    """A ciphertext that names the version of its key."""
    return b"\x00" + version.to_bytes(4, "big") + ciphertext


def version_of(ciphertext: bytes) -> tuple[int, bytes]:
    """The version of the key, and the ciphertext. Raises ValueError."""
    if len(ciphertext) < _VERSION_PREFIX or ciphertext[0]:
        raise ValueError("the ciphertext does not say the version of its key")
    return int.from_bytes(ciphertext[1:_VERSION_PREFIX], "big"), ciphertext[_VERSION_PREFIX:]


# internals


def _key_of(material: bytes, number: int, size: int) -> bytes:
    """The key in Tink's message: version (field 1, a varint, unless it is 0) and key."""
    at = 0
    while at < len(material):
        tag = material[at]
        if tag == 0x08:  # the version, below 128
            at += 2
        elif tag == (number << 3 | 2) and at + 1 < len(material):
            length = material[at + 1]
            key = material[at + 2 : at + 2 + length]
            if len(key) == size == length:
                return key
            break
        else:
            break
    raise ValueError(f"the key material has {len(material)} bytes and no key of {size}")
