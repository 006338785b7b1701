"""Sockets, from the making to the event loop, and the networks that stand in for the system's.

Owns the one way in which sockets that we made or accepted become transports, for clients and the dev broker
(``hand_over``), and the ``Network`` in which a loop's connections are made: the system's, unless ``use_network`` gave
the loop another one, as ``aiokafkapy.testing`` does for connections in memory. It knows neither protocols nor TLS.

Rules:

- A file descriptor is closed by one owner. uvloop closes it and detaches the socket object, unless the transport ends
  before the call that creates it returns: the object would then close the number again, perhaps another file's by then.
  Before 0.23 a cancelled call was such a case, so that call is never cancelled.
- A loop with a network of its own makes no socket of the system for our connections and listeners. Other loops of the
  process are not touched by it.
"""

from __future__ import annotations

import asyncio
import socket
import weakref
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeAlias, cast

__all__ = [
    "Network",
    "SocketAddress",
    "SocketLike",
    "connections_of",
    "current_network",
    "hand_over",
    "network_of",
    "new_socket",
    "use_network",
]


SocketAddress: TypeAlias = tuple[str, int] | tuple[str, int, int, int]
"""The address of a TCP endpoint, in the form of its family."""


class SocketLike(Protocol):
    """A socket, or an object that stands for one: a network knows it again, and closes it."""

    def close(self) -> None:
        """Idempotent."""


class Network(Protocol):
    """A network for connections, in place of the system's sockets."""

    def new_socket(self, family: int) -> SocketLike:
        """An unconnected socket, with the methods of ``socket.socket`` that clients call before they connect it."""

    async def connect(self, sock: SocketLike, address: SocketAddress) -> None:
        """As ``loop.sock_connect``; raises OSError."""

    def open(self, sock: SocketLike, protocol: asyncio.Protocol) -> asyncio.Transport:
        """The transport of a connected or accepted socket; raises OSError."""

    def listener(self, host: str, port: int) -> SocketLike:
        """A listening socket, with ``accept``; raises OSError."""

    def listen(self, listener: Any, on_acceptable: Callable[[], None]) -> None:
        """Call back when a connection can be accepted."""

    def listen_no_more(self, listener: Any) -> bool:
        """Stop calling back; True if there was a callback."""

    async def speaks_tls(self) -> bool:
        """In the place of ``listener_probe.speaks_tls``."""

    async def sasl_mechanisms(self) -> list[str] | None:
        """In the place of ``listener_probe.sasl_mechanisms``."""


_networks: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Network] = weakref.WeakKeyDictionary()


def use_network(loop: asyncio.AbstractEventLoop, network: Network | None) -> None:
    """Make the loop's new connections and listeners in this network from now on; None: in the system's.

    The network, and with it the loop, is kept until a call with None.
    """
    if network is None:
        _networks.pop(loop, None)
    else:
        _networks[loop] = network


def network_of(loop: asyncio.AbstractEventLoop) -> Network | None:
    """The network of this loop's connections; None: the system's."""
    return _networks.get(loop) if _networks else None


def current_network() -> Network | None:
    """The network of the running loop, if one runs."""
    return network_of(asyncio.get_running_loop()) if _networks and asyncio._get_running_loop() is not None else None


def new_socket(family: int) -> socket.socket:
    """An unconnected socket of TCP. Raises OSError."""
    network = current_network()
    if network is None:
        return socket.socket(family, socket.SOCK_STREAM)
    return cast("socket.socket", network.new_socket(family))


def connections_of(loop: asyncio.AbstractEventLoop) -> asyncio.AbstractEventLoop:
    """The loop for making connections: this loop itself, or a stand-in that makes them in the loop's network."""
    network = network_of(loop)
    return loop if network is None else cast("asyncio.AbstractEventLoop", _NetworkLoop(loop, network))


async def hand_over(sock: socket.socket, transport: Awaitable[tuple[asyncio.BaseTransport, object]]) -> None:
    """Await a ``loop.create_connection(…, sock=sock)`` or ``connect_accepted_socket``; after an error, as after a
    cancellation, the caller closes ``sock``, which does nothing if the loop has done so.
    """
    if not type(asyncio.get_running_loop()).__module__.startswith(("uvloop", "winloop")):
        await transport
        return
    making = asyncio.ensure_future(transport)
    cancelled: asyncio.CancelledError | None = None
    while not making.done():
        try:
            await asyncio.wait([making])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        if not making.cancelled() and making.exception() is None:
            making.result()[0].close()
            sock.detach()  # it is closed in a later turn of the loop
        raise cancelled
    made, _ = making.result()
    if made.is_closing():
        sock.detach()


class _NetworkLoop:
    """A loop whose connections are made in a network."""

    def __init__(self, loop: asyncio.AbstractEventLoop, network: Network) -> None:
        self._loop = loop
        self._network = network

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loop, name)

    async def sock_connect(self, sock: SocketLike, address: SocketAddress) -> None:
        await self._network.connect(sock, address)

    async def create_connection(
        self, protocol_factory: Callable[[], asyncio.Protocol], *, sock: SocketLike
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = protocol_factory()
        return self._network.open(sock, protocol), protocol

    async def connect_accepted_socket(
        self, protocol_factory: Callable[[], asyncio.Protocol], sock: SocketLike
    ) -> tuple[asyncio.Transport, asyncio.Protocol]:
        protocol = protocol_factory()
        return self._network.open(sock, protocol), protocol

    def add_reader(self, listener: Any, callback: Callable[[], None]) -> None:
        self._network.listen(listener, callback)

    def remove_reader(self, listener: Any) -> bool:
        return self._network.listen_no_more(listener)
