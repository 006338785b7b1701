"""The listeners of a broker: their names, protocols, addresses and own options, and the ports of each node.

Owns the notation of listeners and its checks. It must not know sockets, TLS or SASL. Kafka's counterparts
are ``EndPoint``, ``listeners``, ``listener.security.protocol.map`` and ``advertised.listeners``.

Rules:

- a listener's name is its security protocol, or a name of the user's own, and then the protocol must be given;
- a port that is not 0 is node 1's, and the next nodes have the next ones; no two listeners may want the same;
- a listener's own option counts before the broker's (Kafka: ``listener.name.<name>.<option>``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from ..common import LAST_PORT
from ..errors import ConfigurationError
from ..security.protocols import SECURITY_PROTOCOLS, has_sasl, has_tls
from ..security.sasl.gssapi import GSSAPI, check_kerberos
from ..security.sasl.kerberos_names import LocalNameRules
from .config import BrokerConfig
from .principals import PrincipalRules

if TYPE_CHECKING:
    import socket

    from ..security.tls import TlsContexts

__all__ = ["DEFAULT_LISTENER", "Endpoint", "Listener", "Listeners", "endpoints_of"]

DEFAULT_LISTENER: Final = "PLAINTEXT"

# host:port with the protocol before it; an IPv6 address stands in brackets.
_ADDRESS: Final = re.compile(
    r"(?:(?P<protocol>\w+)://)?(?:\[(?P<bracketed>[^\[\]]*)\]|(?P<host>[^:/\[\]]*)):(?P<port>\d+)"
)

_OWN_OPTIONS: Final = re.compile(r"(ssl|sasl)_(?!users$)\w+|connections_max_reauth_ms|listener_max_connections")


class Listener:
    """A listener as a user writes it; ``options`` are options of the broker that differ here.

    ``sockets``: one for each node, node 1's first, which listen already, as a supervisor hands them over; they stand
    in place of ``port``. The broker that has them closes them.
    """

    __slots__ = ("advertised_host", "host", "options", "port", "security_protocol", "sockets")

    def __init__(
        self,
        security_protocol: str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        advertised_host: str | None = None,
        sockets: Sequence[socket.socket] = (),
        **options: object,
    ) -> None:
        self.security_protocol = security_protocol
        self.host = host
        self.port = port
        self.advertised_host = advertised_host
        self.sockets = sockets
        self.options = options

    def __repr__(self) -> str:
        # Not the options: there may be keys and passwords among them.
        return f"<Listener {self.security_protocol}://{self.host}:{self.port}>"


Listeners: TypeAlias = Mapping[str, str | Listener]
"""By name: a ``Listener``, or "host:port", or "PROTOCOL://host:port" for a name that is not a protocol."""


class EndpointOptions(NamedTuple):
    """A listener's options, and the objects made from them; ``tls`` is None without TLS."""

    config: BrokerConfig
    principal_rules: PrincipalRules
    tls: TlsContexts | None


@dataclass(slots=True, eq=False)
class Endpoint:
    """A listener with its name and all of its options; the same one on every node.

    ``sockets``: listening sockets by the node's number; a node that starts takes its own. ``tls`` is None without
    TLS.
    """

    name: str
    security_protocol: str
    host: str
    port: int
    advertised_host: str
    config: BrokerConfig
    sockets: dict[int, socket.socket] = field(default_factory=dict)
    tls: TlsContexts | None = None
    principal_rules: PrincipalRules = field(init=False)

    def __post_init__(self) -> None:
        self.use(self.options_of(self.config))

    def options_of(self, config: BrokerConfig) -> EndpointOptions:
        """Other options for ``use``. Raises ConfigurationError; ``tls.context()`` checks their files."""
        rules = PrincipalRules(config.ssl_principal_mapping_rules)
        LocalNameRules(config.sasl_kerberos_principal_to_local_rules)
        if self.has_sasl and GSSAPI in config.sasl_enabled_mechanisms:
            check_kerberos(config.sasl_kerberos_service_name)
        if not has_tls(self.security_protocol):
            return EndpointOptions(config, rules, None)
        from ..security.tls import TlsContexts

        tls = TlsContexts(config, server_side=True, client_auth=config.ssl_client_auth)
        return EndpointOptions(config, rules, tls)

    def use(self, options: EndpointOptions) -> None:
        """Take other options, for the connections to come."""
        self.config, self.principal_rules, self.tls = options

    @property
    def has_sasl(self) -> bool:
        """Whether clients authenticate by SASL."""
        return has_sasl(self.security_protocol)

    def port_of(self, node_id: int) -> int:
        """The port that a node is to listen on, 0 for a free one."""
        if node_id in self.sockets:
            return int(self.sockets[node_id].getsockname()[1])
        return self.port and self.port + node_id - 1


