"""The workloads in the form that blocking clients have for them.

confluent-kafka tells outcomes by callbacks, which run in ``poll``: it is polled in the sending loop, every
``POLL_EVERY`` messages, and when its queue is full. kafka-python gives futures that its own thread completes.
"""

from __future__ import annotations

from typing import Any, Final

from benchmarks.clients import Client
from benchmarks.measurement import Figures, Measurement, MeasurementError, Stopwatch, workload

from .workloads import chunks, keys, values

__all__: list[str] = []

POLL_EVERY: Final = 500
BULK: Final = 10_000
"""Messages in one call of ``produce_batch``."""
FULL: Final = 0.1
"""Seconds to wait for deliveries when the queue is full."""
TIMEOUT: Final = 60.0


class Outcomes:
    """Counts the outcomes from callbacks."""

    def __init__(self) -> None:
        self.delivered = 0
        self.error: Any = None

    def tell(self, error: Any, _message: Any) -> None:
        if error is not None:
            self.error = error
        self.delivered += 1

    def check(self, count: int, left: int) -> None:
        """``count`` were told, and none is left in the queue."""
        if self.error is not None:
            raise MeasurementError(str(self.error))
        if left:
            raise MeasurementError(f"{left} messages were not delivered within {TIMEOUT:.0f} s")
        if self.delivered != count:
            raise MeasurementError(f"{self.delivered} outcomes for {count} messages")


@workload("pipelined", "confluent-kafka")
@workload("gzip", "confluent-kafka")
@workload("snappy", "confluent-kafka")
@workload("lz4", "confluent-kafka")
@workload("zstd", "confluent-kafka")
async def confluent_pipelined(client: Client, topic: str, measurement: Measurement) -> Figures:
    """A callback for each message, unless ``options["callback"]`` is false: then flush tells that all was sent."""
    outcomes = Outcomes()
    with_callback = measurement.options.get("callback", True)
    on_delivery = outcomes.tell if with_callback else None
    produce, poll = client.producer.produce, client.producer.poll
    with Stopwatch() as watch:
        for burst in chunks(values(measurement), measurement.count, POLL_EVERY):
            for value in burst:
                while True:
                    try:
                        produce(topic, value, on_delivery=on_delivery)
                        break
                    except BufferError:
                        poll(FULL)
            poll(0)
        left = client.producer.flush(TIMEOUT)
    outcomes.check(measurement.count if with_callback else 0, left)
    return watch.figures


@workload("keyed", "confluent-kafka")
async def confluent_keyed(client: Client, topic: str, measurement: Measurement) -> Figures:
    """As ``pipelined``, with keys."""
    outcomes, value = Outcomes(), bytes(measurement.size)
    on_delivery = outcomes.tell
    produce, poll = client.producer.produce, client.producer.poll
    with Stopwatch() as watch:
        for burst in chunks(keys(), measurement.count, POLL_EVERY):
            for key in burst:
                while True:
                    try:
                        produce(topic, value, key, on_delivery=on_delivery)
                        break
                    except BufferError:
                        poll(FULL)
            poll(0)
        left = client.producer.flush(TIMEOUT)
    outcomes.check(measurement.count, left)
    return watch.figures


@workload("produce_batch", "confluent-kafka")
async def confluent_produce_batch(client: Client, topic: str, measurement: Measurement) -> Figures:
    """The same list of dicts again and again, made before the clock starts; no callbacks."""
    outcomes = Outcomes()
    produce_batch, poll = client.producer.produce_batch, client.producer.poll
    messages = [{"value": bytes(measurement.size)} for _ in range(min(BULK, measurement.count))]
    calls = measurement.count // len(messages)
    with Stopwatch() as watch:
        for _ in range(calls):
            waiting = messages
            while produce_batch(topic, waiting) < len(waiting):
                waiting = [message for message in waiting if message.pop("_error", None) is not None]
                poll(FULL)
            poll(0)
        left = client.producer.flush(TIMEOUT)
    outcomes.check(0, left)
    return watch.figures | {"messages": calls * len(messages)}


@workload("pipelined", "kafka-python")
async def kafka_python_pipelined(client: Client, topic: str, measurement: Measurement) -> Figures:
    """As for the others: one chunk is sent while the one before it is on its way."""
    send = client.producer.send
    before: list[Any] = []
    with Stopwatch() as watch:
        for chunk in chunks(values(measurement), measurement.count):
            futures = [send(topic, value) for value in chunk]
            _all(before)
            before = futures
        client.producer.flush(TIMEOUT)
        _all(before)
    return watch.figures


# internals


def _all(futures: list[Any]) -> None:
    """Every outcome; raises the first that is an error."""
    for future in futures:
        future.get(TIMEOUT)
