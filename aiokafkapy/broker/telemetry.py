"""Metrics that clients push (KIP-714): their subscription, and the received pushes.

Owns both for one cluster. Knows no connection. Kafka's counterparts are ``ClientMetricsManager`` with a subscription
made by ``kafka-client-metrics.sh``, and the plug-in of a ``ClientTelemetryReceiver``, without which a broker does not
offer the two APIs: so it is here, until ``subscribe`` or ``configure`` is called.

Rules: a push counts under the subscription that is in force, else the client is told to ask again; the latest
``MOST_PUSHES`` are kept; ``push_interval_ms`` is not enforced, so that tests need not wait.
"""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final
from uuid import UUID, uuid4

from ..errors import (
    InvalidConfigError,
    InvalidRecordError,
    InvalidRequestError,
    KafkaError,
    TelemetryTooLargeError,
    UnknownSubscriptionIdError,
    UnsupportedCompressionTypeError,
)
from ..record.compression import Compression, decompress

if TYPE_CHECKING:
    from ..protocol.otlp import MetricPoint

__all__ = ["SUBSCRIPTION_OPTIONS", "ClientTelemetry", "TelemetryPush"]

MOST_PUSHES: Final = 1_000
DEFAULT_PUSH_INTERVAL_MS: Final = 300_000
DEFAULT_MAX_BYTES: Final = 1_048_576
CODECS: Final = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""In the order that Kafka prefers them in."""
METRICS: Final = "metrics"
INTERVAL: Final = "interval.ms"
MATCH: Final = "match"
SUBSCRIPTION_OPTIONS: Final[Mapping[str, str]] = {INTERVAL: str(DEFAULT_PUSH_INTERVAL_MS), MATCH: "", METRICS: ""}
"""The options of a subscription that administrators make, with their defaults."""


@dataclass(frozen=True, slots=True)
class TelemetryPush:
    """One push of one client."""

    client_instance_id: UUID
    client_id: str
    terminating: bool
    """The client's last, at its end."""
    compression: Compression
    resource: dict[str, str]
    """Attributes of the client, ``transactional_id`` among them."""
    points: list[MetricPoint]

    def values(self) -> dict[str, float]:
        """The values by the metrics' names. For a metric reported per node or topic, the last value."""
        return {point.name: point.value for point in self.points}


class ClientTelemetry:
    """``DevBroker.telemetry``."""

    def __init__(self) -> None:
        self.pushes: deque[TelemetryPush] = deque(maxlen=MOST_PUSHES)
        """The pushes that came, oldest first."""
        self.is_offered = False
        """True once there is a receiver: then the APIs are advertised."""
        self.metrics: tuple[str, ...] = ()
        self.push_interval_ms = DEFAULT_PUSH_INTERVAL_MS
        self.compressions: tuple[Compression, ...] = CODECS
        self.max_bytes = DEFAULT_MAX_BYTES
        self.delta_temporality = True
        self._subscriptions: dict[str, dict[str, str]] = {}

    @property
    def subscriptions(self) -> list[str]:
        """The names of the subscriptions that administrators have made, by ``kafka-client-metrics.sh``."""
        return list(self._subscriptions)

    def options_of(self, name: str) -> Mapping[str, str]:
        """The options that were set for a subscription; empty when it does not exist."""
        return self._subscriptions.get(name, {})

    def configure(self, name: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set options of an administrator's subscription, None for back to the default. A subscription without options
        is deleted.

        Clients are asked for the metrics of all subscriptions, at the shortest interval. Raises InvalidRequestError,
        or InvalidConfigError for ``match``; then nothing has changed.
        """
        if not name:
            raise InvalidRequestError("Subscription name can't be empty")
        for option, value in changes.items():
            _check_option(option, value)
        if validate_only:
            return
        merged = {**self._subscriptions.get(name, {}), **changes}
        self._subscriptions[name] = {option: value for option, value in merged.items() if value is not None}
        if not self._subscriptions[name]:
            del self._subscriptions[name]
        wanted = self._subscriptions.values()
        metrics = [each.strip() for options in wanted for each in options.get(METRICS, "").split(",") if each.strip()]
        intervals = [int(options.get(INTERVAL, DEFAULT_PUSH_INTERVAL_MS)) for options in wanted]
        self.subscribe(dict.fromkeys(metrics), push_interval_ms=min(intervals, default=DEFAULT_PUSH_INTERVAL_MS))

    def subscribe(
        self,
        metrics: Iterable[str] = ("",),
        *,
        push_interval_ms: int = DEFAULT_PUSH_INTERVAL_MS,
        compressions: Sequence[Compression] = CODECS,
        max_bytes: int = DEFAULT_MAX_BYTES,
        delta_temporality: bool = True,
    ) -> None:
        """Ask clients for the metrics whose names begin like one of ``metrics``: by default all; none unsubscribes.

        A client that connected before the first call does not know that it may be asked.
        """
        if push_interval_ms < 1:
            raise ValueError(f"push_interval_ms={push_interval_ms}: write 1 or more")
        self.metrics = tuple(metrics)
        self.push_interval_ms = push_interval_ms
        self.compressions = tuple(compressions)
        self.max_bytes = max_bytes
        self.delta_temporality = delta_temporality
        self.is_offered = True

    @property
    def subscription_id(self) -> int:
        """The id of the subscription, which changes with its content."""
        return zlib.crc32(repr((self.metrics, self.push_interval_ms, self.compressions, self.max_bytes)).encode()) >> 1

    def instance_id(self, client_instance_id: UUID | None) -> UUID | None:
        """A new id for a client without one; None for a client that has one."""
        return uuid4() if client_instance_id is None else None

    def push(
        self,
        client_instance_id: UUID | None,
        client_id: str,
        subscription_id: int,
        *,
        terminating: bool,
        compression_type: int,
        data: bytes,
    ) -> None:
        """Take a push; raises the error that the client is answered."""
        if client_instance_id is None:
            raise InvalidRequestError("the client has no instance id: GetTelemetrySubscriptions gives it one")
        if subscription_id != self.subscription_id:
            raise UnknownSubscriptionIdError("another subscription is in force")
        if compression_type != Compression.NONE and compression_type not in self.compressions:
            raise UnsupportedCompressionTypeError(f"{compression_type} is not among {self.compressions}")
        if len(data) > self.max_bytes:
            raise TelemetryTooLargeError(f"{len(data)} bytes are more than {self.max_bytes}")
        from ..protocol.otlp import decode_metrics  # imported at the first push, so that a broker is ready sooner

        compression = Compression(compression_type)
        try:
            if compression is not Compression.NONE:
                data = bytes(decompress(compression, data, 16 * self.max_bytes))
            resource, points = decode_metrics(data)
        except KafkaError as error:
            raise InvalidRecordError(str(error)) from error
        push = TelemetryPush(client_instance_id, client_id, terminating, compression, resource, points)
        self.pushes.append(push)


def _check_option(option: str, value: str | None) -> None:
    if option not in SUBSCRIPTION_OPTIONS:
        raise InvalidRequestError(f"Unknown client metrics configuration: {option}")
    if option == INTERVAL and value is not None and not (value.isdecimal() and 100 <= int(value) <= 3_600_000):
        raise InvalidRequestError(f"Invalid value {value} for interval.ms, interval must be between 100 and 3600000")
    if option == MATCH and value:
        raise InvalidConfigError(f"Invalid value {value} for match: the dev broker asks all clients")
