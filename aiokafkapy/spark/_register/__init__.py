"""Makes ``format("aiokafkapy")`` known to Spark without a call: installed as the module ``pyspark_aiokafkapy``.

Spark's driver imports every top-level module whose name begins with ``pyspark_`` and registers its ``DefaultSource``;
``setup.py`` puts this file there. Spark's class is ``lookup_data_sources``.

Rule: it is imported for every session that uses any data source written in Python, so it imports next to nothing.
"""

from __future__ import annotations

from aiokafkapy.spark.data_source import KafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
