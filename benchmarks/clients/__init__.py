"""The clients: one module for each, one small adapter class in it, imported only in the process that measures it.

An adapter opens its producer with the settings that are sensible for the workload (acks=all and idempotent, always) and
gives the workloads a common interface. ``send`` and ``enqueue`` are the producer's own bound methods where it has such,
so that no wrapper is measured.
"""

from __future__ import annotations

import importlib
from collections.abc import Awaitable, Callable
from typing import Any, Final, Protocol, cast

from benchmarks.measurement import Measurement

__all__ = ["CLIENTS", "Client", "make_client"]

CLIENTS: Final = {
    "aiokafkapy": "aiokafkapy.AiokafkapyClient",
    "aiokafka": "aiokafka.AiokafkaClient",
    "confluent-kafka": "confluent.ConfluentClient",
    "AIOProducer": "confluent.AIOProducerClient",
    "kafka-python": "kafka_python.KafkaPythonClient",
    "plain socket": "plain_socket.PlainSocketClient",
}
"""The adapter of each client that runs in a worker. (The Java client is an entry of its own: ``java``.)"""


class Client(Protocol):
    """The interface of every client for the workloads."""

    producer: Any
    send: Callable[..., Awaitable[Any]]
    """``send(topic, value, key=None)``: returns when the record is delivered, raises when it is not."""
    enqueue: Callable[..., Awaitable[Awaitable[Any]]]
    """``enqueue(topic, value, key=None)``: returns when the record is accepted, an awaitable of its outcome."""

    async def open(self, bootstrap_servers: str, measurement: Measurement) -> None:
        """Make the producer. ``measurement.options["producer"]`` are options in the client's own names."""

    async def flush(self) -> None:
        """Wait until everything has an outcome."""

    async def close(self) -> None:
        """Leave nothing behind."""


def make_client(name: str) -> Client:
    """A new adapter; its module, and with it the client's package, is imported here."""
    module, _, adapter = CLIENTS[name].partition(".")
    return cast(Client, getattr(importlib.import_module(f"{__name__}.{module}"), adapter)())
