"""The meaning of a failed TLS handshake, and its remedy.

Owns the table from OpenSSL's codes, reasons and alerts to words. Knows nothing of contexts and connections. Kafka's
counterpart is the handling of an ``SSLException`` in ``SslTransportLayer``; Java leaves the words to the JVM.

Rules: an error that trying again cannot cure is an SslAuthenticationFailedError, and one that may pass is not: a
connection that ended in the handshake is the sign of TLS spoken to a plaintext port, but also of a broker that went
down, so the caller finds out which of them it is. Each message has OpenSSL's own words, to be searched for.
"""

from __future__ import annotations

import ssl
from typing import Final

from ..common import format_address
from ..errors import KafkaConnectionError, KafkaError, SslAuthenticationFailedError

__all__ = ["explain_failure", "is_silent_end"]


def is_silent_end(error: BaseException) -> bool:
    """True when the other side only closed the connection, which may have many reasons."""
    return isinstance(error, _ENDINGS) or getattr(error, "reason", None) == "UNEXPECTED_EOF_WHILE_READING"


def explain_failure(error: BaseException, host: str, port: int, *, is_plaintext: bool = False) -> KafkaError:
    """Our error for ``error``, which ended a TLS handshake with ``host`` and becomes its cause.

    ``is_plaintext``: a listener without TLS was found there.
    """
    if isinstance(error, KafkaError):
        return error
    words, is_final = _meaning(error, host, is_plaintext=is_plaintext)
    kind = SslAuthenticationFailedError if is_final else KafkaConnectionError
    explained = kind(f"TLS handshake with {format_address(host, port)} failed: {words}")
    explained.__cause__ = error
    return explained


def _meaning(error: BaseException, host: str, *, is_plaintext: bool) -> tuple[str, bool]:
    """The words for an error, and whether it is final."""
    said = str(getattr(error, "verify_message", "") or getattr(error, "reason", "") or error) or type(error).__name__
    if isinstance(error, ssl.SSLCertVerificationError):
        words = _CERTIFICATES.get(error.verify_code, "the certificate was refused")
        return f"{words.format(host=host)} ({said.rstrip('.')})", True
    if is_silent_end(error):
        # Before SSLError, the base class of SSLEOFError.
        return f"{_NOT_TLS if is_plaintext else _WENT_AWAY} ({said})", is_plaintext
    if isinstance(error, ssl.SSLError):
        # TLSV1_ALERT_UNKNOWN_CA is the peer's alert; other reasons are of this side.
        _, is_alert, name = f"{error.reason}".rpartition("ALERT_")
        table, default = (_ALERTS, _OTHER_ALERT) if is_alert else (_REASONS, _OTHER_REASON)
        words = table.get(name, default)
        return f"{words.format(host=host)} ({said})", name not in _PASSING
    if isinstance(error, TimeoutError | ConnectionAbortedError):
        return f"the other side did not take part in time; is this the port of a TLS listener? ({said})", False
    if isinstance(error, ValueError):  # a name that no certificate can have
        return f"{host!r} is not a name that TLS takes: {said}", True
    return said, False


_PLAINTEXT: Final = (
    "write the port of a TLS listener, or security_protocol='PLAINTEXT' (with SASL: 'SASL_PLAINTEXT') for this one"
)
_WENT_AWAY: Final = (
    "the connection was closed before TLS was set up, as by a broker that starts or stops, a proxy without one, and "
    "some that want a certificate of ours or refuse it (ssl_keystore_location)"
)

# asyncio and uvloop raise ConnectionResetError where the peer ends, ssl itself SSLEOFError; IncompleteReadError is an
# EOFError. ConnectionAbortedError is not among them: both raise it when a handshake takes too long.
_ENDINGS: Final = (ssl.SSLEOFError, ssl.SSLZeroReturnError, ConnectionResetError, BrokenPipeError, EOFError)

_UNKNOWN_CA: Final = (
    "the certificate is of a CA that is not trusted here: write that CA's certificate as ssl_truststore_location=<PEM "
    "file> or ssl_truststore_certificates=<PEM text>"
)
_WRONG_HOST: Final = (
    "the certificate is not for {host!r}: use a name that it has, in bootstrap_servers and in the broker's "
    "advertised.listeners, or issue it with this one; ssl_endpoint_identification_algorithm='' checks no names"
)
_USAGE: Final = "the certificate is not for this use: its key usage or its CA's does not allow it; have it issued anew"
_WEAK: Final = "the certificate's key or signature is too weak for OpenSSL: have it issued with a stronger one"

# OpenSSL's X509_V_ERR_…: the peer's certificate was refused on this side.
_CERTIFICATES: Final = {
    2: _UNKNOWN_CA,
    3: "there is no revocation list of the certificate's CA: add it to ssl_crl_location",
    7: "the certificate's signature is wrong: a CA of the same name, but with another key, is trusted here",
    9: "the certificate is not valid yet: compare its dates with this machine's clock",
    10: "the certificate has expired: have it renewed, or correct this machine's clock",
    11: "the revocation list of the certificate's CA is not valid yet: compare its dates with this machine's clock",
    12: "the revocation list of the certificate's CA is out of date: put a new one at ssl_crl_location",
    18: "the certificate is signed by itself and not trusted here: write it, or a CA's, as ssl_truststore_location",
    19: _UNKNOWN_CA,
    20: _UNKNOWN_CA,
    21: _UNKNOWN_CA,
    23: "the certificate was revoked by its CA: have a new one issued",
    24: _USAGE,
    26: _USAGE,
    62: _WRONG_HOST,
    64: _WRONG_HOST,
    66: _WEAK,
    67: _WEAK,
    68: _WEAK,
    79: _USAGE,
}

