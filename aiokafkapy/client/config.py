"""The options of every client: the cluster's address, connections, requests, metadata.

Owns the sources of options (keyword arguments, properties, URLs, the environment) and the words of errors; the network
and metadata options are in ``config_fields``, and ``ProducerConfig`` and ``ReaderConfig`` add theirs.
Kafka's counterparts are ``CommonClientConfigs`` and ``AbstractConfig``: names are Kafka's with dots as underscores,
``*_ms`` are whole milliseconds, defaults are Kafka 4.1's except for ``client_id`` (never empty, so that a broker's log
can name us), ``connections_max_idle_ms`` (below the time after which cloud load balancers silently cut a connection)
and ``tcp_user_timeout_ms``, which Kafka does not have.

Rules: a configuration never changes; everything is checked when it is made, and an error says which option, which
value, the limit, and what to write instead; no message and no ``repr`` shows a secret. Keyword arguments must have the
right type; properties and environment variables are strings and are converted.
"""

from __future__ import annotations

import difflib
import os
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ..errors import ConfigurationError
from ..option_fields import declarations
from .options.config_fields import ClientConfigFields, Count, Milliseconds, shown_value
from .options.foreign_options import advice_for
from .options.translation import plain_name, translated
from .options.urls import options_of_url

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    _Base = ClientConfigFields
else:
    _Base = BaseModel

__all__ = [
    "ClientConfig",
    "Count",
    "Milliseconds",
    "complete_config",
    "environment_variables",
    "fill_from_text",
    "given_config",
    "shown_value",
]

M = TypeVar("M", bound=BaseModel)
C = TypeVar("C", bound="ClientConfig")

# Environment variables with from_env's prefix that are switches of the package, not options.
_RESERVED_VARIABLES: Final = frozenset(
    {
        "cache",
        "console_key_password",
        "console_token",
        "conversations",
        "interpreted",
        "no_extensions",
        "pictures",
        "require_browser",
        "require_clients",
        "require_kafka",
        "require_kerberos",
        "require_postgres",
        "simulation_seed",
        "tap",
        "tap_payloads",
    }
)


class ClientConfig(_Base):
    """Options shared by all clients; immutable. Raises ConfigurationError for an invalid option."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True)

    if not TYPE_CHECKING:  # checkers know the fields, and the constructor from them
        vars().update(declarations(ClientConfigFields))

        def __init__(self, **options: Any) -> None:
            self._validate(options, strict=True)

    @classmethod
    def from_properties(cls, properties: Mapping[str, object], **options: object) -> Self:
        """Create one from Kafka's own names, ``{"linger.ms": "5"}``; strings are converted. ``options`` take
        precedence.

        Properties that were written for librdkafka or for Kafka's Java client are translated, with their units. Options
        without a meaning here are ignored, with one warning of all (``config.ignored``); one whose loss would change a
        result raises ConfigurationError.
        """
        return cls._from_properties(properties, options)

    @classmethod
    def from_url(cls, url: str, **options: object) -> Self:
        """Create one from a URL, ``kafka+sasl-ssl://user:password@host:9093/?sasl.mechanism=PLAIN&acks=all``; the query
        has options by Kafka's names or ours. ``options`` take precedence.
        """
        return cls._from_properties(options_of_url(url), options)

    @classmethod
    def from_env(cls, prefix: str | None = None, **options: object) -> Self:
        """Create one from environment variables, ``AIOKAFKAPY_BOOTSTRAP_SERVERS``; ``options`` take precedence. Neither
        the prefix nor the variables have to be in capital letters.
        """
        prefix = cls.environment_prefix if prefix is None else prefix
        variables = environment_variables(prefix)
        values = {name: os.environ[variable] for name, variable in variables.items()}
        return cls._from_strings(
            values | options,
            {name: f"the environment's {variable}" for name, variable in variables.items() if name not in options},
        )

    def __repr__(self) -> str:
        shown = [f"{name}={shown_value(name, getattr(self, name))}" for name in sorted(self.model_fields_set)]
        return f"{type(self).__name__}({', '.join(shown)})"

    __str__ = __repr__

    @model_validator(mode="before")
    @classmethod
    def _normalize(cls, values: object) -> object:
        return cls.normalized(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _check(self) -> Self:
        self.check()
        return self

    # internals

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: object) -> None:
        cls._describe_options()

    @classmethod
    def _describe_options(cls) -> None:
        """Put the options into the docstring, for ``help()``."""
        summary = (cls.__doc__ or "").partition(_OPTIONS_HEADING)[0].rstrip()
        cls.__doc__ = summary + _OPTIONS_HEADING + "\n".join(_help_lines(cls))

    @classmethod
    def _from_properties(cls, properties: Mapping[str, object], options: dict[str, object]) -> Self:
        found, given_as = translated(properties, cls.model_fields)
        return cls._from_strings(
            found | options, {name: given for name, given in given_as.items() if name not in options}
        )

    @classmethod
    def _from_strings(cls, values: dict[str, object], sources: Mapping[str, str]) -> Self:
        """``sources`` has the origins of options' values, for errors."""
        config = cls.__new__(cls)
        try:
            fill_from_text(config, values)
        except ConfigurationError as error:
            named = options_in(error, sources)
            if not named:
                raise
            origins = ", ".join(f"{name} is from {sources[name]}" for name in named)
            raise ConfigurationError(f"{error} ({origins})") from None
        return config

    def _validate(self, values: dict[str, object], *, strict: bool) -> None:
        _check_names(type(self), values)
        try:
            self.__pydantic_validator__.validate_python(values, self_instance=self, strict=strict)
        except ValidationError as error:
            raise _configuration_error(error, values) from None


