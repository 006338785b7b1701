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
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from ..common import ExponentialBackoff, parse_addresses
from ..errors import ConfigurationError
from ..observability import is_secret_name

__all__ = ["ClientConfig", "Milliseconds"]

# Options of other clients, or of Kafka's Java client, that people write here; and what to write.
_HINTS: Final[Mapping[str, str]] = {
    "brokers": "write bootstrap_servers",
    "hosts": "write bootstrap_servers",
    "bootstrap_server": "write bootstrap_servers",
    "metadata_broker_list": "write bootstrap_servers",
    "loop": "leave it out: the running loop is used",
    "api_version": "leave it out: versions are agreed on with each broker",
    "api_version_auto_timeout_ms": "leave it out: versions are agreed on with each broker",
    "broker_version_fallback": "leave it out: versions are agreed on with each broker",
    "socket_keepalive_enable": "leave it out: TCP keepalive is always on",
    "socket_nagle_disable": "leave it out: TCP_NODELAY is always on",
    "enable_metrics_push": "leave it out: client metrics are not pushed",
    "max_in_flight": "write max_in_flight_requests_per_connection",
}
# Variables with the prefix of from_env that are switches of the package, not options.
_RESERVED_VARIABLES: Final = frozenset({"interpreted", "no_extensions", "require_kafka", "cache"})


def _not_a_bool(value: Any) -> Any:
    if isinstance(value, bool):
        raise ValueError("a number is needed, not a bool")
    return value


Milliseconds = Annotated[int, BeforeValidator(_not_a_bool), Field(ge=0)]
"""A duration option: whole milliseconds, 0 or more."""


class ClientConfig(BaseModel):
    """Options shared by all clients; immutable. Raises ConfigurationError for anything that cannot be meant."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    environment_prefix: ClassVar[str] = "AIOKAFKAPY_"

    bootstrap_servers: str | Sequence[str]
    """``"host:9092,host2:9092"``, or a sequence of addresses; some of the cluster's brokers are enough."""
    client_id: str = "aiokafkapy"
    """Names this client in the broker's logs and quotas."""
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"] = "use_all_dns_ips"
    """Every address of a name is used in both cases; canonical names matter only to TLS and Kerberos."""
    security_protocol: str = "PLAINTEXT"

    connections_max_idle_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=-1)] = 180_000
    """Close a connection that was not used for this long; -1 never does."""
    max_in_flight_requests_per_connection: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1)] = 5
    receive_buffer_bytes: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=-1)] = 32_768
    """SO_RCVBUF; -1 leaves it to the system."""
    send_buffer_bytes: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=-1)] = 131_072
    """SO_SNDBUF; -1 leaves it to the system, which lets it grow with the link. A fixed size, as Kafka's, takes a
    request of 1 MB in four writes, and no more than itself in a round trip: for bulk loads and distant brokers take -1.
    """
    tcp_user_timeout_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1)] | None = None
    """Linux's TCP_USER_TIMEOUT: how long written bytes may stay unacknowledged before the connection is given up."""
    reconnect_backoff_ms: Milliseconds = 50
    reconnect_backoff_max_ms: Milliseconds = 1_000
    socket_connection_setup_timeout_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1)] = 10_000
    socket_connection_setup_timeout_max_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1)] = 30_000

    request_timeout_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=1)] = 30_000
    """From writing a request to its answer; then the connection is closed."""
    retry_backoff_ms: Milliseconds = 100
    retry_backoff_max_ms: Milliseconds = 1_000

    metadata_max_age_ms: Milliseconds = 300_000
    metadata_max_idle_ms: Annotated[int, BeforeValidator(_not_a_bool), Field(ge=5_000)] = 300_000
    """Forget a topic that was not used for this long."""
    metadata_recovery_strategy: Literal["rebootstrap", "none"] = "rebootstrap"
    metadata_recovery_rebootstrap_trigger_ms: Milliseconds = 300_000

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: Any) -> None:
            self._validate(options, strict=True)

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any], **options: Any) -> Self:
        """Make one from Kafka's own names, ``{"linger.ms": "5"}``; strings are converted. ``options`` come on top."""
        values = {name.strip().replace(".", "_").replace("-", "_"): value for name, value in properties.items()}
        return cls._from_strings(values | options)

    @classmethod
    def from_env(cls, prefix: str | None = None, **options: Any) -> Self:
        """Make one from environment variables, ``AIOKAFKAPY_BOOTSTRAP_SERVERS``; ``options`` come on top."""
        prefix = cls.environment_prefix if prefix is None else prefix
        found = {
            name[len(prefix) :].lower(): value for name, value in os.environ.items() if name.upper().startswith(prefix)
        }
        return cls._from_strings(
            {name: value for name, value in found.items() if name not in _RESERVED_VARIABLES} | options
        )

    @property
    def bootstrap_addresses(self) -> list[tuple[str, int]]:
        """The bootstrap servers as (host, port) pairs."""
        return parse_addresses(self.bootstrap_servers)

    @property
    def reconnect_backoff(self) -> ExponentialBackoff:
        """Delays between attempts to connect to a node."""
        return ExponentialBackoff(self.reconnect_backoff_ms / 1000, self.reconnect_backoff_max_ms / 1000)

    @property
    def retry_backoff(self) -> ExponentialBackoff:
        """Delays between attempts of a request."""
        return ExponentialBackoff(self.retry_backoff_ms / 1000, self.retry_backoff_max_ms / 1000)

    @property
    def connection_setup_timeout(self) -> ExponentialBackoff:
        """Time-outs of setting a connection up."""
        return ExponentialBackoff(
            self.socket_connection_setup_timeout_ms / 1000, self.socket_connection_setup_timeout_max_ms / 1000
        )

    def __repr__(self) -> str:
        shown = [f"{name}={_shown(name, getattr(self, name))}" for name in sorted(self.model_fields_set)]
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
                # Kafka takes these in any case.
                values[name] = values[name].upper() if name == "security_protocol" else values[name].lower()
        for base, maximum in _BACKOFF_PAIRS:
            try:
                low = int(values.get(base, 0))
            except (TypeError, ValueError):
                continue  # said with the right words when the field itself is checked
            if maximum not in values and low > cls.model_fields[maximum].default:
                values[maximum] = low  # as Java: only the lower one given means a constant back-off
        return values

    @model_validator(mode="after")
    def _check(self) -> Self:
        parse_addresses(self.bootstrap_servers)
        if self.security_protocol in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise ConfigurationError(
                f"security_protocol={self.security_protocol!r} is not available in this version: write 'PLAINTEXT'"
            )
        if self.security_protocol != "PLAINTEXT":
            raise ConfigurationError(f"security_protocol={self.security_protocol!r} is unknown: write 'PLAINTEXT'")
        for base, maximum in _BACKOFF_PAIRS:
            low, high = getattr(self, base), getattr(self, maximum)
            if low > high:
                raise ConfigurationError(f"{base}={low} is over {maximum}={high}: write {maximum}={low} or more")
        return self

    # internals

    @classmethod
    def _from_strings(cls, values: dict[str, Any]) -> Self:
        config = cls.__new__(cls)
        config._validate(values, strict=False)
        return config

    def _validate(self, values: dict[str, Any], strict: bool) -> None:
        _check_names(type(self), values)
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self, strict=strict)
        except ValidationError as error:
            raise _configuration_error(type(self), error, values) from None


