"""The producers of other libraries: the module of each, and the counterparts of its calls.

Owns the words for calls; those for options come from ``client.options.foreign_options``, so that an error at
construction, the documentation and this say the same. Knows no source code.

Rule: a call that is the same here, arguments too, is not in a table; a test checks that every public method of an
installed library is in its table, or is a method of ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from ..client.options.foreign_options import IGNORED_OF_LIBRDKAFKA, LIBRDKAFKA_NAMES, advice_for
from ..client.options.translation import plain_name
from ..producer.config import ProducerConfig

__all__ = ["LIBRARIES", "Library", "option_advice"]


@dataclass(frozen=True, slots=True)
class Library:
    """Another client: ``producers`` are its classes by their full names, ``calls`` the replacement of each method."""

    name: str
    producers: tuple[str, ...]
    errors: tuple[str, ...]
    constructor: str
    calls: Mapping[str, str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    """Arguments of its send, by name, that differ here."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Options that have our name and another meaning."""
    takes_properties: bool = False
    """Its options are a dictionary with Kafka's names."""


_PARTITIONER: Final = (
    "its arguments differ here: a function (topic, key_bytes, value_bytes, key, value, cluster), or leave it out "
    "for Kafka's own, by key with murmur2"
)
_CALLBACK: Final = "await send(), or add_done_callback(f) on the delivery from enqueue()"
_SERVED: Final = "leave it out: outcomes come by themselves, on the event loop"
_TRANSACTIONS: Final = {
    "init_transactions": "leave it out: start() does it where there is a transactional_id",
    "begin_transaction": "await producer.begin_transaction(), or async with producer.transaction():",
    "commit_transaction": "await producer.commit_transaction()",
    "abort_transaction": "await producer.abort_transaction()",
    "send_offsets_to_transaction": "await producer.send_offsets_to_transaction(offsets, group_metadata)",
}
_PARTITIONS_FOR: Final = "await producer.partitions_for(topic): PartitionInfo, not numbers"

AIOKAFKA: Final = Library(
    "aiokafka",
    ("aiokafka.AIOKafkaProducer", "aiokafka.producer.AIOKafkaProducer", "aiokafka.producer.producer.AIOKafkaProducer"),
    ("aiokafka.errors",),
    "KafkaProducer(…), from aiokafkapy; it may be made where no loop runs",
    {
        "send_and_wait": "await producer.send(…): it returns when the record is on the broker",
        "send": "await producer.enqueue(…): it gives a Delivery to await; or await producer.send(…) for the outcome",
        "stop": "await producer.close()",
        "create_batch": "await producer.send_many(topic, values): batches are made by themselves",
        "send_batch": "await producer.send_many(topic, values): batches are made by themselves",
        "partitions_for": _PARTITIONS_FOR,
    },
    options={"partitioner": _PARTITIONER},
)
CONFLUENT: Final = Library(
    "confluent-kafka",
    (
        "confluent_kafka.Producer",
        "confluent_kafka.SerializingProducer",
        "confluent_kafka.cimpl.Producer",
        "confluent_kafka.aio.AIOProducer",
        "confluent_kafka.experimental.aio.AIOProducer",
    ),
    ("confluent_kafka.error",),
    "KafkaProducer(config=ProducerConfig.from_properties({…})), from aiokafkapy, with async with producer:. Keys stay "
    "in their partitions with partitioner='consistent_random', librdkafka's default (CRC-32); ours is Java's murmur2",
    {
        "produce": "await producer.send(…) for its outcome, await producer.enqueue(…) to go on at once, "
        "producer.send_nowait(…) where nothing can be awaited; without a loop BlockingProducer",
        "produce_batch": "await producer.send_many(topic, records)",
        "poll": _SERVED,
        "flush": "await producer.flush(timeout=…): it raises where this returns the number of records left",
        "purge": "producer.purge(in_flight=True): the records fail",
        "list_topics": "await producer.partitions_for(topic); aiokafkapy.admin.TopicAdmin lists them all",
        "cluster_id": "aiokafkapy cluster shows it, and TopicAdmin.describe_cluster() of aiokafkapy.admin",
        "set_sasl_credentials": "producer.update_credentials(sasl_username=…, sasl_password=…)",
        **_TRANSACTIONS,
        "close": "await producer.close()",
    },
    arguments={
        "callback": _CALLBACK,
        "on_delivery": _CALLBACK,
        "timestamp": "timestamp_ms, in milliseconds",
    },
    options={"partitioner": "consistent_random (its default), murmur2_random and fnv1a_random are taken by name"},
    takes_properties=True,
)
KAFKA_PYTHON: Final = Library(
    "kafka-python",
    ("kafka.KafkaProducer", "kafka.producer.KafkaProducer", "kafka.producer.kafka.KafkaProducer"),
    ("kafka.errors",),
    "KafkaProducer(…), from aiokafkapy, with async with producer:; or BlockingProducer(…) where there is no event loop",
    {
        "send": "await producer.enqueue(…): it gives a Delivery; or await producer.send(…) for the outcome itself",
        "flush": "await producer.flush(timeout=…)",
        "close": "await producer.close(timeout=…)",
        "partitions_for": _PARTITIONS_FOR,
        "bootstrap_connected": "producer.health",
        "metrics": "producer.metrics(): a flat dictionary, without groups",
        "max_usable_produce_magic": "leave it out: versions are agreed on with each broker",
        **_TRANSACTIONS,
    },
    options={"partitioner": _PARTITIONER},
)
LIBRARIES: Final = (AIOKAFKA, CONFLUENT, KAFKA_PYTHON)


def option_advice(library: Library, name: str) -> str | None:
    """The replacement for an option of ``library``'s producer, in its own spelling; None if nothing changes."""
    plain = plain_name(name)
    if plain in library.options:
        return library.options[plain]
    if plain in ProducerConfig.model_fields or (library.takes_properties and plain in _TAKEN):
        return None
    return advice_for(plain, ProducerConfig.model_fields) or "there is no such option here: aiokafkapy explain --all"


_TAKEN: Final = frozenset(
    {*LIBRDKAFKA_NAMES, *IGNORED_OF_LIBRDKAFKA, "queue_buffering_max_kbytes", "compression_level"}
)
"""librdkafka's options that ``from_properties`` takes as they are, or ignores with a warning."""
