"""Opens a connection: resolves the name, tries its addresses in turn, sets the socket's options.

Owns name resolution and socket options. Knows neither time-outs (the network client cancels an attempt that takes too
long) nor back-off. Kafka's counterparts are ``ClientUtils.resolve`` and ``Selector.connect``.

Rules:

- An attempt goes on to the next address at once when one refuses; an attempt that is cut by its time-out is continued
  at the next address by the next attempt. Used up, the name is resolved again.
- A cancelled or failed attempt leaves no socket.
- A numeric address never visits the resolver's threads.
- A connection with TLS is one whose handshake is done. What went wrong in it is said in words, and is no mere failure
  to connect when the other side was refused.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Protocol

from ...errors import AuthenticationFailedError, KafkaConnectionError, SslAuthenticationFailedError
from ...security.handshake_errors import explain_failure, is_silent_end
from ...security.tls import TlsContexts
from ..config import ClientConfig
from ..nodes.connection_states import Address, NodeConnectionState, format_address
from .listener_probe import speaks_plaintext, speaks_tls

__all__ = ["Connector", "ConnectorProtocol"]

_TCP_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only
# Half of what cloud load balancers take for an idle connection's end, and of our own connections_max_idle_ms.
_KEEPALIVE_IDLE_SECONDS: Final = 60
_KEEPALIVE_INTERVAL_SECONDS: Final = 15
_KEEPALIVE_PROBES: Final = 4
_TLS_SHUTDOWN_TIMEOUT: Final = 1.0
"""Seconds that a peer has to answer the end of the TLS session; connections are aborted, so it hardly ever matters."""

_SPEAKS_TLS: Final = (
    "the listener at {} speaks TLS: write security_protocol='SSL', or 'SASL_SSL' where it asks for credentials"
)

AddressFailure = Callable[[str, BaseException], None]


class ConnectorProtocol(Protocol):
    """What the network client needs of a connector; tests put a fake one here."""

    async def connect(
        self,
        state: NodeConnectionState,
        protocol_factory: Callable[[str], asyncio.Protocol],
        on_address_failure: AddressFailure,
    ) -> None:
        """Connect to the next address that accepts; raises KafkaConnectionError when none is left."""


class Connector:
    """Opens TCP connections with the configured socket options, and does the TLS handshake where one is wanted."""

    def __init__(self, config: ClientConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tls = config.new_tls_contexts()
        self._send_buffer = config.send_buffer_bytes
        self._receive_buffer = config.receive_buffer_bytes
        self._user_timeout_ms = config.tcp_user_timeout_ms

    async def connect(
        self,
        state: NodeConnectionState,
        protocol_factory: Callable[[str], asyncio.Protocol],
        on_address_failure: AddressFailure,
    ) -> None:
        """Connect to the next address of ``state`` that accepts.

        ``protocol_factory(label)`` makes the protocol once a socket is connected. Each address that fails is told to
        ``on_address_failure``, also the one that is being tried when the attempt is cancelled. Raises
        KafkaConnectionError when the round is over or the name cannot be resolved.
        """
        if state.needs_resolution:
            state.set_addresses(await self._resolve(state.host, state.port, on_address_failure))
        last_error: BaseException | None = None
        while (address := state.next_address()) is not None:
            text = format_address(*address[1][:2])
            try:
                await self._connect_to(address, state, partial(protocol_factory, _label(state, text)))
                return
            except OSError as error:  # a KafkaConnectionError is one
                # A refused certificate says more than the next address that does not answer.
                last_error = last_error if isinstance(last_error, AuthenticationFailedError) else error
                on_address_failure(_label(state, text), error)
            except asyncio.CancelledError:
                on_address_failure(_label(state, text), TimeoutError("the connection was not set up in time"))
                raise
        if isinstance(last_error, AuthenticationFailedError):
            raise last_error
        raise KafkaConnectionError(f"cannot connect to {format_address(state.host, state.port)}: {last_error}")

    # internals

    async def _resolve(self, host: str, port: int, on_address_failure: AddressFailure) -> list[Address]:
        numeric = _numeric_address(host, port)
        if numeric is not None:
            return [numeric]
        label = format_address(host, port)
        try:
            found = await self._loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label of the name is longer than DNS allows
            on_address_failure(label, error)
            raise KafkaConnectionError(f"cannot resolve {label}: {error}") from error
        except asyncio.CancelledError:
            on_address_failure(label, TimeoutError("the name was not resolved in time"))
            raise
        # dict: some resolvers give an address twice, and trying it twice is of no use
        return list(dict.fromkeys((family, address) for family, _, _, _, address in found))  # type: ignore[misc]

    async def _connect_to(
        self, address: Address, state: NodeConnectionState, protocol_factory: Callable[[], asyncio.Protocol]
    ) -> None:
        family, socket_address = address
        if state.was_closed_unanswered and self._tls is None:
            state.was_closed_unanswered = False
            if await speaks_tls(self._loop, address):
                raise SslAuthenticationFailedError(_SPEAKS_TLS.format(format_address(state.host, state.port)))
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            self._set_options(sock)
            await self._sock_connect(sock, socket_address)
            if self._tls is None:
                await self._loop.create_connection(protocol_factory, sock=sock)
            else:
                await self._connect_with_tls(self._tls, sock, address, state, protocol_factory)
        except BaseException:
            sock.close()
            raise

    async def _connect_with_tls(
        self,
        tls: TlsContexts,
        sock: socket.socket,
        address: Address,
        state: NodeConnectionState,
        protocol_factory: Callable[[], asyncio.Protocol],
    ) -> None:
        # In a thread: reading a system's hundred authorities takes tens of milliseconds.
        context = await self._loop.run_in_executor(None, tls.context)
        try:
            await self._loop.create_connection(
                protocol_factory,
                sock=sock,
                ssl=context,
                server_hostname=state.host,
                # The set-up time-out bounds the whole attempt; this one only must not come before it.
                ssl_handshake_timeout=max(1.0, state.setup_timeout),
                ssl_shutdown_timeout=_TLS_SHUTDOWN_TIMEOUT,
            )
        except OSError as error:  # ssl.SSLError is one
            sock.close()
            is_plaintext = is_silent_end(error) and await speaks_plaintext(self._loop, address)
            raise explain_failure(error, state.host, state.port, is_plaintext=is_plaintext) from error

    async def _sock_connect(self, sock: socket.socket, address: Any) -> None:
        try:
            await self._loop.sock_connect(sock, address)
        except OSError as error:
            if error.errno is None or error.errno <= 0:
                raise
            # asyncio says "Connect call failed" of all of them; the system knows better.
            raise OSError(error.errno, os.strerror(error.errno)) from error

    def _set_options(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # Named options: not every platform has them, and keepalive is then the platform's.
        for name, value in (
            ("TCP_KEEPIDLE", _KEEPALIVE_IDLE_SECONDS),
            ("TCP_KEEPINTVL", _KEEPALIVE_INTERVAL_SECONDS),
            ("TCP_KEEPCNT", _KEEPALIVE_PROBES),
        ):
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if self._user_timeout_ms is not None and _TCP_USER_TIMEOUT is not None:
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_USER_TIMEOUT, self._user_timeout_ms)
        # Before connecting: the window scale is agreed on in the handshake.
        if self._send_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        if self._receive_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)


def _label(state: NodeConnectionState, address: str) -> str:
    """The configured name, with the address it stood for when that is another."""
    name = format_address(state.host, state.port)
    return name if name == address else f"{name} ({address})"


def _numeric_address(host: str, port: int) -> Address | None:
    for family, pack in ((socket.AF_INET, (host, port)), (socket.AF_INET6, (host, port, 0, 0))):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family, pack
    return None
