"""The Spark data source ``aiokafkapy``: Kafka read and written by PySpark, batch and streaming, with no JVM connector.

Public name: ``KafkaDataSource``, which Spark finds by itself if the package is installed (``pyspark_aiokafkapy``).
Columns and options are those of Spark's own connector, format ``kafka``.

Spark's options, and rows to write, come in; records go out to Kafka, and rows of the records that were read to Spark.

Rule: the driver's workers for planning and committing import this package too, and so does a session that uses any
data source at all. So Arrow, the producer and the reader are imported only by code that moves rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .data_source import KafkaDataSource
    from .options import OptionError
    from .shipping import shipping_conf

__all__ = ["KafkaDataSource", "OptionError", "shipping_conf"]

_HOMES = {"KafkaDataSource": "data_source", "OptionError": "options", "shipping_conf": "shipping"}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return sorted(__all__)
