"""Properties that were written for Kafka's Java client or for librdkafka, by our names.

Decides about each name: it is one of ours, is translated with its value, is ignored, or is refused. ``foreign_options``
has the names; the configuration checks the values, and the names that no client has.

Rules:

- A translation changes no result: an option without an exact counterpart is ignored only where its loss changes
  neither records nor the security of a connection, and one warning names them all. Others are refused with advice.
- A foreign option that restates our own behaviour, or has no value (``interceptor.classes=``), is passed over.
- Two names of one option have to agree.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any, Final, NamedTuple

from ...common import MAX_INT, MAX_LONG
from ...errors import ConfigurationError
from ...observability import get_logger
from ...record.compression import LEVEL_OPTIONS
from .config_fields import shown_value
from .foreign_options import IGNORED, IGNORED_PREFIXES, LIBRDKAFKA_NAMES, advice_for, is_built_in

__all__ = ["Translation", "plain_name", "translated"]

_logger = get_logger(__name__)


class Translation(NamedTuple):
    """``options`` by our names; ``given_as`` has the other client's names of the translated ones."""

    options: dict[str, object]
    given_as: dict[str, str]


def plain_name(name: str) -> str:
    """A property's name as options have it, with underscores."""
    return name.strip().replace(".", "_").replace("-", "_")


def translated(properties: Mapping[str, object], known: Container[str]) -> Translation:
    """The properties, for a configuration that has the options ``known``. Names that nobody knows are left as they are.

    Logs one warning of the ignored properties. Raises ConfigurationError for one that cannot be kept here, and for two
    names of one option with different values.
    """
    values = {plain_name(name): value for name, value in properties.items()}
    found: dict[str, object] = {}
    names: dict[str, str] = {}
    ignored: list[str] = []
    for given, value in properties.items():
        name = plain_name(given)
        reason = _reason_to_ignore(name, known)
        if reason is not None:
            ignored += [] if _says_nothing(value) else [f"{given.strip()}: {reason}"]
            continue
        for ours, meant in _meanings(given.strip(), name, value, values, known):
            if ours in found and not _is_same(found[ours], meant):
                raise ConfigurationError(
                    f"{names[ours]}={shown_value(ours, found[ours])} and {given.strip()}={shown_value(ours, meant)} "
                    f"are two names of {ours}: write one of them"
                )
            found[ours], names[ours] = meant, given.strip()
    if ignored:
        _logger.warning("config.ignored", options=sorted(ignored))
    return Translation(found, {ours: given for ours, given in names.items() if plain_name(given) != ours})


# internals


def _reason_to_ignore(name: str, known: Container[str]) -> str | None:
    if name in known:
        return None
    return "it is for that client's channels" if name.startswith(IGNORED_PREFIXES) else IGNORED.get(name)


def _meanings(
    given: str, name: str, value: object, values: Mapping[str, object], known: Container[str]
) -> Iterator[tuple[str, object]]:
    """Our options, with their values, that a property stands for: none, one or two."""
    if _is_passed_over(name, value, known):
        return
    special = _SPECIAL.get(name)
    if special is not None:
        yield from special(value, values)
        return
    ours = name if name in known else LIBRDKAFKA_NAMES.get(name, "")
    if ours in known:
        yield ours, _CONVERTED.get(name, _unchanged)(value)
        return
    advice = None if name in LIBRDKAFKA_NAMES else advice_for(name.lower(), known)
    if advice is not None:
        raise ConfigurationError(f"{given} is another client's option: {advice}")
    yield name, value


def _is_passed_over(name: str, value: object, known: Container[str]) -> bool:
    """True where an option restates our own behaviour."""
    if isinstance(value, str) and is_built_in(name, value):
        return True
    if str(value).strip().lower() in _AS_HERE.get(name, ()):
        return True
    if name in known or not _says_nothing(value):
        return False
    return name in _SPECIAL or name in LIBRDKAFKA_NAMES or advice_for(name, known) is not None


def _says_nothing(value: object) -> bool:
    value = value.strip() if isinstance(value, str) else value
    return value is None or (isinstance(value, str | list | tuple) and not value)


def _is_same(one: object, other: object) -> bool:
    return one is other or str(one).strip().lower() == str(other).strip().lower()


