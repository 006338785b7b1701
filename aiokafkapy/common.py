"""Value types shared by all layers: nodes, topic-partitions, consumed records, addresses, topic names, JSON,
back-off, percentiles.

Nothing here does I/O, reads a clock or knows a protocol message. Kafka's counterparts are
``org.apache.kafka.common.Node``, ``TopicPartition``, ``PartitionInfo``, ``internals.Topic`` and
``utils.ExponentialBackoff``.

Rules: values are immutable and cheap to hash; ``*_ms`` is integer milliseconds, a bare duration is float seconds.
"""

from __future__ import annotations

import datetime
import math
import random
import re
from collections.abc import Mapping, Sequence
from operator import index
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .errors import ConfigurationError, InvalidTopicError

__all__ = [
    "DEFAULT_PORT",
    "EPOCH",
    "HIDDEN",
    "LAST_PORT",
    "MAX_INT",
    "MAX_LONG",
    "MAX_PARTITION",
    "MAX_SHORT",
    "MAX_STRING_SIZE",
    "MAX_TOPIC_NAME_LENGTH",
    "NO_LEADER",
    "NO_LEADER_EPOCH",
    "NO_TIMESTAMP",
    "SHOWN_BITS",
    "TOPIC_NAME_CHARACTERS",
    "Buffer",
    "ConsumedRecord",
    "ExponentialBackoff",
    "Headers",
    "JsonLike",
    "JsonObject",
    "JsonValue",
    "Node",
    "PartitionInfo",
    "TopicPartition",
    "bytes_as_json",
    "check_topic_name",
    "counted",
    "format_address",
    "group_id_of",
    "integer_of",
    "milliseconds",
    "number_within",
    "parse_address",
    "parse_addresses",
    "percentile",
    "text_of",
    "timeout_of",
    "topic_partition_of",
]

NO_TIMESTAMP: Final = -1
"""The protocol's value for "no timestamp"."""
NO_LEADER: Final = -1
NO_LEADER_EPOCH: Final = -1
DEFAULT_PORT: Final = 9092
LAST_PORT: Final = 65_535
MAX_TOPIC_NAME_LENGTH: Final = 249
TOPIC_NAME_CHARACTERS: Final = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
HIDDEN: Final = "<hidden>"
"""The text shown in place of a secret."""
SHOWN_BITS: Final = 128
"""A number of more bits is not written out: Python refuses to format very long ones."""

MAX_SHORT: Final = 2**15 - 1
MAX_INT: Final = 2**31 - 1
MAX_LONG: Final = 2**63 - 1
"""The bounds of the protocol's integers and of Kafka's option types."""
MAX_PARTITION: Final = MAX_INT
MAX_STRING_SIZE: Final = MAX_SHORT
"""Bytes of UTF-8 in a STRING of the protocol. Kafka refuses more in its compact form as well."""
EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
"""The moment from which the protocol counts milliseconds."""
_TOPIC_NAME: Final = re.compile(f"[{re.escape(''.join(sorted(TOPIC_NAME_CHARACTERS)))}]{{1,{MAX_TOPIC_NAME_LENGTH}}}")
_SHOWN_OF_A_NAME: Final = 40
"""Characters of a topic name in an error message; the rest is cut."""

Buffer: TypeAlias = bytes | bytearray | memoryview
"""Bytes, in any form that is not copied to be read."""

Headers: TypeAlias = Sequence[tuple[str, bytes | None]]
"""Record headers, in order; keys may repeat and a value may be None (KIP-82)."""

JsonValue: TypeAlias = "dict[str, JsonValue] | list[JsonValue] | str | int | float | bool | None"
"""A value that was read from JSON, as ``json.loads`` makes it."""
JsonObject: TypeAlias = dict[str, JsonValue]
"""A JSON object that was read."""
JsonLike: TypeAlias = "Mapping[str, JsonLike] | Sequence[JsonLike] | str | int | float | bool | None"
"""A value that can be written as JSON."""


class Node(NamedTuple):
    """A broker's address. Bootstrap addresses have negative ids, counted down from -1, as in Java."""

    node_id: int
    host: str
    port: int
    rack: str | None = None

    @property
    def is_empty(self) -> bool:
        """True for a node that has no address (Java's ``Node.noNode()``)."""
        return self.host == "" or self.port < 0

    @property
    def address(self) -> str:
        """``host:port``, an IPv6 host in brackets."""
        return format_address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.address} (id {self.node_id})"


