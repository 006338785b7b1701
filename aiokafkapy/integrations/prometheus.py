"""Producers' metrics for Prometheus: ``watch(producer)`` puts them into every scrape of the registry.

    async with KafkaProducer("kafka:9092") as producer:
        watch(producer)
        prometheus_client.start_http_server(8000)

Owns Prometheus' names for the measurements (``kafka_producer_…``, seconds and bytes, ``_total``), the collector that
makes them at a scrape, and the mirror that several processes need. Kafka's counterpart is the JMX exporter.

A registry cannot ask a collector of another process. If ``PROMETHEUS_MULTIPROC_DIR`` is set, as under gunicorn with
several workers, each process therefore writes its numbers into files there, every ``MIRROR_INTERVAL`` seconds, when it
is scraped itself, and at its exit; ``exposition()`` adds up the numbers of all processes.

Rules: no work is done between scrapes, except for that mirror; a closed producer's series end; labels are
``client_id``, and a broker's id, an error's class or, with ``metrics_topics_max``, a topic, all of them bounded.
Producers with one ``client_id`` make one series, as do processes: counters, sizes and counts are added; of means,
maxima and ages the largest is shown. A series ends with its last producer; until then its counters include the closed
ones.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias
from weakref import WeakKeyDictionary

from .. import KafkaProducer

try:
    from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST
    from prometheus_client.metrics_core import Metric
    from prometheus_client.multiprocess import MultiProcessCollector
    from prometheus_client.registry import REGISTRY, Collector
except ImportError as error:
    raise ImportError("prometheus_client is missing: pip install 'aiokafkapy[prometheus]'") from error

from .measurements import (
    ERROR_MEASUREMENT,
    MEASUREMENTS,
    NODE_MEASUREMENTS,
    TOPIC_MEASUREMENTS,
    Measurement,
    Snapshot,
    WatchedProducer,
    WatchedProducers,
    merged,
)

__all__ = ["MIRROR_INTERVAL", "KafkaCollector", "exposition", "watch"]

MIRROR_INTERVAL: Final = 2.0
"""Seconds between two writes of a process into its files. Each takes a fraction of a millisecond."""
PREFIX: Final = "kafka_producer_"
MULTIPROCESS_VARIABLE: Final = "PROMETHEUS_MULTIPROC_DIR"

Labels: TypeAlias = tuple[str, ...]
Sample: TypeAlias = tuple[Labels, float]

_FAMILIES: Final[tuple[tuple[Measurement, Labels], ...]] = (
    *((each, ("client_id",)) for each in MEASUREMENTS),
    (ERROR_MEASUREMENT, ("client_id", "error")),
    *((each, ("client_id", "node_id")) for each in NODE_MEASUREMENTS),
    *((each, ("client_id", "topic")) for each in TOPIC_MEASUREMENTS),
)


def watch(producer: KafkaProducer[Any, Any], registry: CollectorRegistry = REGISTRY) -> None:
    """Show a producer's metrics in every scrape of the registry, until it is closed.

    Call it on the producer's event loop; raises RuntimeError if none runs. The producer is not kept alive. A repeated
    call has no effect. In multiprocess mode the registry is not used: ``exposition()`` has the metrics of all
    processes.
    """
    if MULTIPROCESS_VARIABLE in os.environ:
        _mirror_of_this_process().watch(producer)
        return
    with _registering:
        collector = _collectors.get(registry)
        if collector is None:
            collector = _collectors[registry] = KafkaCollector()
            registry.register(collector)
    collector.watch(producer)


def exposition(registry: CollectorRegistry = REGISTRY) -> tuple[bytes, str]:
    """The answer to a scrape and its content type: of the registry, or of all processes in multiprocess mode."""
    if MULTIPROCESS_VARIABLE not in os.environ:
        return generate_latest(registry), CONTENT_TYPE_LATEST
    _mirror_of_this_process().update()
    of_all = CollectorRegistry()
    MultiProcessCollector(of_all)  # type: ignore[no-untyped-call]
    return generate_latest(of_all), CONTENT_TYPE_LATEST


class KafkaCollector(Collector):
    """A collector of the metrics of any number of producers; ``watch`` makes one for each registry."""

    def __init__(self) -> None:
        self._producers = WatchedProducers()

    def watch(self, producer: KafkaProducer[Any, Any]) -> None:
        """As the module's ``watch``."""
        self._producers.watch(producer)

    def describe(self) -> Iterable[Metric]:
        """The families without samples, so that registering reads no producer."""
        return [_family(measurement, labels, ()) for measurement, labels in _FAMILIES]

    def collect(self) -> Iterator[Metric]:
        """The families, with the samples of the producers that are not closed."""
        found: dict[str, list[Sample]] = {}
        for snapshot in self._producers.read():
            for measurement, values, number in _samples_of(snapshot):
                found.setdefault(measurement.name, []).append((values, number))
        for measurement, labels in _FAMILIES:
            if measurement.name in found:
                yield _family(measurement, labels, found[measurement.name])


