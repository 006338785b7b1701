"""The security protocols, and the parts of each.

Owns their names, which a client's options, a listener of the dev broker and one of a real cluster share. Kafka's
counterpart is ``SecurityProtocol``.
"""

from __future__ import annotations

from typing import Final

__all__ = ["SECURITY_PROTOCOLS", "has_sasl", "has_tls"]

SECURITY_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


def has_tls(protocol: str) -> bool:
    """True when connections are encrypted."""
    return protocol in ("SSL", "SASL_SSL")


def has_sasl(protocol: str) -> bool:
    """True when connections begin with credentials."""
    return protocol in ("SASL_PLAINTEXT", "SASL_SSL")
