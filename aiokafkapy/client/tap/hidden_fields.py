"""The fields of messages that are never shown: proofs of identity, and secret values of a configuration.

Owns the one rule that the tap, captures, recordings and replays follow. Pure.
"""

from __future__ import annotations

from ...observability import is_secret_name
from ...protocol.api import PROOF_FIELDS

__all__ = ["has_hidden_value", "is_hidden_field"]


def is_hidden_field(name: str) -> bool:
    """Whether a message's field of this name is a proof of identity, or another secret."""
    return name in PROOF_FIELDS or is_secret_name(name)


def has_hidden_value(message: object) -> bool:
    """Whether a message is a name and a value of a broker's or a topic's configuration, and the name says that the
    value is secret.
    """
    name = getattr(message, "name", None)
    return isinstance(name, str) and hasattr(message, "value") and is_secret_name(name)