def fill_from_text(config: ClientConfig, values: dict[str, object]) -> None:
    """Set the options of a new configuration, of which texts are converted; for constructors of derived classes.

    Raises ConfigurationError.
    """
    config._validate(values, strict=False)


def is_switch(name: str) -> bool:
    """Whether an environment variable of this name, behind the prefix, is a switch of the package, and no option."""
    return name in _RESERVED_VARIABLES


def options_in(error: ConfigurationError, names: Iterable[str]) -> list[str]:
    """The options among these that an error's message names."""
    return [name for name in names if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", str(error))]


def hint_for(config: type[ClientConfig], name: str) -> str:
    """The advice for a name that is not an option."""
    plain = plain_name(name).lower()
    if plain in config.model_fields:
        return f"write {plain}, or use {config.__name__}.from_properties for Kafka's own spelling"
    advice = advice_for(plain, config.model_fields)
    if advice is not None:
        return advice
    near = difflib.get_close_matches(plain, list(config.model_fields), n=3, cutoff=0.6)
    if not near:
        return f"there is no such option; help({config.__name__}) lists all"
    return f"did you mean {', '.join(near[:-1])}{' or ' if near[1:] else ''}{near[-1]}?"


def environment_variables(prefix: str) -> dict[str, str]:
    """The environment's variables that stand for options, by the option's name."""
    found = (name for name in os.environ if name.upper().startswith(prefix.upper()))
    variables = {name[len(prefix) :].lower(): name for name in found}
    return {name: variable for name, variable in variables.items() if not is_switch(name)}


_OPTIONS_HEADING: Final = "\n\nOptions, with the name that Kafka has for them:\n\n"


def _help_lines(config: type[ClientConfig]) -> list[str]:
    lines = []
    for name, field in config.model_fields.items():
        kafka_name = config.kafka_names.get(name, name.replace("_", "."))
        default = "required" if field.is_required() else f"default {field.default!r}"
        lines.append(f"{name} ({kafka_name or 'not in Kafka'}; {default})")
        lines.extend(textwrap.wrap(field.description or "", 100, initial_indent="    ", subsequent_indent="    "))
    return lines


def _check_names(config: type[ClientConfig], values: Mapping[str, object]) -> None:
    """Raise for unknown options, naming ours if it is another client's option, else the three most similar ones."""
    problems = []
    for name in values:
        if name not in config.model_fields:
            shown = name if len(name) <= 100 else name[:100] + "…"
            problems.append(f"unknown option {shown!r}: {hint_for(config, name)}")
    if problems:
        raise ConfigurationError("; ".join(problems))


def given_config(
    kind: type[C], bootstrap_servers: str | Sequence[str] | None, config: C | None, options: Mapping[str, Any]
) -> C:
    """A client's configuration, given as options or ready. Raises ConfigurationError when both were given."""
    given = dict(options)
    if bootstrap_servers is not None:
        given["bootstrap_servers"] = bootstrap_servers
    return kind(**given) if config is None else complete_config(kind, config, given)


def complete_config(kind: type[M], config: M, given: Iterable[str]) -> M:
    """A ready configuration of this kind. Raises ConfigurationError when options were given beside it."""
    if not isinstance(config, kind):
        raise ConfigurationError(f"config is a {type(config).__name__}: write config={kind.__name__}(…)")
    if names := sorted(given):
        raise ConfigurationError(
            f"config and also {', '.join(names)} were given: put the options into {kind.__name__}(…)"
        )
    return config


def _configuration_error(error: ValidationError, values: Mapping[str, object]) -> ConfigurationError:
    # dict: an option that takes several types is reported once, not once per type
    return ConfigurationError("; ".join(dict.fromkeys(_explain(details, values) for details in error.errors())))


def _explain(details: ErrorDetails, values: Mapping[str, object]) -> str:
    """One of pydantic's errors in our words: option, value, limit, remedy."""
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
    if kind.startswith("bool"):
        return f"{given} is unknown: write True or False"
    if kind == "string_type":
        return f"{given} ({type(value).__name__}) is not a string: write it in quotes"
    if kind == "value_error":
        return f"{given}: {context['error']}"
    return f"{given} ({type(value).__name__}): {details['msg']}"


def _suggested_int(name: str, value: str | float) -> str:
    try:
        return f": write {name}={int(float(value))}"
    except (ValueError, OverflowError):
        return ": write digits only" + (", in milliseconds" if name.endswith("_ms") else "")


ClientConfig._describe_options()
