"""asyncio-native Kafka producer, embedded dev broker and Spark data source.

This package exports the names that most programs need: ``KafkaProducer``, its configuration and records, and
``errors``. The dev broker is in ``aiokafkapy.broker``; ``aiokafkapy.integrations``, ``testing``, ``spark`` and ``cli``
build on both.

Rules:

- Importing this package imports neither pyspark, nor the broker, nor any extra. Importing ``KafkaProducer`` imports no
  library but asyncio; kio is imported when the first producer is created, pydantic when an option needs it.
- This module runs before every other one, so it selects the form of the core (``_form``) before any of it is imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import errors
from ._form import compiled
from ._lazy import lazy_names
from ._version import __version__ as __version__

if TYPE_CHECKING:
    from .blocking.blocking_producer import BlockingProducer
    from .common import ConsumedRecord, Headers, Node, PartitionInfo, TopicPartition
    from .observability.observer import Observer
    from .producer.config import ProducerConfig
    from .producer.deliveries.delivery import Delivery
    from .producer.deliveries.raise_all import raise_all
    from .producer.identity.transaction import PreparedTxnState
    from .producer.intake.deadline import deadline
    from .producer.intake.interceptors import ProducerInterceptor
    from .producer.intake.partitioners import DefaultPartitioner, Partitioner, RoundRobinPartitioner
    from .producer.options.circuit_options import CircuitBreaker
    from .producer.options.topic_options import TopicOptions
    from .producer.producer import KafkaProducer
    from .producer.records import BytesWithHeaders, ProducerRecord, RecordMetadata
    from .producer.serializers import Serializer, json_serializer, string_serializer
    from .producer.statistics import ProducerHealth, ProducerStatistics
    from .producer.tables.table_metadata import PartitionMetadata, TableMetadata

__all__ = [
    "KafkaProducer",
    "ProducerConfig",
    "ProducerRecord",
    "RecordMetadata",
    "Delivery",
    "TopicPartition",
    "errors",
    "BlockingProducer",
    "BytesWithHeaders",
    "CircuitBreaker",
    "ConsumedRecord",
    "DefaultPartitioner",
    "Headers",
    "Node",
    "Observer",
    "PartitionInfo",
    "PartitionMetadata",
    "Partitioner",
    "PreparedTxnState",
    "ProducerHealth",
    "ProducerInterceptor",
    "ProducerStatistics",
    "RoundRobinPartitioner",
    "Serializer",
    "TableMetadata",
    "TopicOptions",
    "compiled",
    "deadline",
    "json_serializer",
    "raise_all",
    "string_serializer",
]

# Imported on first access: a program that only runs the dev broker needs no producer.
_HOMES = {
    "BlockingProducer": "blocking.blocking_producer",
    "BytesWithHeaders": "producer.records",
    "CircuitBreaker": "producer.options.circuit_options",
    "ConsumedRecord": "common",
    "DefaultPartitioner": "producer.intake.partitioners",
    "Delivery": "producer.deliveries.delivery",
    "Headers": "common",
    "KafkaProducer": "producer.producer",
    "Node": "common",
    "Observer": "observability.observer",
    "PartitionInfo": "common",
    "PartitionMetadata": "producer.tables.table_metadata",
    "Partitioner": "producer.intake.partitioners",
    "PreparedTxnState": "producer.identity.transaction",
    "ProducerConfig": "producer.config",
    "ProducerHealth": "producer.statistics",
    "ProducerInterceptor": "producer.intake.interceptors",
    "ProducerRecord": "producer.records",
    "ProducerStatistics": "producer.statistics",
    "RecordMetadata": "producer.records",
    "RoundRobinPartitioner": "producer.intake.partitioners",
    "Serializer": "producer.serializers",
    "TableMetadata": "producer.tables.table_metadata",
    "TopicOptions": "producer.options.topic_options",
    "TopicPartition": "common",
    "deadline": "producer.intake.deadline",
    "json_serializer": "producer.serializers",
    "raise_all": "producer.deliveries.raise_all",
    "string_serializer": "producer.serializers",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted({*globals(), *__all__})
