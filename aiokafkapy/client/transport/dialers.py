"""Opens sockets: directly, through a proxy, or by a user's function.

Owns name resolution, the options of sockets, and the exchange with a proxy. Knows neither TLS nor the turn of
addresses. Kafka's counterparts are ``ClientUtils.resolve`` and ``Selector.connect``; proxies and hooks are not in Java.

Rules:

- A failed or cancelled attempt leaves no socket.
- A numeric address never visits the resolver's threads.
- A proxy resolves names itself: there may be names that only it knows.
"""

from __future__ import annotations

import asyncio
import errno
import inspect
import os
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, Protocol

from ...common import LAST_PORT, format_address
from ...errors import KafkaConnectionError
from ...sockets import SocketAddress, new_socket
from ...worker_thread import run_in_thread
from ..nodes.connection_states import Address
from ..options.proxy import parse_proxy
from .happy_eyeballs import interleave_families

if TYPE_CHECKING:
    from ..config import ClientConfig

__all__ = ["Dialer", "new_dialer"]

_TCP_USER_TIMEOUT: Final = getattr(socket, "TCP_USER_TIMEOUT", None)  # Linux only
# Half of the idle time after which cloud load balancers cut a connection, and of our own connections_max_idle_ms.
_KEEPALIVE_IDLE_SECONDS: Final = 60
_KEEPALIVE_INTERVAL_SECONDS: Final = 15
_KEEPALIVE_PROBES: Final = 4
_FAMILIES: Final = {"any": socket.AF_UNSPEC, "v4": socket.AF_INET, "v6": socket.AF_INET6}
_UNRESOLVED: Final = 0
"""In place of an address family: the name has not been looked up."""


class Dialer(Protocol):
    """Opens sockets."""

    async def addresses(self, host: str, port: int) -> list[Address]:
        """The addresses of ``host``, the best first; raises OSError or ValueError when they cannot be found."""

    async def peer_name(self, host: str, address: Address) -> str:
        """The name that the broker at ``address`` has to prove, by a certificate or with Kerberos."""

    async def open(self, address: Address) -> socket.socket:
        """A connected, non-blocking socket; raises OSError."""


def new_dialer(config: ClientConfig, loop: asyncio.AbstractEventLoop) -> Dialer:
    """The dialer that the options ask for."""
    if config.connector is not None:
        return _OwnDialer(config.connector, config)
    if config.proxy_url is not None:
        return _ProxyDialer(config.proxy_url, config, loop)
    return _DirectDialer(config, loop)


