"""The options of every client: where the cluster is, connections, requests, metadata.

Owns names, defaults and checks of the network and metadata options; ``ProducerConfig`` and ``ReaderConfig`` add theirs.
Kafka's counterparts are ``CommonClientConfigs`` and ``AbstractConfig``: names are Kafka's with dots as underscores,
``*_ms`` are whole milliseconds, defaults are Kafka 4.1's but for ``client_id`` (never empty, so that a broker's log
can name us), ``connections_max_idle_ms`` (below what cloud load balancers cut silently) and ``tcp_user_timeout_ms``,
which Kafka does not have.

Rules: a configuration never changes; everything is checked when it is made, and an error says which option, which
value, the limit, and what to write instead; no message and no ``repr`` shows a secret. Keyword arguments must have the
right type; properties and environment variables are strings and are converted.
"""

from __future__ import annotations

import difflib
import os
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..common import ExponentialBackoff, parse_addresses
from ..errors import ConfigurationError
from ..observability import is_secret_name
from ..observability.observer import OBSERVER_METHODS
from .foreign_options import advice_for, with_our_names
from .proxy import parse_proxy
from .security_options import SecurityOptions
from .urls import options_of_url

__all__ = ["MAX_INT", "MAX_LONG", "ClientConfig", "Count", "Milliseconds", "environment_variables", "shown_value"]

MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
"""The ranges of Kafka's option types: larger numbers fit no request, socket or clock."""
SHOWN_BITS: Final = 128
"""Larger numbers are not printed in messages: Python refuses to convert very long ones to text."""
MAX_CLIENT_ID_BYTES: Final = 2**15 - 1
"""The protocol writes the length of a header's client_id as an int16."""
# Environment variables with from_env's prefix that are switches of the package, not options.
_RESERVED_VARIABLES: Final = frozenset(
    {
        "cache",
        "console_token",
        "conversations",
        "interpreted",
        "no_extensions",
        "pictures",
        "require_browser",
        "require_kafka",
        "require_kerberos",
        "require_postgres",
        "simulation_seed",
        "tap",
        "tap_payloads",
    }
)


def _not_a_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a bool")
    return value


def _idle_time(value: int) -> int:
    if value == 0:
        raise ValueError("every connection would be closed before its use: write -1 for never, or at least 1")
    return value


def _socket_options(value: Any) -> Any:
    return tuple(map(tuple, value)) if isinstance(value, list | tuple) else value


def _observers(values: Sequence[Any]) -> Sequence[Any]:
    for value in values:
        if isinstance(value, type):
            raise ValueError(f"an object is needed, not the class {value.__name__}: write {value.__name__}()")
        if not any(callable(getattr(value, name, None)) for name in OBSERVER_METHODS):
            raise ValueError(f"{type(value).__name__} has none of the methods {', '.join(OBSERVER_METHODS)}")
    return tuple(values)


Milliseconds = Annotated[int, BeforeValidator(_not_a_bool), Field(ge=0, le=MAX_LONG)]
"""A duration option: whole milliseconds, 0 or more."""
Count = Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1, le=MAX_INT)]
"""An option that counts something: 1 or more."""


