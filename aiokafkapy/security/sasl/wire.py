"""The common parts of several mechanisms: the most bytes that a broker reads, RFC 5802's names, a failure's words.

Knows no mechanism and no state.
"""

from __future__ import annotations

from typing import Final

from ...errors import SaslAuthenticationFailedError

__all__ = ["MAX_RECEIVE_BYTES", "SASLNAME", "decode_saslname", "encode_saslname", "failed"]

MAX_RECEIVE_BYTES: Final = 524_288
"""Kafka's default of ``sasl.server.max.receive.size``: a broker closes the connection on more, without a word."""

SASLNAME: Final = rb"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
"""RFC 5802's ``saslname``, of ASCII, as Kafka's: every ``=`` and every comma is escaped."""


def encode_saslname(name: str) -> bytes:
    """The name as it is sent; a lone surrogate stays as it was given, for the reason in ``password_bytes``."""
    return name.replace("=", "=3D").replace(",", "=2C").encode(errors="surrogatepass")


def decode_saslname(saslname: bytes) -> str:
    """The name in bytes that match ``SASLNAME``."""
    return saslname.replace(b"=2C", b",").replace(b"=3D", b"=").decode("ascii")


def failed(what: str) -> SaslAuthenticationFailedError:
    """The client's error for something that the broker did."""
    return SaslAuthenticationFailedError(f"the broker {what}")