def endpoints_of(
    listeners: Listeners, config: BrokerConfig, nodes: int, advertised_host: str | None = None
) -> dict[str, Endpoint]:
    """The endpoints by name, in the order given. Raises ConfigurationError, which names the listener."""
    if not listeners:
        raise ConfigurationError('listeners={}: a broker has at least one, such as {"PLAINTEXT": "127.0.0.1:0"}')
    endpoints = {name: _endpoint(name, listener, config, advertised_host) for name, listener in listeners.items()}
    taken: dict[int, str] = {}
    for name, endpoint in endpoints.items():
        if endpoint.sockets and len(endpoint.sockets) != nodes:
            raise ConfigurationError(
                f"listener {name!r}: sockets={len(endpoint.sockets)}, but there are {nodes} nodes: give one for each"
            )
        if not endpoint.port:
            continue
        last = endpoint.port_of(nodes)
        if last > LAST_PORT:
            raise ConfigurationError(
                f"port={endpoint.port}: the last of {nodes} nodes would have a port over {LAST_PORT}"
            )
        for port in range(endpoint.port, last + 1):
            if port in taken:
                raise ConfigurationError(
                    f"listeners {taken[port]!r} and {name!r} both want port {port}: each of the {nodes} nodes has one"
                    " from the listener's port on; write ports that are further apart, or 0 for free ones"
                )
            taken[port] = name
    return endpoints


# internals


def _endpoint(name: str, given: str | Listener, config: BrokerConfig, advertised_host: str | None) -> Endpoint:
    listener = _parsed(name, given) if isinstance(given, str) else given
    if listener.security_protocol not in SECURITY_PROTOCOLS:
        raise ConfigurationError(
            f"listener {name!r}: {listener.security_protocol!r} is not a security protocol; write one of"
            f" {', '.join(SECURITY_PROTOCOLS)}"
        )
    if name in SECURITY_PROTOCOLS and name != listener.security_protocol:
        raise ConfigurationError(
            f"listener {name!r} with protocol {listener.security_protocol!r}: give it that name, or one of your own"
        )
    if not 0 <= listener.port <= LAST_PORT:
        raise ConfigurationError(f"listener {name!r}: port {listener.port} is not in 0 to {LAST_PORT}")
    for option in listener.options:
        if not _OWN_OPTIONS.fullmatch(option):
            raise ConfigurationError(
                f"listener {name!r}: {option!r} cannot differ between listeners; give it to the broker itself"
            )
    own = config.altered(**listener.options) if listener.options else config
    host = listener.host
    seen_as = listener.advertised_host or advertised_host or ("127.0.0.1" if host in ("", "0.0.0.0", "::") else host)
    if listener.sockets and listener.port:
        raise ConfigurationError(f"listener {name!r}: port={listener.port}, but its sockets have ports of their own")
    sockets = dict(enumerate(listener.sockets, 1))
    return Endpoint(name, listener.security_protocol, host, listener.port, seen_as, own, sockets)


def _parsed(name: str, text: str) -> Listener:
    found = _ADDRESS.fullmatch(text.strip())
    if found is None:
        raise ConfigurationError(
            f"listener {name!r}: {text!r} is not host:port or PROTOCOL://host:port, such as 127.0.0.1:9093"
        )
    protocol = found["protocol"] or (name if name in SECURITY_PROTOCOLS else None)
    if protocol is None:
        raise ConfigurationError(
            f"listener {name!r}: which protocol? Write {{{name!r}: 'SASL_SSL://{text}'}}, with one of"
            f" {', '.join(SECURITY_PROTOCOLS)}"
        )
    return Listener(protocol, found["bracketed"] or found["host"] or "", int(found["port"]))
