"""The metrics that an exporter reads from a producer: a table of measurements in base units, and a way to read them.

Owns the names, kinds, units and explanations of the metrics of ``KafkaProducer.metrics()``, for Prometheus and
OpenTelemetry alike, and their reading from any thread. It knows neither exporter. Kafka's counterpart is
``MetricsReporter``.

Rules: a producer is held weakly, and for an exporter it ends when it is closed, which leaves its last numbers here;
its numbers are read on its event loop, where they change; a scrape from another thread waits ``PATIENCE`` seconds for
a busy loop, and then shows the previous values. Durations are seconds and sizes bytes. Kafka's rates over a window are
left out: a monitoring system derives them from the totals.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import operator
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from .. import KafkaProducer
from ..producer.closings import call_before_closed

__all__ = [
    "ERROR_MEASUREMENT",
    "MEASUREMENTS",
    "MOST_NODES",
    "NODE_MEASUREMENTS",
    "TOPIC_MEASUREMENTS",
    "Measurement",
    "Snapshot",
    "WatchedProducer",
    "WatchedProducers",
    "merged",
    "snapshot_of",
]

PATIENCE: Final = 0.5
"""Seconds that a scrape in another thread waits for the event loop."""
MOST_NODES: Final = 100
"""The most brokers with their own series, those with the lowest ids: their number is bounded for any cluster."""
MOST_PAST_TOPICS: Final = 1000
"""The most topics whose counters are kept after their producer is gone."""

Unit: TypeAlias = Literal["", "seconds", "bytes"]
Kind: TypeAlias = Literal["counter", "gauge"]
Merge: TypeAlias = Literal["sum", "max"]

_MS: Final = 0.001
_NS: Final = 1e-9


class Measurement(NamedTuple):
    """One number: Kafka's name for it, ours without prefix and unit, and its kind, for exporters.

    ``merge`` says how several producers, or processes, with one ``client_id`` make one number.
    """

    kafka: str
    name: str
    kind: Kind
    unit: Unit
    scale: float
    merge: Merge
    help: str


def _counter(kafka: str, name: str, help: str, unit: Unit = "", scale: float = 1.0) -> Measurement:  # noqa: A002
    return Measurement(kafka, name, "counter", unit, scale, "sum", help)


def _time(kafka: str, name: str, what: str) -> Measurement:
    """Nanoseconds since the start; the times of simultaneous calls are added up."""
    return _counter(f"{kafka}-time-ns-total", name, f"Time that {what}.", "seconds", _NS)


def _gauge(
    kafka: str,
    name: str,
    help: str,  # noqa: A002
    unit: Unit = "",
    scale: float = 1.0,
    merge: Merge = "max",
) -> Measurement:
    return Measurement(kafka, name, "gauge", unit, scale, merge, help)


def _window(kafka: str, name: str, what: str, unit: Unit, scale: float = 1.0) -> tuple[Measurement, Measurement]:
    """A mean and a maximum over Kafka's last one to two windows of 30 s."""
    return (
        _gauge(f"{kafka}-avg", f"{name}_avg", f"Mean {what} of the last 30 to 60 seconds.", unit, scale),
        _gauge(f"{kafka}-max", f"{name}_max", f"Largest {what} of the last 30 to 60 seconds.", unit, scale),
    )


MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    _counter("records-accepted-total", "records_accepted", "Records that were accepted into the buffer."),
    _counter("records-delivered-total", "records_delivered", "Records that a broker has acknowledged."),
    _counter("record-error-total", "record_error", "Records that were accepted and then failed for good."),
    _counter("record-drop-total", "record_drop", "Records that the overflow policy gave up for want of room."),
    _counter("record-spool-total", "record_spool", "Records that went to the spool."),
    _counter("record-spool-replay-total", "record_spool_replay", "Records that brokers have out of the spool."),
    _counter("record-spool-refuse-total", "record_spool_refuse", "Spooled records that brokers refused."),
    _counter("record-send-total", "record_send", "Records that went into a Produce request, retries included."),
    _counter("record-retry-total", "record_retry", "Records that were sent again."),
    _counter("byte-total", "sent", "Bytes of record batches that went into Produce requests.", "bytes"),
    _counter("batch-total", "batch", "Record batches that went into Produce requests."),
    _counter("batch-split-total", "batch_split", "Batches that a broker found too large, and that were split."),
    _counter("produce-request-total", "produce_request", "Produce requests that were sent."),
    _counter("request-total", "request", "Requests of any kind that were sent."),
    _counter("response-total", "response", "Answers of brokers."),
    _counter("network-io-total", "network_io", "Requests that were sent and answers that came."),
    _counter("outgoing-byte-total", "outgoing", "Bytes of requests.", "bytes"),
    _counter("incoming-byte-total", "incoming", "Bytes of answers.", "bytes"),
    _counter("buffer-exhausted-total", "buffer_exhausted", "Records that were refused for want of room."),
    _counter("epoch-bump-total", "epoch_bump", "Times the producer's epoch was raised to go on after an error."),
    _counter("observer-error-total", "observer_error", "Times that an observer of the application's raised."),
    _counter("log-truncation-total", "log_truncation", "Times a partition's log was found shorter than acknowledged."),
    _counter("connection-creation-total", "connection_creation", "Connections to brokers that were made."),
    _counter("connection-close-total", "connection_close", "Connections to brokers that have ended."),
    _counter("successful-authentication-total", "successful_authentication", "Connections that were authenticated."),
    _counter("failed-authentication-total", "failed_authentication", "Connections that were refused."),
    _counter("successful-reauthentication-total", "successful_reauthentication", "Sessions that were renewed."),
    _counter("failed-reauthentication-total", "failed_reauthentication", "Sessions that were refused when renewed."),
    _time("bufferpool-wait", "bufferpool_wait_time", "records have waited for room in the buffer"),
    _time("metadata-wait", "metadata_wait_time", "calls have waited for metadata of a topic"),
    _time("flush", "flush_time", "calls of flush() took"),
    _time("txn-init", "txn_init_time", "taking the transactional id took"),
    _time("txn-begin", "txn_begin_time", "beginning transactions took"),
    _time("txn-send-offsets", "txn_send_offsets_time", "adding offsets to transactions took"),
    _time("txn-prepare", "txn_prepare_time", "preparing transactions took"),
    _time("txn-commit", "txn_commit_time", "committing transactions took, with the wait for their records"),
    _time("txn-abort", "txn_abort_time", "aborting transactions took"),
    *_window("request-latency", "request_latency", "time from a Produce request to its answer", "seconds", _MS),
    *_window("record-queue-time", "record_queue_time", "time that a batch waited in the buffer", "seconds", _MS),
    *_window("produce-throttle-time", "produce_throttle_time", "time that a broker throttled for", "seconds", _MS),
    *_window("loop-lag", "loop_lag", "time from waking the Sender to its running", "seconds", _MS),
    *_window("reauthentication-latency", "reauthentication_latency", "time of a session's renewal", "seconds", _MS),
    *_window("request-size", "request_size", "size of a request", "bytes"),
    *_window("batch-size", "batch_size", "size of a batch as sent", "bytes"),
    *_window("record-size", "record_size", "size of a record before compression", "bytes"),
    _gauge("records-per-request-avg", "records_per_request_avg", "Mean number of records in a Produce request."),
    _gauge("compression-rate-avg", "compression_ratio_avg", "Mean of batches' compressed to uncompressed size."),
    _gauge("buffer-total-bytes", "buffer_size", "The buffer: buffer_memory.", "bytes", merge="sum"),
    _gauge("buffer-available-bytes", "buffer_available", "Free bytes of the buffer.", "bytes", merge="sum"),
    _gauge("spool-records", "spool_records", "Records that are in the spool.", merge="sum"),
    _gauge("spool-bytes", "spool_size", "Bytes of the spool.", "bytes", merge="sum"),
    _gauge("waiting-threads", "waiting_sends", "Calls that wait for their record to be accepted.", merge="sum"),
    _gauge("requests-in-flight", "requests_in_flight", "Requests without an answer yet.", merge="sum"),
    _gauge("connection-count", "connections", "Open connections to brokers.", merge="sum"),
    _gauge("metadata-age", "metadata_age", "Time since the cluster's metadata was last learned.", "seconds"),
    # From the producer's health and statistics: Kafka has no names for them.
    _gauge("pending-records", "pending_records", "Accepted records without an outcome yet.", merge="sum"),
    _gauge("oldest-record-age", "oldest_record_age", "Age of the oldest record without an outcome.", "seconds"),
    _gauge("unhealthy", "unhealthy", "1 while the producer cannot do its work: its health says why."),
)
"""Every measurement, in the order in which they are shown."""

NODE_MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    _gauge("connected", "node_connected", "1 while the broker has a connection."),
    _gauge("in-flight", "node_requests_in_flight", "Requests to the broker without an answer yet.", merge="sum"),
    _gauge(
        "requests-in-flight-limit",
        "node_requests_in_flight_limit",
        "Produce requests that the broker may have, where that adapts.",
        merge="sum",
    ),
    _counter("request-total", "node_request", "Requests to the broker."),
    _counter("response-total", "node_response", "Answers of the broker."),
    _counter("outgoing-byte-total", "node_outgoing", "Bytes of requests to the broker.", "bytes"),
    _counter("incoming-byte-total", "node_incoming", "Bytes of answers of the broker.", "bytes"),
    *_window("request-latency", "node_request_latency", "time from a request to the broker's answer", "seconds", _MS),
    *_window("request-size", "node_request_size", "size of a request to the broker", "bytes"),
)
"""The measurements of each broker: the first two always, the third if it adapts, the others with
``metrics_per_node``.
"""