class _DirectDialer:
    """Opens TCP connections by itself."""

    def __init__(self, config: ClientConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._options = _SocketOptions(config)
        self._family = _FAMILIES[config.broker_address_family]
        is_canonical = config.client_dns_lookup == "resolve_canonical_bootstrap_servers_only"
        self._canonical = frozenset(host for host, _ in config.bootstrap_addresses) if is_canonical else frozenset()

    async def addresses(self, host: str, port: int) -> list[Address]:
        _check_port(port)
        numeric = _numeric_address(host, port)
        if numeric is not None:
            return [numeric]
        if _waits_for_others(self._loop):
            found = await run_in_thread(self._loop, socket.getaddrinfo, host, port, self._family, socket.SOCK_STREAM)
        else:
            found = await self._loop.getaddrinfo(host, port, family=self._family, type=socket.SOCK_STREAM)
        # dict: some resolvers give an address twice, and trying it twice is useless
        return interleave_families(dict.fromkeys((family, address) for family, _, _, _, address in found))  # type: ignore[misc]

    async def peer_name(self, host: str, address: Address) -> str:
        if host not in self._canonical:
            return _provable(host)
        try:
            if _waits_for_others(self._loop):
                name, _ = await run_in_thread(self._loop, socket.getnameinfo, address[1], socket.NI_NAMEREQD)
            else:
                name, _ = await self._loop.getnameinfo(address[1], socket.NI_NAMEREQD)
        except OSError:
            return _provable(host)  # as Java: the name as it was given
        return _provable(name)

    async def open(self, address: Address) -> socket.socket:
        family, socket_address = address
        sock = new_socket(family)
        try:
            sock.setblocking(False)
            self._options.set_before_connect(sock)
            await self._connect(sock, socket_address)
        except BaseException:
            sock.close()
            raise
        return sock

    async def _connect(self, sock: socket.socket, address: SocketAddress) -> None:
        try:
            await self._loop.sock_connect(sock, address)
        except OSError as error:
            if error.errno is None or error.errno <= 0:
                raise
            # asyncio's text is "Connect call failed" for every error; the system's says more.
            raise OSError(error.errno, os.strerror(error.errno)) from error


class _UnresolvedDialer:
    """Leaves names to the maker of the connection."""

    async def addresses(self, host: str, port: int) -> list[Address]:
        _check_port(port)
        return [(_UNRESOLVED, (host, port))]

    async def peer_name(self, host: str, address: Address) -> str:
        return _provable(host)


class _ProxyDialer(_UnresolvedDialer):
    """Asks a SOCKS or HTTP proxy for connections (library python-socks)."""

    def __init__(self, url: str, config: ClientConfig, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._proxy = parse_proxy(url)
        self._options = _SocketOptions(config)

    async def open(self, address: Address) -> socket.socket:
        from python_socks import ProxyError
        from python_socks.async_.asyncio import Proxy

        host, port = address[1][:2]
        proxy = f"the proxy at {format_address(self._proxy.host, self._proxy.port)}"
        try:
            sock: socket.socket = await Proxy(*self._proxy, rdns=True, loop=self._loop).connect(host, port)
        except ProxyError as error:  # it answered, with a refusal
            raise KafkaConnectionError(f"{proxy} does not connect to {format_address(host, port)}: {error}") from error
        except OSError as error:
            raise KafkaConnectionError(f"{proxy} cannot be used: {error}") from error
        self._options.set(sock)
        return sock


class _OwnDialer(_UnresolvedDialer):
    """Asks a function of the user's for connections of any kind."""

    def __init__(self, connector: Callable[[str, int], object], config: ClientConfig) -> None:
        self._connector = connector
        self._options = _SocketOptions(config)

    async def open(self, address: Address) -> socket.socket:
        host, port = address[1][:2]
        try:
            sock = self._connector(host, port)
            if inspect.isawaitable(sock):
                sock = await sock
        except OSError:
            raise
        except Exception as error:
            raise KafkaConnectionError(f"the connector failed: {type(error).__name__}: {error}") from error
        if not isinstance(sock, socket.socket):
            raise KafkaConnectionError(f"the connector gave a {type(sock).__name__}, not a connected socket.socket")
        sock.setblocking(False)
        self._options.set(sock)
        return sock


class _SocketOptions:
    """The options of a client's sockets."""

    def __init__(self, config: ClientConfig) -> None:
        self._send_buffer = config.send_buffer_bytes
        self._receive_buffer = config.receive_buffer_bytes
        self._user_timeout_ms = config.tcp_user_timeout_ms
        self._more = config.socket_options

    def set_before_connect(self, sock: socket.socket) -> None:
        """Set all options, those of buffers too: TCP's handshake derives the window scale from them."""
        self.set(sock)
        if self._send_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, self._send_buffer)
        if self._receive_buffer != -1:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, self._receive_buffer)

    def set(self, sock: socket.socket) -> None:
        """Set the options of a connected socket, and those of TCP only on a TCP socket."""
        if sock.family in (socket.AF_INET, socket.AF_INET6):
            self._set_tcp(sock)
        for level, option, value in self._more:
            try:
                sock.setsockopt(level, option, value)
            except OSError as error:
                text = f"socket_options: ({level}, {option}, {value!r}) cannot be set: {error.strerror}"
                raise OSError(error.errno or errno.EINVAL, text) from error

    def _set_tcp(self, sock: socket.socket) -> None:
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


# internals


def _provable(host: str) -> str:
    """The host as certificates and principals have it: without the final dot that keeps resolvers from adding a domain,
    and without the interface of a link-local address (``fe80::1%eth0``).
    """
    return host.partition("%")[0] if ":" in host else host.removesuffix(".")


def _waits_for_others(loop: asyncio.AbstractEventLoop) -> bool:
    """True for asyncio's own lookups: they share the default executor with a user's blocking calls. Those of uvloop
    have threads of their own, and a simulated loop answers by itself.
    """
    return getattr(type(loop), "getaddrinfo", None) is asyncio.BaseEventLoop.getaddrinfo


def _check_port(port: int) -> None:
    """A broker may advertise any number; the system's calls raise OverflowError for some, which is not an OSError."""
    if not 0 < port <= LAST_PORT:
        raise OSError(f"port {port} is not between 1 and {LAST_PORT}")


def _numeric_address(host: str, port: int) -> Address | None:
    for family, pack in ((socket.AF_INET, (host, port)), (socket.AF_INET6, (host, port, 0, 0))):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family, pack
    return None
