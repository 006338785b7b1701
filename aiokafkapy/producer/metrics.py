"""The producer's measurements: Kafka's metric names, and the numbers behind them.

Kafka's counterparts are ``SenderMetricsRegistry``, ``KafkaProducerMetrics`` and the sensors of ``BufferPool``. It knows
no clock: ``now`` is an argument. An exporter (Prometheus, OpenTelemetry) reads ``KafkaProducer.metrics()`` and needs
nothing else.

Rules: nothing is recorded per record, only per batch, request, wake-up and wait, at once: compiled, that is less work
than to keep the numbers for later. Averages, maxima and rates look at the last one to two windows of 30 s, as Kafka's
do; totals count from the start. Durations are in milliseconds, or nanoseconds where the name says so, because Kafka's
are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Literal, Protocol, TypeAlias, get_args

from ..observability.window import Window

__all__ = ["CallMetrics", "SenderMetrics", "TimedCall", "TopicSends"]

TimedCall: TypeAlias = Literal[
    "flush",
    "metadata-wait",
    "txn-init",
    "txn-begin",
    "txn-send-offsets",
    "txn-prepare",
    "txn-commit",
    "txn-abort",
]
"""A step that calls spend time with, by Kafka's name: ``txn-commit-time-ns-total``."""
_TIMED: Final[tuple[TimedCall, ...]] = get_args(TimedCall)
_NS: Final = 1_000_000_000


class TopicSends(Protocol):
    """The numbers of each topic, as the Sender tells them: ``TopicMetrics``."""

    def sent(self, name: str, records: int, size: int, uncompressed_size: int, now: float) -> None:
        """A batch of the topic went into a request."""

    def retried(self, name: str, records: int, now: float) -> None:
        """A batch of the topic is sent again."""


class SenderMetrics:
    """The numbers of one producer."""

    __slots__ = (
        "batch_size",
        "batch_splits",
        "batches_sent",
        "bytes_sent",
        "compression_rate",
        "epoch_bumps",
        "errors_by_code",
        "last_success",
        "log_truncations",
        "loop_lag",
        "queue_time",
        "record_errors",
        "record_retries",
        "record_size",
        "records_per_request",
        "records_retried",
        "records_sent",
        "request_latency",
        "requests_sent",
        "sends",
        "splits",
        "throttle_time",
        "topics",
        "wake_ups",
    )

    def __init__(self, now: float) -> None:
        # Totals
        self.records_sent = 0
        self.records_retried = 0
        self.batches_sent = 0
        self.bytes_sent = 0
        self.batch_splits = 0
        self.requests_sent = 0
        self.epoch_bumps = 0
        self.log_truncations = 0
        self.wake_ups = 0
        self.errors_by_code: Counter[str] = Counter()
        self.last_success: float | None = None
        # Windows
        self.sends = Window(now)
        self.splits = Window(now)
        self.record_errors = Window(now)
        self.record_retries = Window(now)
        self.record_size = Window(now)
        self.batch_size = Window(now)
        self.compression_rate = Window(now)
        self.records_per_request = Window(now)
        self.queue_time = Window(now)
        self.request_latency = Window(now)
        self.throttle_time = Window(now)
        self.loop_lag = Window(now)
        # Those of each topic, if they are wanted: updated together with ours, so that their sums equal ours
        self.topics: TopicSends | None = None

    def record_batch(self, record_count: int, size: int, uncompressed_size: int, queued: float, now: float) -> None:
        """One batch went into a request, ``queued`` seconds after its first record."""
        self.batches_sent += 1
        self.records_sent += record_count
        self.bytes_sent += size
        self.sends.record(record_count, now)
        self.batch_size.record(size, now)
        self.record_size.record(uncompressed_size, now, record_count)
        self.compression_rate.record(size / uncompressed_size if uncompressed_size else 1.0, now)
        self.queue_time.record(queued * 1000, now)

    def record_request(self, record_count: int, now: float) -> None:
        """One Produce request was handed to the network client."""
        self.requests_sent += 1
        self.records_per_request.record(record_count, now)

    def record_response(self, latency: float, throttle_time_ms: int, now: float) -> None:
        """One Produce request was answered after ``latency`` seconds."""
        self.request_latency.record(latency * 1000, now)
        self.throttle_time.record(throttle_time_ms, now)

    def record_wake_up(self, lag: float, now: float) -> None:
        """The Sender runs, ``lag`` seconds after it was woken."""
        self.loop_lag.record(lag * 1000, now)

    def record_split(self, now: float) -> None:
        """A batch that a broker found too large is divided."""
        self.batch_splits += 1
        self.splits.record(1, now)

    def record_retry(self, record_count: int, error: BaseException | None, now: float) -> None:
        """A batch is sent again."""
        self.records_retried += record_count
        self.record_retries.record(record_count, now)
        if error is not None:
            self.errors_by_code[type(error).__name__] += 1

    def record_failure(self, record_count: int, error: BaseException, now: float) -> None:
        """Records failed for good."""
        self.record_errors.record(record_count, now)
        self.errors_by_code[type(error).__name__] += record_count

    def snapshot(self, now: float) -> dict[str, float]:
        """Kafka's names (group ``producer-metrics``) and ours, with their values at ``now``."""
        averages = {
            "batch-size": self.batch_size,
            "record-size": self.record_size,
            "record-queue-time": self.queue_time,
            "request-latency": self.request_latency,
            "produce-throttle-time": self.throttle_time,
            "loop-lag": self.loop_lag,
        }
        found: dict[str, float] = {}
        for name, window in averages.items():
            found[f"{name}-avg"] = window.average(now)
            found[f"{name}-max"] = window.maximum(now)
        found.update(
            {
                "record-send-total": self.records_sent,
                "record-send-rate": self.sends.rate(now),
                "record-retry-total": self.records_retried,
                "record-retry-rate": self.record_retries.rate(now),
                "record-error-rate": self.record_errors.rate(now),
                "records-per-request-avg": self.records_per_request.average(now),
                "compression-rate-avg": self.compression_rate.average(now),
                "batch-total": self.batches_sent,
                "batch-split-total": self.batch_splits,
                "batch-split-rate": self.splits.rate(now),
                "byte-total": self.bytes_sent,
                "produce-request-total": self.requests_sent,
                "epoch-bump-total": self.epoch_bumps,
                "log-truncation-total": self.log_truncations,
            }
        )
        found.update({f"error-total.{name}": count for name, count in self.errors_by_code.items()})
        return found

    def round_trip(self, now: float) -> float:
        """Seconds from a Produce request to its answer, the mean of the last 30 to 60 seconds; 0 without one."""
        return self.request_latency.average(now) / 1000

    def longest_loop_lag(self, now: float) -> float:
        """The longest time from waking the Sender to its running, in seconds, of the last 30 to 60 seconds."""
        return self.loop_lag.maximum(now) / 1000