class TopicPartition(NamedTuple):
    """A topic's name and a partition number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionInfo(NamedTuple):
    """One partition in metadata; ``leader`` is a node id, or ``NO_LEADER``."""

    topic: str
    partition: int
    leader: int = NO_LEADER
    leader_epoch: int = NO_LEADER_EPOCH
    replicas: tuple[int, ...] = ()
    in_sync_replicas: tuple[int, ...] = ()
    offline_replicas: tuple[int, ...] = ()


class ConsumedRecord(NamedTuple):
    """One record of a partition's log. ``timestamp_type`` is 0 for create time, 1 for log append time."""

    offset: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    timestamp_ms: int = NO_TIMESTAMP
    topic: str = ""
    partition: int = -1
    timestamp_type: int = 0


_SHORTEST_BACKOFF: Final = 0.001
"""Seconds of the second delay of a back-off that begins with 0."""


class ExponentialBackoff:
    """Delays that double from ``initial`` to ``maximum`` seconds, each spread by ± ``jitter``
    (KIP-580).

    With ``initial`` 0 the first delay is 0, and the next ones grow from a millisecond. In Java all stay 0, which is a
    busy loop while the cluster is unreachable.
    """

    __slots__ = ("initial", "jitter", "maximum")

    def __init__(self, initial: float, maximum: float, jitter: float = 0.2) -> None:
        self.initial = initial
        self.maximum = max(initial, maximum, 0.0 if initial else _SHORTEST_BACKOFF)
        self.jitter = jitter

    def delay(self, attempts: int) -> float:
        """Seconds to wait after ``attempts`` earlier failures (0 gives about ``initial``), never over ``maximum``."""
        # The exponent is capped so that a partition failing for days cannot overflow a float.
        initial = self.initial
        if not initial and attempts:
            initial, attempts = _SHORTEST_BACKOFF, attempts - 1
        base = min(self.maximum, initial * 2.0 ** min(attempts, 64))
        if self.jitter:
            base *= random.uniform(1 - self.jitter, 1 + self.jitter)
        return min(self.maximum, base)


def check_topic_name(name: object) -> None:
    """Raise InvalidTopicError unless ``name`` is a valid topic name (``Topic.validate``).

    Called for every name that comes in: an invalid one must not reach a request, where it would fail other topics.
    """
    if isinstance(name, str) and _TOPIC_NAME.fullmatch(name) and name not in (".", ".."):
        return
    if not isinstance(name, str):
        raise InvalidTopicError(f"{name!r:.{_SHOWN_OF_A_NAME}} is not the name of a topic: a str is needed")
    is_short = len(name) <= _SHOWN_OF_A_NAME
    shown = repr(name) if is_short else f"{name[:_SHOWN_OF_A_NAME]!r}... ({len(name)} characters)"
    raise InvalidTopicError(
        f"{shown} is not a valid name of a topic: write 1 to {MAX_TOPIC_NAME_LENGTH} of the characters a-z, A-Z, 0-9, "
        "'.', '_' and '-', but not '.' or '..'",
        topic=name,
    )


def parse_addresses(addresses: str | Sequence[str]) -> list[tuple[str, int]]:
    """Split ``"host:9092,[::1]:9093"`` (or a sequence of such) into (host, port) pairs, in order, without duplicates.

    The default port is 9092. Raises ConfigurationError naming the invalid part, or if there is no address.
    """
    parts = [addresses] if isinstance(addresses, str) else list(addresses)
    for part in parts:
        _refuse_url(part)
    found = [parse_address(piece) for part in parts for piece in part.split(",") if piece.strip()]
    if not found:
        raise ConfigurationError(
            f"bootstrap_servers is empty ({addresses!r}): write host:port, or host1:port1,host2:port2"
        )
    return list(dict.fromkeys(found))


def parse_address(text: str) -> tuple[str, int]:
    """Read one ``host``, ``host:port``, ``[ipv6]`` or ``[ipv6]:port``; raises ConfigurationError."""
    _refuse_url(text)
    text = text.strip()
    problem = f"bootstrap_servers: cannot read {text!r}: write host:port (IPv6 in brackets, as [::1]:9092)"
    if "/" in text or not text:
        raise ConfigurationError(problem)
    if text.startswith("["):
        host, closing, rest = text[1:].partition("]")
        if not closing or (rest and not rest.startswith(":")):
            raise ConfigurationError(problem)
        port_text = rest[1:]
    elif text.count(":") > 1:
        raise ConfigurationError(problem)
    else:
        host, _, port_text = text.partition(":")
    # The resolver would fail on these at every attempt, with other exceptions (a NUL, an empty or long label).
    labels = host.removesuffix(".").split(".")
    is_name = host.isprintable() and " " not in host and all(0 < len(label) < 64 for label in labels)
    if not is_name or (port_text and not (port_text.isascii() and port_text.isdigit())):
        raise ConfigurationError(problem)
    port = int(port_text) if port_text else DEFAULT_PORT
    if not 0 < port <= LAST_PORT:
        raise ConfigurationError(f"bootstrap_servers: port {port} of {text!r} is not between 1 and {LAST_PORT}")
    return host, port