TOPIC_MEASUREMENTS: Final[tuple[Measurement, ...]] = (
    _counter("record-send-total", "topic_record_send", "Records of the topic that went into a Produce request."),
    _counter("record-retry-total", "topic_record_retry", "Records of the topic that were sent again."),
    _counter("record-error-total", "topic_record_error", "Records of the topic that failed for good."),
    _counter("byte-total", "topic_sent", "Bytes of the topic's batches that went into Produce requests.", "bytes"),
    _gauge("compression-rate", "topic_compression_ratio", "Mean of the topic's compressed to uncompressed size."),
)
"""The measurements of each topic, with ``metrics_topics_max``; further topics share ``*``."""

ERROR_MEASUREMENT: Final = _counter("error-total", "errors", "Errors of records and of retries, by class.")

_ERROR: Final = "error-total."
"""The prefix of ``metrics()``' counters by error."""

Numbers: TypeAlias = dict[str, float]
"""Values by ``Measurement.name``, in base units."""


class Snapshot(NamedTuple):
    """A producer's numbers at one moment: its own, and those by class of error, broker id and topic."""

    client_id: str
    values: Numbers
    errors: dict[str, float]
    nodes: dict[int, Numbers]
    topics: dict[str, Numbers]


def snapshot_of(producer: KafkaProducer[Any, Any]) -> Snapshot:
    """The producer's current numbers; call it on the producer's event loop, or once that no longer runs."""
    metrics = producer.metrics()
    statistics = producer.statistics()
    health = producer.health
    metrics["pending-records"] = statistics.pending
    metrics["oldest-record-age"] = health.oldest_record_age
    metrics["unhealthy"] = float(not health.is_healthy)
    of_nodes = producer.node_metrics()
    nodes = {}
    # Bootstrap addresses have negative ids: they are not brokers yet.
    for node_id in sorted(node.node_id for node in statistics.nodes if node.node_id >= 0)[:MOST_NODES]:
        numbers = dict(of_nodes.get(node_id, {}))
        numbers["connected"] = float(node_id in statistics.connected_nodes)
        numbers["in-flight"] = statistics.in_flight.get(node_id, 0)
        if node_id in statistics.in_flight_limits:
            numbers["requests-in-flight-limit"] = statistics.in_flight_limits[node_id]
        nodes[node_id] = _scaled(NODE_MEASUREMENTS, numbers)
    return Snapshot(
        producer.config.client_id,
        _scaled(MEASUREMENTS, metrics),
        {name.removeprefix(_ERROR): count for name, count in metrics.items() if name.startswith(_ERROR)},
        nodes,
        {topic: _scaled(TOPIC_MEASUREMENTS, numbers) for topic, numbers in producer.topic_metrics().items()},
    )


def _scaled(measurements: Iterable[Measurement], numbers: Numbers) -> Numbers:
    return {each.name: numbers[each.kafka] * each.scale for each in measurements if each.kafka in numbers}


def merged(snapshots: Iterable[Snapshot]) -> list[Snapshot]:
    """The snapshots, merged for producers with one client id, by ``Measurement.merge``."""
    found: dict[str, Snapshot] = {}
    for snapshot in snapshots:
        known = found.get(snapshot.client_id)
        found[snapshot.client_id] = snapshot if known is None else _both(known, snapshot)
    return list(found.values())


def _both(one: Snapshot, other: Snapshot) -> Snapshot:
    return Snapshot(
        one.client_id,
        _both_numbers(one.values, other.values),
        {name: one.errors.get(name, 0.0) + other.errors.get(name, 0.0) for name in one.errors | other.errors},
        {
            node_id: _both_numbers(one.nodes.get(node_id, {}), other.nodes.get(node_id, {}))
            for node_id in one.nodes | other.nodes
        },
        {
            topic: _both_numbers(one.topics.get(topic, {}), other.topics.get(topic, {}))
            for topic in one.topics | other.topics
        },
    )


def _both_numbers(one: Numbers, other: Numbers) -> Numbers:
    return {name: _MERGED[_MERGE_OF[name]](one.get(name, 0.0), other.get(name, 0.0)) for name in one | other}


def _past_of(snapshots: Iterable[Snapshot]) -> Snapshot:
    """The counters of past producers with one client id."""
    (one,) = merged(snapshots)
    nodes = {node_id: one.nodes[node_id] for node_id in sorted(one.nodes)[:MOST_NODES]}
    topics = dict(list(one.topics.items())[:MOST_PAST_TOPICS])
    return Snapshot(
        one.client_id,
        _counters(one.values),
        one.errors,
        {node_id: _counters(numbers) for node_id, numbers in nodes.items()},
        {topic: _counters(numbers) for topic, numbers in topics.items()},
    )