class CallMetrics:
    """The waiting times of one producer's calls, and the number of records that found no room.

    As in Java, a call of a transaction and a wait for metadata count once they have succeeded; ``flush()`` and a wait
    for room count however they end. When several calls wait at once, each one's time counts.
    """

    __slots__ = ("_exhaustions", "_room_seconds", "_room_waits", "_seconds", "records_exhausted")

    def __init__(self, now: float) -> None:
        self._seconds = dict.fromkeys(_TIMED, 0.0)
        self._room_seconds = 0.0
        self._room_waits = Window(now)
        self.records_exhausted = 0
        self._exhaustions = Window(now)

    def record_time(self, call: TimedCall, seconds: float) -> None:
        """A call took so long."""
        self._seconds[call] += seconds

    @contextmanager
    def timed(self, call: TimedCall, clock: Callable[[], float]) -> Iterator[None]:
        """Count the time of the block, unless it raises."""
        started = clock()
        yield
        self.record_time(call, clock() - started)

    def record_wait_for_room(self, seconds: float, now: float) -> None:
        """A record has waited so long for room in the buffer, in vain or not."""
        self._room_seconds += seconds
        self._room_waits.record(seconds, now)

    def record_exhausted(self, now: float) -> None:
        """A record was refused because there is no room for it."""
        self.records_exhausted += 1
        self._exhaustions.record(1, now)

    def snapshot(self, now: float) -> dict[str, float]:
        """Kafka's names (group ``producer-metrics``), with their values at ``now``."""
        found: dict[str, float] = {f"{call}-time-ns-total": _nanoseconds(self._seconds[call]) for call in _TIMED}
        found["bufferpool-wait-time-ns-total"] = _nanoseconds(self._room_seconds)
        found["bufferpool-wait-ratio"] = self._room_waits.rate(now)
        found["buffer-exhausted-total"] = self.records_exhausted
        found["buffer-exhausted-rate"] = self._exhaustions.rate(now)
        return found


def _nanoseconds(seconds: float) -> int:
    return round(seconds * _NS)