def format_address(host: str, port: int) -> str:
    """``host:port``, an IPv6 host in brackets."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def milliseconds(value: datetime.timedelta | datetime.datetime | None) -> int:
    """A duration or a moment, which has a time zone, as whole milliseconds; None is -1, as on the wire."""
    if value is None:
        return -1
    if isinstance(value, datetime.datetime):
        value = value - EPOCH
    return value // datetime.timedelta(milliseconds=1)


def _refuse_url(text: str) -> None:
    """Raise for a URL, or for credentials before a host, without showing them. ``text`` is not split yet, as a password
    may have a comma.
    """
    if "://" not in text and "@" not in text:
        return
    before, at, servers = text.strip().rpartition("@")
    servers, has_query, _ = servers.partition("?")
    # In a query the @ may be a password's own.
    shown = "…" if "?" in before else f"{at and '…@'}{servers}{has_query and '?…'}"
    raise ConfigurationError(
        f"bootstrap_servers: cannot read {shown!r}: write host:port (IPv6 in brackets, as [::1]:9092), and credentials "
        "as sasl_username and sasl_password; from_url takes all in one URL"
    )


def bytes_as_json(data: bytes | None) -> str | dict[Literal["base64"], str] | None:
    """A record's key, value or header for JSON: as text, or in base64 if it is not UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        import base64

        return {"base64": base64.b64encode(data).decode()}


def counted(count: int, noun: str) -> str:
    """A number with its noun, in the plural unless it is 1."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value that ``share`` (0 to 1) of the ascending values do not exceed; there must be at least one value."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def integer_of(what: str, given: Any, wanted: str = "an int") -> int:
    """An int, or anything else with ``__index__``, such as NumPy's integers, but not a bool. Raises TypeError, whose
    text has ``what`` and ``wanted``.
    """
    cause = None
    if not isinstance(given, bool) and hasattr(type(given), "__index__"):
        try:
            return index(given)
        except Exception as error:
            cause = error
    raise TypeError(f"{what} is a {type(given).__name__}, not {wanted}") from cause


def number_within(what: str, given: Any, least: int, most: int) -> int:
    """As ``integer_of``, from ``least`` to ``most``; raises ValueError for any other."""
    number = integer_of(what, given)
    if not least <= number <= most:
        raise ValueError(f"{what} is {number}: write {least} to {most}")
    return number


def text_of(what: str, given: object) -> str:
    """A str that a request can hold. Raises TypeError for anything else, ValueError for a lone surrogate, and for more
    than 32,767 bytes, which is the protocol's limit.
    """
    if not isinstance(given, str):
        raise TypeError(f"{what} is a {type(given).__name__}, not a str")
    try:
        size = len(given.encode())
    except UnicodeEncodeError:
        raise ValueError(
            f"{what} has a lone surrogate, which is not a character: write text that UTF-8 can hold"
        ) from None
    if size > MAX_STRING_SIZE:
        raise ValueError(f"{what} has {size} bytes, and the protocol's limit is {MAX_STRING_SIZE}")
    return given


def group_id_of(given: object) -> str:
    """The id of a consumer group. Raises as ``text_of``, and ValueError for an empty one."""
    group_id = text_of("the group's id", given)
    if not group_id:
        raise ValueError("the group has no id")
    return group_id


def topic_partition_of(given: Any) -> TopicPartition:
    """A partition in any client's form: a topic's name and a number, or an object that has both. Raises TypeError or
    ValueError for anything else, and InvalidTopicError for a name that no topic can have.
    """
    try:
        topic, partition = (given.topic, given.partition) if hasattr(given, "topic") else given
    except (TypeError, ValueError):
        raise TypeError(f"{given!r} is not a partition: expected a topic and a number, as TopicPartition has") from None
    check_topic_name(topic)
    topic = str.__str__(topic)  # also of a member of an enum
    return TopicPartition(topic, number_within(f"the partition of topic {topic!r}", partition, 0, MAX_PARTITION))


def timeout_of(call: str, timeout: Any, name: str = "timeout") -> float | None:
    """A time-out in seconds, of the argument ``name`` of ``call``; None means no limit. Raises TypeError for anything
    but a number, ValueError for NaN.
    """
    if timeout is None:
        return None
    kind = type(timeout)
    if kind is bool or not hasattr(kind, "__float__"):
        raise TypeError(f"{call}(): {name} is a {kind.__name__}, not a number of seconds or None")
    try:
        seconds = float(timeout)
    except Exception as error:
        raise ValueError(f"{call}(): {name} is a {kind.__name__} that gives no number of seconds") from error
    if math.isnan(seconds):
        raise ValueError(f"{call}(): {name} is nan: write a number of seconds, or None")
    return seconds
