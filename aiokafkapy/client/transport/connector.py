"""Makes a connection: lets the addresses of a name race, and does the TLS handshake if one is wanted.

Owns the choice of addresses, and the errors of failed handshakes. Knows neither time-outs (the network
client cancels an attempt that takes too long) nor back-off; sockets are opened by a ``Dialer``. Kafka's counterpart is
``SslTransportLayer``, as far as the handshake goes.

Rules:

- An attempt goes on to the next address at once when one refuses, and after a quarter of a second when one is silent;
  the silent one stays in the race (``happy_eyeballs``). An attempt that is cut by its time-out is continued at the next
  address by the next attempt. When all addresses have been tried, the name is resolved again.
- TLS comes after the race. Where it fails, the addresses that were overtaken are tried too. Its context is there before
  the first socket: a user's function may take its time for it.
- A connection with TLS is one whose handshake is done. A refused certificate ends the attempt with an error of its own,
  which trying again does not cure.
- A listener that closes without a word is asked in the other language, once: see ``listener_probe``.
- That, and TLS, are imported where they are used: most connections need neither.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

from ...common import format_address
from ...errors import (
    AuthenticationFailedError,
    KafkaConnectionError,
    SaslAuthenticationFailedError,
    SslAuthenticationFailedError,
)
from ...security.handshake_errors import explain_failure, is_silent_end
from ...sockets import connections_of, hand_over
from ...worker_thread import run_in_thread
from ..nodes.connection_states import Address, NodeConnectionState
from .dialers import new_dialer
from .happy_eyeballs import Race

if TYPE_CHECKING:
    import ssl

    from ...security.tls import TlsContexts
    from ..config import ClientConfig

__all__ = ["Connector", "ConnectorProtocol"]

_SPEAKS_TLS: Final = (
    "the listener at {} speaks TLS: write security_protocol='SSL', or 'SASL_SSL' where it asks for credentials"
)

_WANTS_SASL: Final = (
    "the listener at {} wants credentials: write security_protocol={!r} and a sasl_mechanism that it has: {}"
)
_NOT_IN_TIME: Final = "the connection was not set up in time"

AddressFailure = Callable[[str, BaseException], None]


class ConnectorProtocol(Protocol):
    """A connector as the network client uses it; tests put a fake one here."""

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
        self._loop = connections_of(loop)
        self._dialer = new_dialer(config, self._loop)
        self._tls = config.new_tls_contexts()
        self._uses_sasl = config.uses_sasl

    async def connect(
        self,
        state: NodeConnectionState,
        protocol_factory: Callable[[str], asyncio.Protocol],
        on_address_failure: AddressFailure,
    ) -> None:
        """Connect to the next address of ``state`` that accepts.

        ``protocol_factory(label)`` makes the protocol once a socket is connected. Each failed address is passed to
        ``on_address_failure``, also the one that is being tried when the attempt is cancelled. Raises
        KafkaConnectionError when the round is over or the name cannot be resolved.
        """
        context = None if self._tls is None else await self._context(self._tls, state, on_address_failure)
        if state.needs_resolution:
            state.set_addresses(await self._resolve(state.host, state.port, on_address_failure))
        attempt = _Attempt(state, on_address_failure)
        while (connected := await self._race(attempt)) is not None:
            address, sock = connected
            try:
                await self._use(sock, address, state, context, partial(protocol_factory, attempt.label(address)))
                return
            except OSError as error:  # a KafkaConnectionError is one
                attempt.failed(address, error)
            except asyncio.CancelledError:
                attempt.failed(address, TimeoutError(_NOT_IN_TIME))
                raise
        if isinstance(attempt.error, AuthenticationFailedError):
            raise attempt.error
        raise KafkaConnectionError(f"cannot connect to {format_address(state.host, state.port)}: {attempt.error}")

    # internals

    async def _resolve(self, host: str, port: int, on_address_failure: AddressFailure) -> list[Address]:
        label = format_address(host, port)
        try:
            return await self._dialer.addresses(host, port)
        except (OSError, ValueError) as error:  # ValueError: a label is longer than DNS allows, or the name has a NUL
            on_address_failure(label, error)
            raise KafkaConnectionError(f"cannot resolve {label}: {error}") from error
        except asyncio.CancelledError:
            on_address_failure(label, TimeoutError("the name was not resolved in time"))
            raise

    async def _race(self, attempt: _Attempt) -> tuple[Address, socket.socket] | None:
        race = Race(self._dialer.open, attempt.next_address, attempt.failed)
        try:
            connected = await race.winner()
        except asyncio.CancelledError:
            for address in race.under_way:
                attempt.failed(address, TimeoutError(_NOT_IN_TIME))
            raise
        attempt.overtaken += race.under_way
        return connected

    async def _use(
        self,
        sock: socket.socket,
        address: Address,
        state: NodeConnectionState,
        context: ssl.SSLContext | None,
        protocol_factory: Callable[[], asyncio.Protocol],
    ) -> None:
        """Make a connected socket a connection; the socket is closed if that fails."""
        try:
            state.peer_name = await self._dialer.peer_name(state.host, address)
            await self._check_listener(address, state, context)
            if context is None:
                await hand_over(sock, self._loop.create_connection(protocol_factory, sock=sock))
            else:
                await self._add_tls(context, sock, state, protocol_factory)
        except OSError as error:
            sock.close()
            if context is None or isinstance(error, AuthenticationFailedError):
                raise
            from .listener_probe import speaks_plaintext

            is_plaintext = is_silent_end(error) and await speaks_plaintext(self._loop, self._dialer, address)
            raise explain_failure(error, state.peer_name, state.port, is_plaintext=is_plaintext) from error
        except BaseException:
            sock.close()
            raise

    async def _check_listener(
        self, address: Address, state: NodeConnectionState, context: ssl.SSLContext | None
    ) -> None:
        """Raise AuthenticationFailedError if the last connection was closed as a listener of another kind closes it,
        and the listener confirms that it is of that kind.
        """
        name = format_address(state.host, state.port)
        if state.was_closed_unanswered and context is None:
            from .listener_probe import speaks_tls

            state.was_closed_unanswered, state.is_listener_known = False, True
            if await speaks_tls(self._loop, self._dialer, address):
                raise SslAuthenticationFailedError(_SPEAKS_TLS.format(name))
        if state.was_closed_at_request and not self._uses_sasl:
            from .listener_probe import sasl_mechanisms

            state.was_closed_at_request, state.is_known_without_sasl = False, True
            mechanisms = await sasl_mechanisms(self._dialer, address, context, state.peer_name)
            if mechanisms is not None:
                protocol = "SASL_PLAINTEXT" if context is None else "SASL_SSL"
                raise SaslAuthenticationFailedError(_WANTS_SASL.format(name, protocol, ", ".join(mechanisms)))

    async def _add_tls(
        self,
        context: ssl.SSLContext,
        sock: socket.socket,
        state: NodeConnectionState,
        protocol_factory: Callable[[], asyncio.Protocol],
    ) -> None:
        from ...security.tls_transport import connect_tls

        # The set-up time-out bounds the whole attempt; the handshake's own must only not come before it.
        timeout = max(1.0, state.setup_timeout)
        await connect_tls(
            self._loop,
            sock,
            protocol_factory,
            context=context,
            server_hostname=state.peer_name,
            handshake_timeout=timeout,
        )

    async def _context(
        self, tls: TlsContexts, state: NodeConnectionState, on_address_failure: AddressFailure
    ) -> ssl.SSLContext:
        context = tls.known_context()
        if context is not None:
            return context
        label = format_address(state.host, state.port)
        try:
            # In a thread: a system's hundred authorities take tens of milliseconds, a user's function may take any
            # time.
            return await run_in_thread(self._loop, tls.context)
        except KafkaConnectionError as error:
            on_address_failure(label, error)
            raise
        except asyncio.CancelledError:
            on_address_failure(label, TimeoutError("the TLS context was not there in time (ssl_context)"))
            raise


class _Attempt:
    """The addresses of a host that were tried in one attempt, and the results."""

    def __init__(self, state: NodeConnectionState, on_address_failure: AddressFailure) -> None:
        self._state = state
        self._on_address_failure = on_address_failure
        self.overtaken: list[Address] = []
        self.error: BaseException | None = None

    def next_address(self) -> Address | None:
        """The next address of the round; then, once more, the ones that were overtaken."""
        address = self._state.next_address()
        return self.overtaken.pop(0) if address is None and self.overtaken else address

    def failed(self, address: Address, error: BaseException) -> None:
        """Report a failure, and keep the one that says most."""
        # A refused certificate says more than the next address that does not answer.
        self.error = self.error if isinstance(self.error, AuthenticationFailedError) else error
        self._on_address_failure(self.label(address), error)

    def label(self, address: Address) -> str:
        """The configured name, with the address it stands for when that is another."""
        name = format_address(self._state.host, self._state.port)
        numeric = format_address(*address[1][:2])
        return name if name == numeric else f"{name} ({numeric})"
