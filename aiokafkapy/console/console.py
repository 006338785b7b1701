"""``Console``: a page that shows a cluster live, served from this process.

Owns start and stop, the address and the token; ``watch`` has the data, ``app`` the routes. Kafka has no
counterpart; it does the work of AKHQ, Kafdrop or kafka-ui, and also controls the faults of a dev broker.

Rules:

- without an address it listens on loopback, for this machine alone; elsewhere it has a token, made if none is given,
  and without TLS it warns that the token and the records can be read on the way;
- ``start`` leaves nothing behind when it fails, ``stop`` may be called at any time, and both may be repeated.
"""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypedDict, Unpack
from urllib.parse import quote

from ..admin.diagnosis import is_loopback
from ..broker.server_tls import server_tls
from ..cancellation import to_its_end
from ..common import LAST_PORT, format_address
from ..errors import ConfigurationError, IllegalStateError
from ..observability import get_logger
from .guard import SHORTEST_TOKEN, Guard, new_token
from .server import PageServer
from .watch import Watch

if TYPE_CHECKING:
    from ..broker.faults.control_calls import ControlCall
    from .decoding import Decoder
    from .shown_broker import ShownBroker
    from .source import Source

__all__ = ["DEFAULT_ADDRESS", "Console", "ConsoleOptions"]

DEFAULT_ADDRESS: Final = "127.0.0.1:0"
_logger = get_logger(__name__)
_NEEDED: Final = ("starlette", "uvicorn")


class ConsoleOptions(TypedDict, total=False):
    """The options of a ``Console``, as in its constructor."""

    address: str
    token: str | None
    read_only: bool
    allowed_hosts: Collection[str]
    registry: Decoder | None
    tls: Mapping[str, object] | None


class Console:
    """Make one with ``of_broker`` or ``of_cluster``; ``async with console:`` serves it at ``console.url``."""

    def __init__(
        self,
        source: Source,
        *,
        address: str = DEFAULT_ADDRESS,
        token: str | None = None,
        read_only: bool = False,
        allowed_hosts: Collection[str] = (),
        registry: Decoder | None = None,
        tls: Mapping[str, object] | None = None,
    ) -> None:
        """``tls`` are a broker's options, such as ``{"ssl_keystore_location": "console.pem"}``, for HTTPS.

        Reads their files, and does no other I/O. Raises ConfigurationError for a wrong address, token or file, and
        without the extra.
        """
        missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
        if missing:
            raise ConfigurationError(f"the console needs {' and '.join(missing)}: pip install 'aiokafkapy[console]'")
        self._host, self._port = _parsed(address)
        if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii() or not token.isprintable()):
            raise ConfigurationError(f"the console's token has to have {SHORTEST_TOKEN} printable characters or more")
        self._tls = None if tls is None else server_tls(tls)
        self._token = token if token is not None or is_loopback(self._host) else new_token()
        self.source = source
        self.registry = registry
        self.watch = Watch(source)
        self.is_read_only = read_only
        self.is_stopping = False
        """True ends the streams."""
        self.streams: set[asyncio.Task[None]] = set()
        """The streams that are not closed yet: they use the source."""
        self._allowed_hosts = tuple(allowed_hosts)
        self._server: PageServer | None = None
        self._guard: Guard | None = None

    @classmethod
    def of_broker(cls, broker: ShownBroker, **options: Unpack[ConsoleOptions]) -> Self:
        """A console of a dev broker of this process, on the broker's loop. ``options`` are the constructor's."""
        from .broker_source import BrokerSource

        return cls(BrokerSource(broker), **options)

    @classmethod
    def of_cluster(
        cls,
        bootstrap_servers: str | Sequence[str],
        *,
        client: dict[str, Any] | None = None,
        **options: Unpack[ConsoleOptions],
    ) -> Self:
        """A console of any cluster, read-only unless ``read_only=False``. ``client`` are options of clients, by their
        names in Python (``security_protocol``), ``options`` the constructor's.
        """
        from .cluster_source import ClusterSource

        options.setdefault("read_only", True)
        return cls(ClusterSource(bootstrap_servers, **(client or {})), **options)

    async def start(self) -> None:
        """Serve. Raises OSError if the address cannot be obtained; does nothing if it already serves."""
        if self._server is not None:
            return
        from .app import make_app

        self.is_stopping = False
        server = PageServer(self._host, self._port, None if self._tls is None else self._tls.context())
        port = server.bind()
        self._guard = Guard(
            self._host,
            port,
            token=self._token,
            is_read_only=self.is_read_only,
            allowed_hosts=self._allowed_hosts,
            has_tls=self._tls is not None,
        )
        if self._tls is None and not is_loopback(self._host):
            _logger.warning(
                "console.unencrypted",
                address=format_address(self._host, port),
                hint="its token and the records can be read on the way: give it a certificate, or listen on this "
                "machine alone and put a proxy with one before it",
            )
        try:
            await self.source.start()
            await self.watch.start()
            self._watch_controls()
            await server.start(make_app(self, self._guard))
        except BaseException:
            await self._stop(server)
            raise
        self._server = server

    async def stop(self) -> None:
        """End the console: streams end, the port is free, also if the call is cancelled; idempotent."""
        server, self._server = self._server, None
        if server is not None:
            await to_its_end(self._stop(server))  # no other code would close the rest

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.stop()

    @property
    def url(self) -> str:
        """The address to open, with the token if there is one. Raises IllegalStateError unless it serves."""
        if self._server is None or self._guard is None:
            raise IllegalStateError("the console is not started")
        host = "localhost" if self._host in ("0.0.0.0", "::") else self._host
        scheme = "http" if self._tls is None else "https"
        page = f"{scheme}://{format_address(host, self._guard.port)}/"
        return f"{page}?token={quote(self._token)}" if self._token else page

    # internals

    async def _stop(self, server: PageServer) -> None:
        self.is_stopping = True
        self._unwatch_controls()
        await self.watch.stop()
        await server.stop()
        if self.streams:
            await asyncio.wait(self.streams)
        await self.source.stop()
        if self.registry is not None:
            await self.registry.close()

    def _watch_controls(self) -> None:
        if self.source.broker is not None:
            self.source.broker.controls.watchers.append(self._on_call)

    def _unwatch_controls(self) -> None:
        broker = self.source.broker
        if broker is not None and self._on_call in broker.controls.watchers:
            broker.controls.watchers.remove(self._on_call)

    def _on_call(self, call: ControlCall) -> None:
        self.watch.note_call(call)


def _parsed(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not colon or not host or not port.isdigit() or int(port) > LAST_PORT:
        raise ConfigurationError(f"console address {address!r}: write HOST:PORT, such as 127.0.0.1:9080 (port 0: any)")
    return host, int(port)