class ClientConfig(SecurityOptions):
    """Options shared by all clients; immutable. Raises ConfigurationError for an invalid option."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    environment_prefix: ClassVar[str] = "AIOKAFKAPY_"

    # Kafka's names for the options whose name is not ours with dots; None for options that Kafka does not have.
    kafka_names: ClassVar[Mapping[str, str | None]] = {
        "tcp_user_timeout_ms": None,
        "broker_address_family": None,
        "proxy_url": None,
        "connector": None,
        "socket_options": None,
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
            "tunnels, and for what else stands between."
        ),
    ] = None
    socket_options: Annotated[
        Sequence[tuple[int, int, int | bytes]],
        BeforeValidator(_socket_options),
        Field(description="More options of sockets, as setsockopt takes them: level, option, value."),
    ] = ()

    connections_max_idle_ms: Annotated[
        int,
        BeforeValidator(_not_a_bool),
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
        BeforeValidator(_not_a_bool),
        Field(ge=-1, le=MAX_INT, description="Bytes, SO_RCVBUF; -1 leaves it to the system."),
    ] = 32_768
    send_buffer_bytes: Annotated[
        int,
        BeforeValidator(_not_a_bool),
        Field(
            ge=-1,
            le=MAX_INT,
            description="Bytes, SO_SNDBUF; -1 leaves it to the system, which lets it grow with the link: better for "
            "bulk loads and distant brokers. A fixed size bounds what is sent in a round trip.",
        ),
    ] = 131_072
    tcp_user_timeout_ms: (
        Annotated[
            int,
            BeforeValidator(_not_a_bool),
            Field(ge=1, le=MAX_INT),
        ]
        | None
    ) = Field(
        default=None,
        description="Milliseconds, Linux's TCP_USER_TIMEOUT: how long written bytes may stay unacknowledged before "
        "the connection is given up. None leaves it to the system.",
    )
    reconnect_backoff_ms: Annotated[
        Milliseconds, Field(description="Milliseconds before the second attempt to connect to a broker.")
    ] = 50
    reconnect_backoff_max_ms: Annotated[
        Milliseconds, Field(description="Milliseconds between attempts to connect, at most; they double up to here.")
    ] = 1_000
    socket_connection_setup_timeout_ms: Annotated[
        int,
        BeforeValidator(_not_a_bool),
        Field(ge=1, le=MAX_LONG, description="Milliseconds for the first attempt to connect."),
    ] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[
        int,
        BeforeValidator(_not_a_bool),
        Field(ge=1, le=MAX_LONG, description="Milliseconds for an attempt to connect, at most."),
    ] = 30_000

    request_timeout_ms: Annotated[
        int,
        BeforeValidator(_not_a_bool),
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
        BeforeValidator(_not_a_bool),
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

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: Any) -> None:
            self._validate(options, strict=True)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any], **options: Any) -> Self:
        """Create one from Kafka's own names, ``{"linger.ms": "5"}``; strings are converted. ``options`` take
        precedence.

        For security options, librdkafka's names (``ssl.ca.location``) are accepted too.
        """
        values = {name.strip().replace(".", "_").replace("-", "_"): value for name, value in properties.items()}
        return cls._from_strings(with_our_names(values) | options, {})

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """Create one from a URL, ``kafka+sasl-ssl://user:password@host:9093/?sasl.mechanism=PLAIN&acks=all``; the query
        has options by Kafka's names or ours. ``options`` take precedence.
        """
        return cls._from_strings(with_our_names(options_of_url(url)) | options, {})

    @classmethod
    def from_env(cls, prefix: str | None = None, **options: Any) -> Self:
        """Create one from environment variables, ``AIOKAFKAPY_BOOTSTRAP_SERVERS``; ``options`` take precedence."""
        prefix = cls.environment_prefix if prefix is None else prefix
        variables = environment_variables(prefix)
        values = {name: os.environ[variable] for name, variable in variables.items()}
        used = {name: variable for name, variable in variables.items() if name not in options}
        return cls._from_strings(values | options, used)

    def with_credentials(self, **options: Any) -> Self:
        """The same configuration with other ``sasl_…`` options; raises ConfigurationError when SASL is not used."""
        for name in options:
            if not name.startswith("sasl_"):
                raise ConfigurationError(f"{name} is no option of SASL, and cannot be changed later")
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

    def __repr__(self) -> str:
        shown = [f"{name}={shown_value(name, getattr(self, name))}" for name in sorted(self.model_fields_set)]
        return f"{type(self).__name__}({', '.join(shown)})"

    __str__ = __repr__

    # checks of more than one option, or with a message of their own

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
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
            except (TypeError, ValueError):
                continue  # the field's own check has the better message
            if maximum not in values and low > cls.model_fields[maximum].default:
                values[maximum] = low  # as Java: if only the lower bound is given, the back-off is constant
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
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
        return self

    # internals

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls._describe_options()

    @classmethod
    def _describe_options(cls) -> None:
        """Put the options into the docstring, for ``help()``."""
        summary = (cls.__doc__ or "").partition(_OPTIONS_HEADING)[0].rstrip()
        cls.__doc__ = summary + _OPTIONS_HEADING + "\n".join(_help_lines(cls))

    @classmethod
    def _from_strings(cls, values: dict[str, Any], variables: Mapping[str, str]) -> Self:
        """``variables`` maps options to the environment variables that their values came from."""
        config = cls.__new__(cls)
        try:
            config._validate(values, strict=False)
        except ConfigurationError as error:
            named = [name for name in variables if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error))]
            if not named:
                raise
            origins = ", ".join(f"{name} is from the environment's {variables[name]}" for name in named)
            raise ConfigurationError(f"{error} ({origins})") from None
        return config

    def _validate(self, values: dict[str, Any], strict: bool) -> None:
        _check_names(type(self), values)
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self, strict=strict)
        except ValidationError as error:
            raise _configuration_error(error, values) from None


def is_switch(name: str) -> bool:
    """Whether an environment variable of this name, behind the prefix, is a switch of the package, and no option."""
    return name in _RESERVED_VARIABLES


def hint_for(config: type[ClientConfig], name: str) -> str:
    """The advice for a name that is no option."""
    return _hint(config, name)


def environment_variables(prefix: str) -> dict[str, str]:
    """The variables of the environment that are meant as options, by the option's name."""
    variables = {name[len(prefix) :].lower(): name for name in os.environ if name.upper().startswith(prefix)}
    return {name: variable for name, variable in variables.items() if not is_switch(name)}


