"""Options of TLS as a configuration has them, and handshakes between two contexts without a network."""

from __future__ import annotations

import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from aiokafkapy.security.tls import ClientAuth, TlsContexts


@dataclass(frozen=True)
class Options:
    """``TlsSettings`` with Kafka's defaults."""

    security_protocol: str = "SSL"
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_keystore_location: str | None = None
    ssl_key_location: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_keystore_key: str | None = None
    ssl_key_password: str | None = None
    ssl_endpoint_identification_algorithm: str = "https"
    ssl_enabled_protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Sequence[str] | None = None
    ssl_crl_location: str | None = None
    ssl_context: Any = None
    ssl_truststore_type: str | None = None
    ssl_keystore_type: str | None = None


class Handshake:
    """One between two contexts, in memory; ``client_error`` and ``server_error`` have its errors, if any."""

    def __init__(self, client: ssl.SSLContext, server: ssl.SSLContext, host: str = "localhost") -> None:
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        self.client = client.wrap_bio(to_client, to_server, server_hostname=host)
        self.server = server.wrap_bio(to_server, to_client, server_side=True)
        self.client_error = self.server_error = None
        for _ in range(5):
            self.client_error = self.client_error or _advance(self.client)
            self.server_error = self.server_error or _advance(self.server)
        # In TLS 1.3 a client is done before the server has seen its certificate, and hears of a refusal when it reads.
        self.client_error = self.client_error or _read(self.client)

    @property
    def has_worked(self) -> bool:
        return self.client_error is None and self.server_error is None

    @property
    def clients_subject(self) -> dict[str, str]:
        """The server's knowledge of the client."""
        certificate: dict[str, Any] = self.server.getpeercert() or {}
        return {name: value for ((name, value),) in certificate.get("subject", ())}

    @property
    def servers_serial(self) -> str:
        """The certificate that the server showed."""
        return str((self.client.getpeercert() or {})["serialNumber"])


def server_context(options: Options, client_auth: ClientAuth = "none") -> ssl.SSLContext:
    return TlsContexts(options, server_side=True, client_auth=client_auth).context()


def client_context(options: Options) -> ssl.SSLContext:
    return TlsContexts(options).context()


def _advance(side: ssl.SSLObject) -> ssl.SSLError | None:
    try:
        side.do_handshake()
    except ssl.SSLWantReadError:
        pass
    except ssl.SSLError as error:
        return error
    return None


def _read(side: ssl.SSLObject) -> ssl.SSLError | None:
    try:
        side.read(1)
    except ssl.SSLWantReadError:
        pass
    except ssl.SSLError as error:
        return error
    return None
