"""TLS of the servers for tests: of a proxy, on each of its two sides, and of a replay.

Owns the contexts made of options, and the handshake of one connection, which ``TlsTransport`` carries out. It knows
neither frames nor recordings. asyncio's own TLS would suffice, but uvloop's handshakes cannot be given up.

Rule: after a handshake that failed, or was given up, its connection is never made, and its socket is not used.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from ..broker.server_tls import check_tls_names, server_tls
from ..client.config import ClientConfig
from ..security.tls import TlsContexts
from ..security.tls_transport import TlsTransport

if TYPE_CHECKING:
    from .certificates import TestCertificates

__all__ = ["Given", "Handshake", "ServerTls", "cluster_contexts"]

HANDSHAKE_TIMEOUT: Final = 10.0

Given: TypeAlias = bool | Mapping[str, Any]
"""The TLS of a server; True: with its own certificate, else by these TLS options of a broker."""


class ServerTls:
    """The TLS that a server for tests shows to its clients, if any.

    With True it has ``certificates``, a throw-away CA and a server's certificate for loopback, while it exists.
    """

    def __init__(self, given: Given) -> None:
        """Raises ConfigurationError for unusable options and files."""
        self.certificates: TestCertificates | None = None
        self.contexts: TlsContexts | None = None
        if given is True:
            from .certificates import TestCertificates  # only this needs trustme

            self.certificates = TestCertificates()
            self.contexts = server_tls({"ssl_keystore_location": str(self.certificates.server_file)})
        elif given is not False:
            self.contexts = server_tls({name: value for name, value in given.items() if name != "security_protocol"})

    def handshake(self, connection: asyncio.Protocol) -> Handshake | None:
        """The handshake of a new client's connection; None without TLS."""
        return None if self.contexts is None else Handshake(self.contexts, connection)


class Handshake:
    """The handshake of one connection; with the peer's ``host`` it is the client's half, else the server's."""

    def __init__(self, contexts: TlsContexts, connection: asyncio.Protocol, host: str | None = None) -> None:
        """The ``connection`` is made after the handshake. Raises ConfigurationError, SSLError and ValueError."""
        self._done: asyncio.Future[OSError | None] = asyncio.get_running_loop().create_future()
        self._transport = TlsTransport(contexts.context(), connection, HANDSHAKE_TIMEOUT, self._on_done, host)

    @property
    def protocol(self) -> asyncio.Protocol:
        """The protocol of the socket's transport."""
        return self._transport.protocol

    async def wait(self) -> None:
        """Return when it is done; raises OSError, SSLError included, if it fails."""
        try:
            error = await asyncio.shield(self._done)
        except asyncio.CancelledError:
            self.abort()
            raise
        if error is not None:
            raise error

    def abort(self) -> None:
        """Give it up, or end the connection at once."""
        self._transport.abort()
        self._on_done(ConnectionAbortedError("the handshake was given up"))

    @property
    def future(self) -> asyncio.Future[OSError | None]:
        """A future that is done with the handshake, with its error, if any."""
        return self._done

    # asyncio callbacks

    def _on_done(self, error: OSError | None) -> None:
        if not self._done.done():
            self._done.set_result(error)


def cluster_contexts(options: Mapping[str, Any]) -> TlsContexts:
    """The contexts for handshakes with a cluster, from a client's TLS options. Raises ConfigurationError."""
    check_tls_names(name for name in options if name != "security_protocol")
    # The proxy knows the brokers' addresses, but a configuration needs some.
    config = ClientConfig(**{"bootstrap_servers": "localhost:9092", **options, "security_protocol": "SSL"})
    contexts = config.new_tls_contexts()
    assert contexts is not None  # its protocol is SSL
    return contexts