_BACKOFF_PAIRS: Final = (
    ("reconnect_backoff_ms", "reconnect_backoff_max_ms"),
    ("retry_backoff_ms", "retry_backoff_max_ms"),
    ("socket_connection_setup_timeout_ms", "socket_connection_setup_timeout_max_ms"),
)


def _check_names(config: type[ClientConfig], values: Mapping[str, Any]) -> None:
    """Raise for names that are no options, with the nearest one that is."""
    known = list(config.model_fields)
    problems = []
    for name in values:
        if name in config.model_fields:
            continue
        hint = _HINTS.get(name)
        dotted = name.replace(".", "_").replace("-", "_").lower()
        if hint is None and dotted != name and dotted in config.model_fields:
            hint = f"write {dotted}, or use {config.__name__}.from_properties for Kafka's own spelling"
        if hint is None:
            near = difflib.get_close_matches(dotted, known, n=1, cutoff=0.6)
            hint = f"did you mean {near[0]}?" if near else f"the options are: {', '.join(known)}"
        problems.append(f"unknown option {name!r}: {hint}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def _configuration_error(
    config: type[ClientConfig], error: ValidationError, values: Mapping[str, Any]
) -> ConfigurationError:
    # dict: an option that may have several types is told once, not once per type
    return ConfigurationError("; ".join(dict.fromkeys(_explain(config, details, values) for details in error.errors())))


def _explain(config: type[ClientConfig], details: Any, values: Mapping[str, Any]) -> str:
    """One of pydantic's errors in our words: option, value, limit, what to write."""
    name = str(details["loc"][0]) if details["loc"] else ""
    kind, context = details["type"], details.get("ctx", {})
    if kind == "missing":
        return f"{name} is missing: write {name}=…" + (" with host:port" if name == "bootstrap_servers" else "")
    if not name:
        return str(context.get("error", details["msg"]))
    value = values.get(name)
    given = f"{name}={_shown(name, value)}"
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


def _shown(name: str, value: Any) -> str:
    return "<hidden>" if is_secret_name(name) and value is not None else repr(value)
