"""The names that mark an option or a field as a secret, so that its value is never shown.

Owns the list of words; knows no values. Java's counterpart is ``ConfigDef.Type.PASSWORD``, which an option declares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..common import HIDDEN

__all__ = ["is_secret_name", "without_secrets"]

_SECRET_WORDS: Final = (
    "password",
    "secret",
    "token",
    "jaas",
    "credential",
    "private_key",
    "keystore_key",
    "proxy_url",
    "authorization",
    "oauthbearer_extensions",  # fields that the user's identity provider requires
)


def is_secret_name(name: str) -> bool:
    """True for the name of an option or field whose value must not be shown, in our spelling or Kafka's."""
    lowered = name.lower().replace(".", "_")
    return any(word in lowered for word in _SECRET_WORDS)


def without_secrets(fields: Mapping[str, object]) -> dict[str, object]:
    """The fields, with the values of secrets hidden."""
    return {name: HIDDEN if is_secret_name(name) else value for name, value in fields.items()}
