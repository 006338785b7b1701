"""Makes a connection: tries a name's addresses in turn, and does the TLS handshake where one is wanted.

Owns the walk over the addresses, and what a handshake that failed is called. Knows neither time-outs (the network
client cancels an attempt that takes too long) nor back-off; sockets are opened by a ``Dialer``. Kafka's counterpart is
``SslTransportLayer``, as far as the handshake goes.

Rules:

- An attempt goes on to the next address at once when one refuses; an attempt that is cut by its time-out is continued
  at the next address by the next attempt. Used up, the name is resolved again.
- A connection with TLS is one whose handshake is done. A refused certificate ends the attempt with an error of its own,
  which trying again does not cure.
- A listener that closes without a word is asked in the other language, once: see ``listener_probe``.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from ...errors import AuthenticationFailedError, KafkaConnectionError, SslAuthenticationFailedError
from ...security.handshake_errors import explain_failure, is_silent_end
from ...security.tls import TlsContexts
from ..config import ClientConfig
from ..nodes.connection_states import Address, NodeConnectionState, format_address
from .dialers import new_dialer
from .listener_probe import speaks_plaintext, speaks_tls

__all__ = ["Connector", "ConnectorProtocol"]

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
    """Makes the connections of one client."""

    def __init__(self, config: ClientConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._dialer = new_dialer(config, loop)
        self._tls = config.new_tls_contexts()

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
        label = format_address(host, port)
        try:
            return await self._dialer.addresses(host, port)
        except (OSError, UnicodeError) as error:  # UnicodeError: a label of the name is longer than DNS allows
            on_address_failure(label, error)
            raise KafkaConnectionError(f"cannot resolve {label}: {error}") from error
        except asyncio.CancelledError:
            on_address_failure(label, TimeoutError("the name was not resolved in time"))
            raise

    async def _connect_to(
        self, address: Address, state: NodeConnectionState, protocol_factory: Callable[[], asyncio.Protocol]
    ) -> None:
        if state.was_closed_unanswered and self._tls is None:
            state.was_closed_unanswered, state.is_listener_known = False, True
            if await speaks_tls(self._loop, self._dialer, address):
                raise SslAuthenticationFailedError(_SPEAKS_TLS.format(format_address(state.host, state.port)))
        state.peer_name = await self._dialer.peer_name(state.host, address)
        sock = await self._dialer.open(address)
        try:
            if self._tls is None:
                await self._loop.create_connection(protocol_factory, sock=sock)
            else:
                await self._add_tls(self._tls, sock, state, protocol_factory)
        except OSError as error:
            sock.close()
            if self._tls is None:
                raise
            is_plaintext = is_silent_end(error) and await speaks_plaintext(self._loop, self._dialer, address)
            raise explain_failure(error, state.peer_name, state.port, is_plaintext=is_plaintext) from error
        except BaseException:
            sock.close()
            raise

    async def _add_tls(
        self,
        tls: TlsContexts,
        sock: socket.socket,
        state: NodeConnectionState,
        protocol_factory: Callable[[], asyncio.Protocol],
    ) -> None:
        # In a thread: reading a system's hundred authorities takes tens of milliseconds.
        context = await self._loop.run_in_executor(None, tls.context)
        await self._loop.create_connection(
            protocol_factory,
            sock=sock,
            ssl=context,
            server_hostname=state.peer_name,
            # The set-up time-out bounds the whole attempt; this one only must not come before it.
            ssl_handshake_timeout=max(1.0, state.setup_timeout),
            ssl_shutdown_timeout=_TLS_SHUTDOWN_TIMEOUT,
        )


def _label(state: NodeConnectionState, address: str) -> str:
    """The configured name, with the address it stood for when that is another."""
    name = format_address(state.host, state.port)
    return name if name == address else f"{name} ({address})"