def _counters(numbers: Numbers) -> Numbers:
    return {name: number for name, number in numbers.items() if name in _COUNTERS}


_MERGED: Final[dict[Merge, Callable[[float, float], float]]] = {"sum": operator.add, "max": max}
_ALL: Final = (*MEASUREMENTS, *NODE_MEASUREMENTS, *TOPIC_MEASUREMENTS)
_MERGE_OF: Final = {each.name: each.merge for each in _ALL}
_COUNTERS: Final = frozenset(each.name for each in _ALL if each.kind == "counter")


class WatchedProducer:
    """An exporter's weak reference to a producer, with the event loop on which it is read."""

    def __init__(self, producer: KafkaProducer[Any, Any]) -> None:
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            raise RuntimeError(
                f"{producer!r} is to be watched where no event loop runs: call this in a coroutine, after start()"
            ) from None
        self.client_id = producer.config.client_id
        self._producer = weakref.ref(producer)
        self._last: Snapshot | None = None
        call_before_closed(producer, self._keep)

    @property
    def producer(self) -> KafkaProducer[Any, Any] | None:
        """The producer while it is still referenced elsewhere."""
        return self._producer()

    @property
    def is_gone(self) -> bool:
        """True once the producer is closed or no longer referenced, and in the child of a fork."""
        producer = self._producer()
        return producer is None or producer.state.value in ("closed", "forked")

    def read(self) -> Snapshot | None:
        """The producer's numbers, from any thread; None once it is gone. Waits ``PATIENCE`` seconds at most."""
        producer = self._producer()
        if producer is None or self.is_gone:
            return None
        if asyncio._get_running_loop() is self._loop or not self._loop.is_running():
            self._keep()
            return self._last
        del producer
        answer: concurrent.futures.Future[None] = concurrent.futures.Future()
        try:
            self._loop.call_soon_threadsafe(self._answer, answer)
            answer.result(PATIENCE)
        except (RuntimeError, concurrent.futures.TimeoutError):
            pass  # the loop has just closed, or is busy: no numbers are newer than the last ones
        return None if self.is_gone else self._last

    def read_last(self) -> Snapshot | None:
        """The numbers of a past producer: of its end if it was closed, else of the last reading. None in the child of
        a fork: they are the parent's.
        """
        producer = self._producer()
        return None if producer is not None and producer.state.value == "forked" else self._last

    # asyncio callbacks

    def _answer(self, answer: concurrent.futures.Future[None]) -> None:
        try:
            self._keep()
            answer.set_result(None)
        except BaseException as error:  # the waiting thread raises it
            answer.set_exception(error)

    def _keep(self) -> None:
        # On the loop, not in the waiting thread, which could overwrite the last numbers with older ones.
        producer = self._producer()
        if producer is not None:
            self._last = snapshot_of(producer)


class WatchedProducers:
    """The producers that an exporter shows, one snapshot for each client id.

    A counter must not fall: a fall counts as a restart, after which a rate would include the whole history of the
    other producers. So the counters of a past producer stay in the sum as long as another has its client id.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._watched: list[WatchedProducer] = []
        self._past: dict[str, Snapshot] = {}  # of past producers, by client id

    def watch(self, producer: KafkaProducer[Any, Any]) -> None:
        """Show a producer until it is closed; a second call changes nothing. Call it on the producer's event loop."""
        with self._lock:
            if not any(each.producer is producer for each in self._watched):
                self._watched.append(WatchedProducer(producer))

    def read(self) -> list[Snapshot]:
        """The numbers of all, from any thread."""
        with self._lock:
            watched = list(self._watched)
        # Without the lock: reading may wait for an event loop, which may wait for the lock in watch().
        found = [(each, each.read()) for each in watched]
        with self._lock:
            # A producer that another thread has found gone meanwhile is already among the past ones.
            known = set(self._watched)
            found = [(each, snapshot) for each, snapshot in found if each in known]
            for each, snapshot in found:
                if snapshot is None and each.is_gone:
                    self._watched.remove(each)
                    self._keep_past(each)
            client_ids = {each.client_id for each in self._watched}
            self._past = {name: past for name, past in self._past.items() if name in client_ids}
            return merged([*(snapshot for _, snapshot in found if snapshot is not None), *self._past.values()])

    # internals

    def _keep_past(self, gone: WatchedProducer) -> None:
        known, last = self._past.get(gone.client_id), gone.read_last()
        if last is not None:
            self._past[gone.client_id] = _past_of([last] if known is None else [known, last])
