"""``df.write.format("aiokafkapy")``: what is in the topics afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from .conftest import Broker


def test_rows_arrive(spark: SparkSession, broker: Broker, write: Callable[..., None]) -> None:
    broker.create_topic("t", 3)
    write(spark.range(100).selectExpr("cast(id as string) as value"), broker.bootstrap_servers, topic="t")
    found: list[Any] = broker.records("t")
    assert sorted(int(record.value) for record in found) == list(range(100))
