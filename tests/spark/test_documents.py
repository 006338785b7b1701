"""The snippet of docs/spark.md runs as it stands; only the broker's address is another."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.documents.pages import ADDRESS, Snippet, snippets

from .conftest import Broker


@pytest.mark.parametrize(
    "snippet", [one for one in snippets("python") if "SparkSession" in one.text], ids=lambda one: one.label
)
def test_a_snippet_runs_as_it_stands(snippet: Snippet, spark: SparkSession, broker: Broker) -> None:
    row = spark.createDataFrame([(b"k", b"late")], "key binary, value binary")
    row.write.format("aiokafkapy").option("kafka.bootstrap.servers", broker.bootstrap_servers).option(
        "topic", "flights"
    ).mode("append").save()
    exec(compile(snippet.text.replace(ADDRESS, broker.bootstrap_servers), snippet.label, "exec"), {})
    assert [(record.key, record.value) for record in broker.records("delays")] == [(b"k", b"LATE")]