_OPTIONS_HEADING: Final = "\n\nOptions, with the name that Kafka has for them:\n\n"
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
            f"client_id={client_id[:100]!r} has a lone surrogate, which is no character: write text that UTF-8 can hold"
        ) from None
    if size > MAX_CLIENT_ID_BYTES:
        raise ConfigurationError(
            f"client_id={client_id[:20]!r}… has {size:,} bytes: write {MAX_CLIENT_ID_BYTES:,} or fewer"
        )


def _help_lines(config: type[ClientConfig]) -> list[str]:
    lines = []
    for name, field in config.model_fields.items():
        kafka_name = config.kafka_names.get(name, name.replace("_", "."))
        default = "required" if field.is_required() else f"default {field.default!r}"
        lines.append(f"{name} ({kafka_name or 'not in Kafka'}; {default})")
        lines.extend(textwrap.wrap(field.description or "", 100, initial_indent="    ", subsequent_indent="    "))
    return lines


def _check_names(config: type[ClientConfig], values: Mapping[str, Any]) -> None:
    """Raise for unknown options, naming ours if it is another client's option, else the three most similar ones."""
    problems = []
    for name in values:
        if name not in config.model_fields:
            shown = name if len(name) <= 100 else name[:100] + "…"
            problems.append(f"unknown option {shown!r}: {_hint(config, name)}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def _hint(config: type[ClientConfig], name: str) -> str:
    """The advice for an unknown option."""
    plain = name.replace(".", "_").replace("-", "_").lower()
    if plain in config.model_fields:
        return f"write {plain}, or use {config.__name__}.from_properties for Kafka's own spelling"
    advice = advice_for(plain, config.model_fields)
    if advice is not None:
        return advice
    near = difflib.get_close_matches(plain, list(config.model_fields), n=3, cutoff=0.6)
    if not near:
        return f"no option is called like that; help({config.__name__}) has them all"
    return f"did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?"


def _configuration_error(error: ValidationError, values: Mapping[str, Any]) -> ConfigurationError:
    # dict: an option that takes several types is reported once, not once per type
    return ConfigurationError("; ".join(dict.fromkeys(_explain(details, values) for details in error.errors())))


def _explain(details: Any, values: Mapping[str, Any]) -> str:
    """One of pydantic's errors in our words: option, value, limit, what to write."""
    name = str(details["loc"][0]) if details["loc"] else ""
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing: write {name}=…" + (" with host:port" if name == "bootstrap_servers" else "")
    if not name:
        return str(context.get("error", details["msg"]))
    value = values.get(name)
    given = f"{name}={shown_value(name, value)}"
    limits = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
    if kind in limits:
        key, words = limits[kind]
        return f"{given} is out of range: write {words} {context[key]}"
    if kind == "literal_error":
        return f"{given} is unknown: write {context['expected']}"
    if name == "bootstrap_servers":
        return f"{given}: write 'host:port', 'host1:port1,host2:port2', or a list of such"
    if kind.startswith("int") and isinstance(value, str | float):
        return f"{given} is not a whole number" + _suggested_int(name, value)
    if kind == "value_error":
        return f"{given}: {context['error']}"
    return f"{given} ({type(value).__name__}): {details['msg']}"


def _suggested_int(name: str, value: str | float) -> str:
    try:
        return f": write {name}={int(float(value))}"
    except (ValueError, OverflowError):
        return ": write digits only" + (", in milliseconds" if name.endswith("_ms") else "")


def shown_value(name: str, value: Any) -> str:
    """An option's value for a message: no secret, and never an error, whatever its own repr does."""
    if is_secret_name(name) and value is not None:
        return "<hidden>"
    if isinstance(value, int) and value.bit_length() > SHOWN_BITS:
        return f"<a number of {value.bit_length()} bits>"
    try:
        return repr(value)
    except Exception:  # of something inside of it
        return f"<{type(value).__name__}>"


ClientConfig._describe_options()