_OURS: Final = "the other side refused our certificate: "
_NO_VERSION: Final = (
    "the two sides have no version of TLS in common: compare ssl_enabled_protocols with the broker's own "
    "ssl.enabled.protocols"
)
_NO_SUITE: Final = (
    "the two sides have no cipher suite in common: compare ssl_cipher_suites with the broker's own, and the kinds of "
    "their keys"
)
_NOT_TLS: Final = "the other side does not speak TLS: " + _PLAINTEXT

# The peer's finding, by the name of its alert: RFC 8446, 6.2. Java's brokers send BAD_CERTIFICATE for a missing
# certificate, and CERTIFICATE_UNKNOWN for a faulty one.
_ALERTS: Final = {
    "CERTIFICATE_REQUIRED": "the other side wants a certificate of ours and got none: write ssl_keystore_location=<PEM "
    "file of chain and key>",
    "BAD_CERTIFICATE": _OURS + "there was none, or it is not right; write ssl_keystore_location=<PEM file of chain and "
    "key>, of a CA that the broker trusts",
    "CERTIFICATE_UNKNOWN": _OURS + "it has expired or is not of a CA that the broker trusts, or there was none; the "
    "broker's log says which. See ssl_keystore_location",
    "UNKNOWN_CA": _OURS + "it is not of a CA that the broker trusts; see ssl_keystore_location",
    "CERTIFICATE_EXPIRED": _OURS + "it has expired; have the one at ssl_keystore_location renewed",
    "CERTIFICATE_REVOKED": _OURS + "it was revoked; put a new one at ssl_keystore_location",
    "UNSUPPORTED_CERTIFICATE": _OURS + "it is not for clients; see ssl_keystore_location",
    "ACCESS_DENIED": _OURS + "it gives no access",
    "HANDSHAKE_FAILURE": "the other side accepts no version of TLS, no cipher suite or no certificate of ours: compare "
    "ssl_enabled_protocols and ssl_cipher_suites with the broker's, and see whether it wants ssl_keystore_location",
    "PROTOCOL_VERSION": _NO_VERSION,
    "INSUFFICIENT_SECURITY": _NO_SUITE,
    "INTERNAL_ERROR": "the other side had an internal error; its log says why",
    "BAD_RECORD_MAC": "bytes were changed on their way",
    "UNEXPECTED_MESSAGE": "the other side did not understand us",
}

# OpenSSL's finding on this side.
_REASONS: Final = {
    "WRONG_VERSION_NUMBER": _NOT_TLS,
    "UNKNOWN_PROTOCOL": _NOT_TLS,
    "HTTP_REQUEST": _NOT_TLS,
    "HTTPS_PROXY_REQUEST": _NOT_TLS,
    "RECORD_LAYER_FAILURE": _NOT_TLS,
    "PACKET_LENGTH_TOO_LONG": _NOT_TLS,
    "UNSUPPORTED_PROTOCOL": _NO_VERSION,
    "UNSUPPORTED_SSL_VERSION": _NO_VERSION,
    "WRONG_SSL_VERSION": _NO_VERSION,
    "NO_PROTOCOLS_AVAILABLE": _NO_VERSION,
    "VERSION_TOO_HIGH": _NO_VERSION,
    "VERSION_TOO_LOW": _NO_VERSION,
    "NO_CIPHERS_AVAILABLE": _NO_SUITE,
    "NO_SHARED_CIPHER": _NO_SUITE,
    "NO_SHARED_GROUPS": _NO_SUITE,
    "NO_SUITABLE_KEY_SHARE": _NO_SUITE,
    "NO_SUITABLE_SIGNATURE_ALGORITHM": _NO_SUITE,
    "NO_SHARED_SIGNATURE_ALGORITHMS": _NO_SUITE,
    "CA_KEY_TOO_SMALL": _WEAK,
    "CA_MD_TOO_WEAK": _WEAK,
    "DH_KEY_TOO_SMALL": _WEAK,
    "EE_KEY_TOO_SMALL": _WEAK,
    # alerts without the word "alert"
    "TLSV1_UNRECOGNIZED_NAME": "the other side does not go by the name {host!r}: use one that it has",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the other side gave no certificate, and one is required",
    "DECRYPTION_FAILED_OR_BAD_RECORD_MAC": "bytes were changed on their way",
}
_OTHER_ALERT: Final = "the other side ended it with an alert"
_OTHER_REASON: Final = "this side ended it"
# Alerts and reasons that the next attempt may not see.
_PASSING: Final = frozenset(
    {"BAD_RECORD_MAC", "DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "INTERNAL_ERROR", "USER_CANCELLED"}
)
