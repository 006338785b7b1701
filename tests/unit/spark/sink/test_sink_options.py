from __future__ import annotations

import pickle
import re

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
from aiokafkapy.spark.sink.sink_options import OF_EXACTLY_ONCE, ColumnError, SinkOptions, check_columns
from aiokafkapy.spark.source.source_options import _KNOWN

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
    "Headers": ArrayType(StructType([StructField("Key", StringType()), StructField("Value", BinaryType())])),
    "texts": ArrayType(StructType([StructField("key", StringType()), StructField("value", StringType())])),
}
ALL = "key binary, value string, topic string, partition int, timestamp timestamp, headers headers"


def schema(columns: str) -> StructType:
    """``"value string, key int!"`` as Spark has it; with ``!`` never null."""
    pairs = [column.split() for column in columns.split(", ") if column]
    return StructType([StructField(name, TYPES[kind.rstrip("!")], not kind.endswith("!")) for name, kind in pairs])


def test_given_options_go_to_the_tasks() -> None:
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
        (SERVERS | {"includeHeaders": "yes"}, "option 'includeHeaders' is 'yes': expected 'true' or 'false'"),
        (SERVERS | {"kafka.acks": "2"}, "acks"),
        (SERVERS | {"kafka.transactional.id": "x"}, "option 'kafka.transactional.id' is 'x': expected nothing"),
        (SERVERS | {"kafka.group.di": "x"}, "option 'kafka.group.di' is 'x': expected no such option"),
        (SERVERS | {"kafka.value.serializer": "x"}, "values are sent as the bytes of their column"),
        (SERVERS | {"kafka.partitioner.class": "x"}, "a column 'partition'"),
        (SERVERS | {"kafka.spool_dir": "/x"}, "option 'kafka.spool_dir' is '/x': expected nothing: Spark writes"),
        (SERVERS | {"kafka.spool.dir": "/x"}, "option 'kafka.spool.dir' is '/x': expected nothing"),
    ],
)
def test_wrong_options_are_refused(given: dict[str, str], sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        SinkOptions.parse(given)


def test_exactly_once_names_the_option_that_tells_a_write_from_others() -> None:
    for name in OF_EXACTLY_ONCE:
        with pytest.raises(OptionError, match=f"option '{name}' is 'x': expected option 'exactlyOnce' beside it"):
            SinkOptions.parse(SERVERS | {name: "x"})
        assert SinkOptions.parse(SERVERS | {name: "x", "exactlyOnce": "false"}).exactly_once is None
    once = SinkOptions.parse(SERVERS | {"exactlyOnce": "true", "jobId": "day-7"}).exactly_once
    assert once is not None
    assert (once.topic, once.transactional_id_prefix, once.job_id) == ("aiokafkapy-batches", "aiokafkapy", "day-7")
    named = {"exactlyOnce": "True", "exactlyOnceTopic": "marks", "transactionalIdPrefix": "shop"}
    once = SinkOptions.parse(SERVERS | named | {"kafka.linger.ms": "7"}, is_stream=True).exactly_once
    assert once is not None
    assert (once.topic, once.transactional_id_prefix, once.job_id) == ("marks", "shop", None)
    assert once.reader_properties == {"bootstrap.servers": "host:9092"}
    assert SinkOptions.parse(SERVERS | {"exactlyOnce": "false"}).exactly_once is None


def test_a_transaction_of_a_whole_task_may_take_longer_than_a_minute() -> None:
    once = SERVERS | {"exactlyOnce": "true"}
    assert SinkOptions.parse(once, is_stream=True).properties["transaction.timeout.ms"] == "300000"
    given = once | {"kafka.transaction.timeout.ms": "5000"}
    assert SinkOptions.parse(given, is_stream=True).properties["transaction.timeout.ms"] == "5000"
    assert "transaction.timeout.ms" not in SinkOptions.parse(SERVERS).properties


@pytest.mark.parametrize(
    ("given", "is_stream", "sentence"),
    [
        ({}, False, "option 'jobId' is missing: expected a name for this write, the same when it is run again"),
        ({"jobId": "x"}, True, "option 'jobId' is 'x': expected nothing: in a stream the id of the query"),
        ({"exactlyOnce": "yes"}, True, "option 'exactlyOnce' is 'yes': expected 'true' or 'false'"),
        ({"kafka.acks": "1"}, True, "acks"),
        ({"kafka.enable.idempotence": "false"}, True, "enable_idempotence"),
        ({"kafka.transactional.id": "x"}, True, "each Spark partition has its own"),
    ],
)
def test_exactly_once_is_refused_where_it_cannot_hold(given: dict[str, str], is_stream: bool, sentence: str) -> None:
    with pytest.raises(OptionError, match=sentence):
        SinkOptions.parse(SERVERS | {"exactlyOnce": "true"} | given, is_stream=is_stream)


@pytest.mark.parametrize("name", ["topic", "exactlyOnceTopic"])
def test_a_name_that_no_topic_can_have_is_refused(name: str) -> None:
    once = {"exactlyOnce": "true", "jobId": "day-7"}
    for wrong in ("a b", "x" * 250, ".."):
        with pytest.raises(
            OptionError, match=f"option '{name}' is '{re.escape(wrong)}': expected a valid topic: 1 to 249"
        ):
            SinkOptions.parse(SERVERS | once | {name: wrong})


def test_options_of_reading_are_ignored_in_a_write_and_named(caplog: pytest.LogCaptureFixture) -> None:
    shared = {name: "x" for name in _KNOWN if name != "includeHeaders"} | {"path": "/x", "groupIdPrefix": "g"}
    of_consumer = {"kafka.group.id": "g", "kafka.key.deserializer": "X", "kafka.auto.offset.reset": "earliest"}
    options = SinkOptions.parse(SERVERS | shared | of_consumer | {"topic": "t"})
    assert options == SinkOptions.parse(SERVERS | {"topic": "t"})
    (told,) = [record.getMessage() for record in caplog.records]
    assert all(name in told for name in (*shared, *of_consumer))


def test_a_column_of_times_that_has_another_type_is_ignored_and_named(caplog: pytest.LogCaptureFixture) -> None:
    options = SinkOptions.parse(SERVERS | {"topic": "t"})
    assert options.for_columns(schema("value string, timestamp timestamp")).has_timestamps
    assert not options.for_columns(schema("value string, timestamp bigint")).has_timestamps
    assert "column timestamp (bigint)" in caplog.text
    with pytest.raises(ColumnError):
        options.for_columns(schema("key string"))


def test_a_column_of_times_without_a_zone_is_refused() -> None:
    options = SinkOptions.parse(SERVERS | {"topic": "t"})
    with pytest.raises(ColumnError, match=r"column 'timestamp' is timestamp_ntz, .*: expected timestamp, .*: cast it"):
        options.for_columns(schema("value string, timestamp ntz"))


@pytest.mark.parametrize(
    ("columns", "topic"),
    [
        ("value string", "t"),
        ("value binary!, topic string!", None),
        (ALL, None),
        ("value binary, topic int", "t"),
        ("value binary, other map, offset bigint", "t"),
        ("value string, headers headers", "t"),
        ("value string, headers Headers", "t"),
        ("value string, timestamp bigint", "t"),
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
        ("value string, headers map", "t", "column 'headers' is map<string,binary>: expected array<st"),
        ("value string, headers texts", "t", "column 'headers' is array<"),
    ],
)
def test_columns_that_cannot(columns: str, topic: str | None, sentence: str) -> None:
    with pytest.raises(ColumnError, match=sentence):
        check_columns(schema(columns), topic)
