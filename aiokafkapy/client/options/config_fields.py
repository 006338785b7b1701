"""The declared options of every client: names, types, defaults, and the checks of several together.

Owns the declaration and its checks; ``config`` makes a pydantic model of them, but the checks of the commonest values
need no pydantic (``option_fields``). It knows neither properties nor the environment.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from ...common import HIDDEN, MAX_INT, MAX_LONG, MAX_STRING_SIZE, SHOWN_BITS, ExponentialBackoff, parse_addresses
from ...errors import ConfigurationError
from ...observability import is_secret_name
from ...option_fields import Within, default_of
from .proxy import parse_proxy
from .security_options import SecurityOptions

if TYPE_CHECKING:
    from pydantic import AfterValidator, BeforeValidator, Field
    from pydantic_core import ErrorDetails
else:
    from ...option_fields import AfterValidator, BeforeValidator, Field

__all__ = [
    "ClientConfigFields",
    "Count",
    "Milliseconds",
    "explained",
    "not_a_bool",
    "shown_value",
]

MAX_CLIENT_ID_BYTES: Final = MAX_STRING_SIZE
"""The protocol writes the length of a header's client_id as an int16."""


def not_a_bool(value: object) -> object:
    """The value; ValueError for a bool, which is an int to Python."""
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a bool")
    return value


def _idle_time(value: int) -> int:
    if value == 0:
        raise ValueError("every connection would be closed before its use: write -1 for never, or at least 1")
    return value


