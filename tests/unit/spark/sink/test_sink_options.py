from __future__ import annotations

import pickle

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from aiokafkapy.spark.options import OptionError
from aiokafkapy.spark.sink.sink_options import ColumnError, SinkOptions, check_columns

SERVERS = {"kafka.bootstrap.servers": "host:9092"}
TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "bigint": LongType(),
    "timestamp": TimestampType(),
    "ntz": TimestampNTZType(),
    "map": MapType(StringType(), BinaryType()),
    "headers": ArrayType(StructType([StructField("key", StringType(), False), StructField("value", BinaryType())])),
    "texts": ArrayType(StructType([StructField("key", StringType()), StructField("value", StringType())])),
}
ALL = "key binary, value string, topic string, partition int, timestamp timestamp, headers headers"


def schema(columns: str) -> StructType:
    """``"value string, key int!"`` as Spark has it; with ``!`` never null."""
    pairs = [column.split() for column in columns.split(", ") if column]
    return StructType([StructField(name, TYPES[kind.rstrip("!")], not kind.endswith("!")) for name, kind in pairs])


def test_what_is_given_goes_to_the_tasks() -> None:
    options = SinkOptions.parse(SERVERS | {"topic": " orders ", "kafka.acks": "1", "includeHeaders": "true"})
    assert options.topic == "orders"
    assert options.properties["acks"] == "1"
    assert pickle.loads(pickle.dumps(options)) == options


def test_kafkas_options_win_over_ours() -> None:
    assert SinkOptions.parse(SERVERS).properties["batch.size"] == "524288"
    assert SinkOptions.parse(SERVERS | {"kafka.batch.size": "5"}).properties["batch.size"] == "5"


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({}, r"option 'kafka.bootstrap.servers' is missing: expected the brokers' addresses"),
        (SERVERS | {"topik": "t"}, "option 'topik' is 't': expected no such option: did you mean 'topic'?"),
        (SERVERS | {"topic": ""}, "option 'topic' is '': expected a value"),
        (SERVERS | {"subscribe": "t"}, "option 'subscribe' is 't': expected it where a topic is read"),
        (SERVERS | {"path": "t"}, "option 'path' is 't': expected no path: the topic is the option 'topic'"),
        (SERVERS | {"includeHeaders": "yes"}, "option 'includeHeaders' is 'yes': expected 'true' or 'false'"),
        (SERVERS | {"kafka.acks": "2"}, "acks"),
        (SERVERS | {"kafka.transactional.id": "x"}, "option 'kafka.transactional.id' is 'x': expected nothing"),
        (SERVERS | {"kafka.group.id": "x"}, "option 'kafka.group.id' is 'x': expected no such option"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        SinkOptions.parse(given)


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ("value string", "t"),
        ("value binary!, topic string!", None),
        (ALL, None),
        ("value binary, topic int", "t"),
        ("value binary, other map, offset bigint", "t"),
        ("value string, timestamp ntz", "t"),
        ("value string, headers headers", "t"),
    ],
)
def test_columns_that_can_be_written(columns: str, topic: str | None) -> None:
    check_columns(schema(columns), topic)


@pytest.mark.parametrize(
    ("columns", "topic", "sentence"),
    [
        ("value string", None, "no topic: expected the option 'topic', or a column 'topic' of type string; there is"),
        (
            "key string, id bigint",
            "t",
            "no column 'value': expected .* string or binary; the columns are: key string, id",
        ),
        ("", "t", "the columns are: none"),
        ("Value string", "t", "no column 'value'"),
        ("value int", "t", "column 'value' is int: expected string or binary"),
        ("value string, key bigint", "t", "column 'key' is bigint: expected string or binary"),
        ("value string, topic binary", None, "column 'topic' is binary: expected string"),
        ("value string, partition bigint", "t", "column 'partition' is bigint: expected int"),
        ("value string, timestamp bigint", "t", "column 'timestamp' is bigint: expected timestamp or timestamp_ntz"),
        ("value string, headers map", "t", "column 'headers' is map<string,binary>: expected array<st"),
        ("value string, headers texts", "t", "column 'headers' is array<"),
    ],
)
def test_columns_that_cannot(columns: str, topic: str | None, sentence: str) -> None:
    with pytest.raises(ColumnError, match=sentence):
        check_columns(schema(columns), topic)