class MultiprocessMirror:
    """The numbers of this process' producers in prometheus_client's own metrics, which it keeps in files.

    Counters are written as the increase since the last write, for they outlive the process; gauges are of living
    processes only, and go to zero with the producer.
    """

    def __init__(self) -> None:
        self._metrics = {measurement.name: _metric(measurement, labels) for measurement, labels in _FAMILIES}
        self._lock = threading.Lock()  # producers may be on several loops
        # Each producer with its latest numbers, and the part of its counters that is already in the files
        self._latest: dict[WatchedProducer, Snapshot | None] = {}
        self._written: dict[WatchedProducer, dict[tuple[str, Labels], float]] = {}
        self._gauges: set[tuple[str, Labels]] = set()
        self._pid = os.getpid()
        atexit.register(self.update)

    def watch(self, producer: KafkaProducer[Any, Any]) -> None:
        """Write a producer's numbers until it is closed."""
        if not any(each.producer is producer for each in list(self._latest)):
            watched = WatchedProducer(producer)
            self._latest[watched] = None
            self._tick(watched, asyncio.get_running_loop())

    def update(self) -> None:
        """Write the numbers of all producers now."""
        if os.getpid() == self._pid:
            for watched in list(self._latest):
                self._update(watched)

    # asyncio callbacks

    def _tick(self, watched: WatchedProducer, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._update(watched)
        finally:  # also when the disk is full now
            if watched in self._latest:
                loop.call_later(MIRROR_INTERVAL, self._tick, watched, loop)

    # internals

    def _update(self, watched: WatchedProducer) -> None:
        """Write one producer's numbers; those of a closed one for the last time."""
        is_gone = watched.is_gone
        snapshot = watched.read_last() if is_gone else watched.read()
        with self._lock:
            if watched not in self._latest:
                return
            self._latest[watched] = snapshot
            if snapshot is not None:
                self._write_counters(snapshot, self._written.setdefault(watched, {}))
            if is_gone:
                del self._latest[watched]
                self._written.pop(watched, None)
            self._write_gauges()

    def _write_counters(self, snapshot: Snapshot, written: dict[tuple[str, Labels], float]) -> None:
        for measurement, labels, value in _samples_of(snapshot):
            metric = self._metrics[measurement.name]
            if isinstance(metric, Counter):
                key = (measurement.name, labels)
                more = value - written.get(key, 0.0)
                if more > 0 or key not in written:
                    written[key] = value
                    metric.labels(*labels).inc(max(0.0, more))

    def _write_gauges(self) -> None:
        shown = set()
        for snapshot in merged(each for each in self._latest.values() if each is not None):
            for measurement, labels, value in _samples_of(snapshot):
                metric = self._metrics[measurement.name]
                if isinstance(metric, Gauge):
                    shown.add((measurement.name, labels))
                    metric.labels(*labels).set(value)
        for name, labels in self._gauges - shown:
            gauge = self._metrics[name]
            if isinstance(gauge, Gauge):
                gauge.labels(*labels).set(0.0)
        self._gauges |= shown


# internals

_registering: Final = threading.Lock()
_collectors: Final[WeakKeyDictionary[CollectorRegistry, KafkaCollector]] = WeakKeyDictionary()
_mirrors: Final[dict[int, MultiprocessMirror]] = {}
_BY_NAME: Final = {measurement.name: measurement for measurement, _ in _FAMILIES}


def _mirror_of_this_process() -> MultiprocessMirror:
    """The mirror of this process: one that was made before a fork is the parent's."""
    pid = os.getpid()
    with _registering:
        if pid not in _mirrors:
            _mirrors.clear()
            _mirrors[pid] = MultiprocessMirror()
        return _mirrors[pid]


def _samples_of(snapshot: Snapshot) -> Iterator[tuple[Measurement, Labels, float]]:
    client_id = snapshot.client_id
    for name, value in snapshot.values.items():
        yield _BY_NAME[name], (client_id,), value
    for error, count in snapshot.errors.items():
        yield ERROR_MEASUREMENT, (client_id, error), count
    for node_id, numbers in snapshot.nodes.items():
        for name, value in numbers.items():
            yield _BY_NAME[name], (client_id, str(node_id)), value
    for topic, numbers in snapshot.topics.items():
        for name, value in numbers.items():
            yield _BY_NAME[name], (client_id, topic), value


def _base_name(measurement: Measurement) -> str:
    return PREFIX + measurement.name + (f"_{measurement.unit}" if measurement.unit else "")


def _family(measurement: Measurement, labels: Labels, samples: Iterable[Sample]) -> Metric:
    kind = CounterMetricFamily if measurement.kind == "counter" else GaugeMetricFamily
    family = kind(_base_name(measurement), measurement.help, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _metric(measurement: Measurement, labels: Labels) -> Counter | Gauge:
    """A metric of prometheus_client, without a registry: its files are read."""
    name = _base_name(measurement)
    if measurement.kind == "counter":
        return Counter(name, measurement.help, labels, registry=None)
    mode: Any = f"live{measurement.merge}"
    return Gauge(name, measurement.help, labels, registry=None, multiprocess_mode=mode)