def _socket_options(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    return tuple(tuple(one) if isinstance(one, list | tuple) else one for one in value)


def _observers(values: Sequence[Any]) -> Sequence[Any]:
    from ...observability.observer import OBSERVER_METHODS

    for value in values:
        if isinstance(value, type):
            raise ValueError(f"an object is needed, not the class {value.__name__}: write {value.__name__}()")
        if not any(callable(getattr(value, name, None)) for name in OBSERVER_METHODS):
            raise ValueError(f"{type(value).__name__} has none of the methods {', '.join(OBSERVER_METHODS)}")
    return tuple(values)


Milliseconds = Annotated[int, Within(0, MAX_LONG), BeforeValidator(not_a_bool)]
"""A duration option: whole milliseconds, 0 or more."""
Count = Annotated[int, Within(1, MAX_INT), BeforeValidator(not_a_bool)]
"""An option that counts something: 1 or more."""


class ClientConfigFields(SecurityOptions):
    """The options shared by all clients."""

    environment_prefix: ClassVar[str] = "AIOKAFKAPY_"

    # Kafka's names for the options whose name is not ours with dots; None for options that Kafka does not have.
    kafka_names: ClassVar[Mapping[str, str | None]] = {
        "tcp_user_timeout_ms": None,
        "broker_address_family": None,
        "proxy_url": None,
        "connector": None,
        "socket_options": None,
        "receive_message_max_bytes": None,
        "observers": None,
        "ssl_crl_location": None,
        "ssl_context": None,
        "sasl_username": None,
        "sasl_password": None,
        "sasl_oauthbearer_token_provider": None,
        "sasl_oauthbearer_metadata_authentication_type": None,
        "sasl_oauthbearer_config": None,
        "sasl_oauthbearer_extensions": None,
        "sasl_aws_msk_iam_region": None,
        "sasl_aws_msk_iam_credentials_provider": None,
    }

    bootstrap_servers: Annotated[
        str | Sequence[str],
        Field(description='`"host:9092,host2:9092"`, or a sequence of addresses; some of the brokers are enough.'),
    ]
    client_id: Annotated[
        str, Field(description="Names this client in the broker's logs and quotas. Kafka's default is empty.")
    ] = "aiokafkapy"
    client_dns_lookup: Annotated[
        Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"],
        Field(description="Every address of a name is used in both cases; canonical names matter to TLS and Kerberos."),
    ] = "use_all_dns_ips"

    broker_address_family: Annotated[
        Literal["any", "v4", "v6"], Field(description="Addresses to connect to: of IPv4, of IPv6, or of both.")
    ] = "any"
    proxy_url: Annotated[
        str | None,
        Field(
            repr=False,
            description="Proxy that connects to the brokers, and looks their names up: `socks5://host:port`, "
            "`http://user:password@host:port`; needs the extra proxy.",
        ),
    ] = None
    connector: Annotated[
        Any,
        Field(
            description="Callable, async or not, that is given a host and a port, and gives a connected socket: for "
            "tunnels and the like."
        ),
    ] = None
    socket_options: Annotated[
        Sequence[tuple[int, int, int | bytes]],
        BeforeValidator(_socket_options),
        Field(description="More options of sockets, as setsockopt takes them: level, option, value."),
    ] = ()

    connections_max_idle_ms: Annotated[
        int,
        BeforeValidator(not_a_bool),
        AfterValidator(_idle_time),
        Field(
            ge=-1, le=MAX_LONG, description="Milliseconds without use after which a connection is closed; -1: never."
        ),
    ] = 180_000
    max_in_flight_requests_per_connection: Annotated[
        Count, Field(description="Requests to one broker that wait for an answer.")
    ] = 5
    receive_buffer_bytes: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(ge=-1, le=MAX_INT, description="Bytes, SO_RCVBUF; -1 leaves it to the system."),
    ] = 32_768
    send_buffer_bytes: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(
            ge=-1,
            le=MAX_INT,
            description="Bytes, SO_SNDBUF; -1 leaves it to the system, which lets it grow with the link: better for "
            "bulk loads and distant brokers. A fixed size bounds the bytes sent in a round trip.",
        ),
    ] = 131_072
    receive_message_max_bytes: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(
            ge=1_000,
            le=MAX_INT,
            description="Bytes of a broker's answer, at most: a connection on which a larger one is announced is "
            "closed. librdkafka's and kafka-python's option.",
        ),
    ] = 104_857_600
    tcp_user_timeout_ms: Annotated[
        Annotated[int, BeforeValidator(not_a_bool), Field(ge=1, le=MAX_INT)] | None,
        Field(
            description="Milliseconds, Linux's TCP_USER_TIMEOUT: written bytes that stay unacknowledged for longer end "
            "the connection. None leaves it to the system."
        ),
    ] = None
    reconnect_backoff_ms: Annotated[
        Milliseconds, Field(description="Milliseconds before the second attempt to connect to a broker.")
    ] = 50
    reconnect_backoff_max_ms: Annotated[
        Milliseconds, Field(description="Milliseconds between attempts to connect, at most; they double up to here.")
    ] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(ge=1, le=MAX_LONG, description="Milliseconds for the first attempt to connect."),
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(ge=1, le=MAX_LONG, description="Milliseconds for an attempt to connect, at most."),
    ] = 30_000

    request_timeout_ms: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(
            ge=1,
            le=MAX_INT,
            description="Milliseconds from writing a request to its answer; then the connection is closed.",
        ),
    ] = 30_000
    retry_backoff_ms: Annotated[Milliseconds, Field(description="Milliseconds before a request is sent again.")] = 100
    retry_backoff_max_ms: Annotated[
        Milliseconds, Field(description="Milliseconds between attempts of a request, at most; they double up to here.")
    ] = 1_000

    metadata_max_age_ms: Annotated[
        Milliseconds, Field(description="Milliseconds after which metadata is asked for again.")
    ] = 300_000
    metadata_max_idle_ms: Annotated[
        int,
        BeforeValidator(not_a_bool),
        Field(ge=5_000, le=MAX_LONG, description="Milliseconds without use after which a topic is forgotten."),
    ] = 300_000
    metadata_recovery_strategy: Annotated[
        Literal["rebootstrap", "none"],
        Field(description="When no known broker answers: begin again with bootstrap_servers, or not (KIP-899)."),
    ] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Annotated[
        Milliseconds, Field(description="Milliseconds without metadata after which the client rebootstraps (KIP-1102).")
    ] = 300_000

    observers: Annotated[
        Sequence[Any],
        AfterValidator(_observers),
        Field(description="Objects that are told of connections, requests and batches: see `Observer`."),
    ] = ()

    def with_credentials(self, **options: object) -> Self:
        """The same configuration with other ``sasl_…`` options; raises ConfigurationError when SASL is not used."""
        for name in options:
            if not name.startswith("sasl_"):
                raise ConfigurationError(f"{name} is not an option of SASL, and cannot be changed later")
        if not self.uses_sasl:
            raise ConfigurationError(f"security_protocol={self.security_protocol!r} has no credentials to update")
        given = {name: getattr(self, name) for name in self.model_fields_set}
        return type(self)(**{**given, **options})

    @property
    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers as (host, port) pairs."""
        return parse_addresses(self.bootstrap_servers)

    @property
    def most_in_flight(self) -> int:
        """The most requests to one broker that may wait for an answer."""
        return self.max_in_flight_requests_per_connection

    @property
    def reconnect_backoff(self) -> ExponentialBackoff:
        """Delays between attempts to connect to a node."""
        return ExponentialBackoff(self.reconnect_backoff_ms / 1000, self.reconnect_backoff_max_ms / 1000)

    @property
    def retry_backoff(self) -> ExponentialBackoff:
        """Delays between attempts at a request."""
        return ExponentialBackoff(self.retry_backoff_ms / 1000, self.retry_backoff_max_ms / 1000)

    @property
    def connection_setup_timeout(self) -> ExponentialBackoff:
        """Time-outs of connection set-up; they grow with each failed attempt."""
        return ExponentialBackoff(
            self.socket_connection_setup_timeout_ms / 1000, self.socket_connection_setup_timeout_max_ms / 1000
        )

    # checks of more than one option, or with a message of their own

    @classmethod
    def normalized(cls, values: dict[str, Any]) -> dict[str, Any]:
        """The options in their normal form."""
        values = dict(values)
        if isinstance(values.get("bootstrap_servers"), list):
            values["bootstrap_servers"] = tuple(values["bootstrap_servers"])
        for name in ("security_protocol", "metadata_recovery_strategy"):
            if isinstance(values.get(name), str):
                # As Kafka: upper or lower case.
                values[name] = values[name].upper() if name == "security_protocol" else values[name].lower()
        for base, maximum in _BACKOFF_PAIRS:
            try:
                low = int(values.get(base, 0))
            except (TypeError, ValueError, OverflowError):
                continue  # the field's own check has the better message
            if maximum not in values and low > default_of(cls, maximum):
                values[maximum] = low  # as Java: if only the lower bound is given, the back-off is constant
        return values

    def check(self) -> None:
        """Raise ConfigurationError for options that contradict each other, or that have a message of their own."""
        parse_addresses(self.bootstrap_servers)
        _check_client_id(self.client_id)
        self.check_security()
        if self.proxy_url is not None:
            parse_proxy(self.proxy_url)
        if self.connector is not None and not callable(self.connector):
            raise ConfigurationError(f"connector={self.connector!r}: write a function of a host and a port")
        if self.connector is not None and self.proxy_url is not None:
            raise ConfigurationError("connector and proxy_url are two ways to a broker: write one of them")
        for base, maximum in _BACKOFF_PAIRS:
            low, high = getattr(self, base), getattr(self, maximum)
            if low > high:
                raise ConfigurationError(f"{base}={low} is over {maximum}={high}: write {maximum}={low} or more")
        if not self.metadata_max_age_ms and not self.retry_backoff_ms:
            raise ConfigurationError(
                "metadata_max_age_ms=0 and retry_backoff_ms=0 would ask for metadata without a pause, for ever: "
                "write at least 1 for one of the two"
            )


_BACKOFF_PAIRS: Final = (
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


def _check_client_id(client_id: str) -> None:
    """A request's header has room for 32,767 bytes of UTF-8."""
    try:
        size = len(client_id.encode())
    except UnicodeEncodeError:
        raise ConfigurationError(
            f"client_id={client_id[:100]!r} has a lone surrogate, which is not a character: "
            "write text that UTF-8 can hold"
        ) from None
    if size > MAX_CLIENT_ID_BYTES:
        raise ConfigurationError(
            f"client_id={client_id[:20]!r}… has {size:,} bytes: write {MAX_CLIENT_ID_BYTES:,} or fewer"
        )


def explained(details: ErrorDetails, options: Mapping[str, object]) -> str:
    """Pydantic's error of one of ``options``, with the value."""
    name = str(details["loc"][0])
    return f"{name}={shown_value(name, options.get(name)):.100}: {details['msg']}"


def shown_value(name: str, value: object) -> str:
    """An option's value for a message: no secret, and never an error, even where its own repr raises."""
    if is_secret_name(name) and value is not None:
        return HIDDEN
    if isinstance(value, partial):  # its arguments may be secrets
        return f"<partial of {getattr(value.func, '__qualname__', type(value.func).__name__)}>"
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"<a number of {value.bit_length()} bits>"
    try:
        return repr(value)
    except Exception:  # of something inside of it
        return f"<{type(value).__name__}>"