# Values that restate our own behaviour, of foreign options and of ours as other clients write them, in lower case.
_UTF_8: Final = ("utf-8", "utf8")
_AS_HERE: Final[Mapping[str, tuple[str, ...]]] = {
    "compression_codec": ("inherit",),
    "compression_type": ("inherit",),
    "queue_buffering_max_messages": ("0",),
    "queuing_strategy": ("fifo",),
    "enable_ssl_certificate_verification": ("true",),
    "ssl_ca_location": ("probe",),
    "ssl_engine_id": ("dynamic",),
    "ssl_ca_certificate_stores": ("root",),
    "ssl_keymanager_algorithm": ("sunx509", "pkix"),
    "ssl_trustmanager_algorithm": ("pkix", "sunx509"),
    "enable_sasl_oauthbearer_unsecure_jwt": ("false",),
    "sasl_oauthbearer_method": ("default", "oidc"),
    "sasl_oauthbearer_grant_type": ("client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"),
    "sasl_oauthbearer_metadata_authentication_type": ("none",),
    "test_mock_num_brokers": ("0",),
    "serializer_encoding": _UTF_8,
    "key_serializer_encoding": _UTF_8,
    "value_serializer_encoding": _UTF_8,
}


def _unchanged(value: object) -> object:
    return value


def _bytes_of_kbytes(value: object) -> object:
    number = _number(value)
    return value if number is None else number * 1_024


def _replaced(special: int, meant: int) -> Callable[[object], object]:
    """``meant`` in the place of a number with a meaning of its own."""
    return lambda value: meant if _number(value) == special else value


def _number(value: object) -> int | None:
    """A whole number, also from text; None for anything else, which the field's own check refuses."""
    try:
        return None if isinstance(value, bool) else int(value)  # type: ignore[call-overload]
    except (TypeError, ValueError, OverflowError):
        return None


_CONVERTED: Final[Mapping[str, Callable[[object], object]]] = {
    "queue_buffering_max_kbytes": _bytes_of_kbytes,
    "message_timeout_ms": _replaced(0, MAX_INT),  # without end
    "topic_metadata_refresh_interval_ms": _replaced(-1, MAX_LONG),  # never
    "socket_send_buffer_bytes": _replaced(0, -1),  # the system's
    "socket_receive_buffer_bytes": _replaced(0, -1),
}


# options whose counterpart depends on their value

_Meanings = Iterator[tuple[str, object]]
_INTERCEPTORS: Final = "a Java class cannot run here: write interceptors, objects with hooks"


def _level(value: object, values: Mapping[str, object]) -> _Meanings:
    """librdkafka has one level, we have one for each codec with levels. -1 is the codec's default, as without it."""
    codec = values.get("compression_type", values.get("compression_codec"))
    option = LEVEL_OPTIONS.get(str(codec).strip().lower())
    if option is not None and _number(value) != -1:
        # LZ4's 0 and 1 are the same, its quickest.
        yield option, 1 if option == LEVEL_OPTIONS["lz4"] and _number(value) == 0 else value


_DEFAULT_CLASS: Final = "org.apache.kafka.clients.producer.internals.DefaultPartitioner"
_STICKY_CLASS: Final = "org.apache.kafka.clients.producer.UniformStickyPartitioner"


def _partitioner_class(value: object, values: Mapping[str, object]) -> _Meanings:
    """Java's partitioners: its default behaves as ours does, with keys and without."""
    name = value.strip() if isinstance(value, str) else value
    if name == _STICKY_CLASS:
        yield "partitioner_ignore_keys", True
    elif name != _DEFAULT_CLASS:
        yield "partitioner", name


def _interceptor_classes(value: object, values: Mapping[str, object]) -> _Meanings:
    parts = value if isinstance(value, list | tuple) else [value]
    if any(isinstance(one, str) for one in parts):
        raise ConfigurationError(f"interceptor.classes={value!r}: {_INTERCEPTORS}")
    yield "interceptors", value


_SPECIAL: Final[Mapping[str, Callable[[Any, Mapping[str, object]], _Meanings]]] = {
    "compression_level": _level,
    "partitioner_class": _partitioner_class,
    "interceptor_classes": _interceptor_classes,
}
