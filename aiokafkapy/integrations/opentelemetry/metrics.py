"""``watch(producer)``: a producer's metrics as OpenTelemetry's observable instruments.

Owns their names (``kafka.producer.…``), units and attributes, and the callbacks that read producers when a reader
collects. The measurements are in ``measurements``; the instruments are those of a meter, made once for each provider.

Rules: no work is done between two collections; one collection reads a producer once; a closed producer is no longer
observed, but its counters stay in the sum of those with its client id. Attributes are the client id, and a broker's id,
an error's class or, with ``metrics_topics_max``, a topic, all of them bounded.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from functools import partial
from time import monotonic
from typing import Any, Final
from weakref import WeakKeyDictionary

from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation, get_meter_provider

from ... import KafkaProducer, __version__
from ..measurements import (
    ERROR_MEASUREMENT,
    MEASUREMENTS,
    NODE_MEASUREMENTS,
    TOPIC_MEASUREMENTS,
    Measurement,
    Snapshot,
    WatchedProducers,
)
from .conventions import CLIENT_ID, DESTINATION, ERROR_TYPE

__all__ = ["watch"]

PREFIX: Final = "kafka.producer."
FRESH: Final = 0.1
"""Seconds for which a producer's numbers are reused: the callbacks of one collection come within them."""

_UNITS: Final = {"seconds": "s", "bytes": "By", "": "1"}


def watch(producer: KafkaProducer[Any, Any], meter_provider: MeterProvider | None = None) -> None:
    """Observe a producer's metrics until it is closed, through this provider, or the application's global one.

    Call it on the producer's event loop; raises RuntimeError if none runs. The producer is not kept alive. A repeated
    call has no effect. Set a global provider before.
    """
    provider = get_meter_provider() if meter_provider is None else meter_provider
    with _making:
        instruments = _instruments.get(provider)
        if instruments is None:
            instruments = _instruments[provider] = Instruments(provider.get_meter("aiokafkapy", __version__))
    instruments.watch(producer)


class Instruments:
    """The instruments of one meter, and the producers that they observe."""

    def __init__(self, meter: Meter) -> None:
        self._producers = WatchedProducers()
        self._lock = threading.Lock()
        self._calls = 0  # guards watch
        self._snapshots: list[Snapshot] = []
        self._read_at = -FRESH
        for measurement in MEASUREMENTS:
            self._make(meter, measurement, partial(_of_producer, measurement.name))
        for measurement in NODE_MEASUREMENTS:
            self._make(meter, measurement, partial(_of_nodes, measurement.name))
        for measurement in TOPIC_MEASUREMENTS:
            self._make(meter, measurement, partial(_of_topics, measurement.name))
        self._make(meter, ERROR_MEASUREMENT, _of_errors)

    def watch(self, producer: KafkaProducer[Any, Any]) -> None:
        """As the module's ``watch``."""
        self._producers.watch(producer)
        with self._lock:
            self._calls += 1
            self._read_at = -FRESH

    # internals

    def _make(
        self, meter: Meter, measurement: Measurement, observe: Callable[[Snapshot], Iterable[Observation]]
    ) -> None:
        make = meter.create_observable_counter if measurement.kind == "counter" else meter.create_observable_gauge
        make(
            PREFIX + measurement.name,
            [partial(self._observations, observe)],
            _UNITS[measurement.unit],
            measurement.help,
        )

    def _observations(
        self, observe: Callable[[Snapshot], Iterable[Observation]], options: CallbackOptions
    ) -> list[Observation]:
        return [observation for snapshot in self._current() for observation in observe(snapshot)]

    def _current(self) -> list[Snapshot]:
        with self._lock:
            if monotonic() - self._read_at < FRESH:
                return self._snapshots
            calls = self._calls
        # Without the lock: reading may wait for an event loop, which may wait for the lock in watch().
        snapshots = self._producers.read()
        with self._lock:
            if self._calls == calls:  # else the next callback reads again
                self._snapshots, self._read_at = snapshots, monotonic()
        return snapshots


# internals

_making: Final = threading.Lock()
_instruments: Final[WeakKeyDictionary[MeterProvider, Instruments]] = WeakKeyDictionary()


def _of_producer(name: str, snapshot: Snapshot) -> Iterable[Observation]:
    if name in snapshot.values:
        yield Observation(snapshot.values[name], {CLIENT_ID: snapshot.client_id})


def _of_errors(snapshot: Snapshot) -> Iterable[Observation]:
    for error, count in snapshot.errors.items():
        yield Observation(count, {CLIENT_ID: snapshot.client_id, ERROR_TYPE: error})


def _of_nodes(name: str, snapshot: Snapshot) -> Iterable[Observation]:
    for node_id, numbers in snapshot.nodes.items():
        if name in numbers:
            yield Observation(numbers[name], {CLIENT_ID: snapshot.client_id, "kafka.node.id": node_id})


def _of_topics(name: str, snapshot: Snapshot) -> Iterable[Observation]:
    for topic, numbers in snapshot.topics.items():
        if name in numbers:
            attributes = {CLIENT_ID: snapshot.client_id, DESTINATION: topic}
            yield Observation(numbers[name], attributes)
