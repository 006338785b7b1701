"""Options of a read: their meaning, and the error for each bad one."""

from __future__ import annotations

import pickle

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.reader import EARLIEST, LATEST
from aiokafkapy.spark.options import OptionError
from aiokafkapy.spark.source.source_options import OffsetLimit, SourceOptions, parse_duration_ms

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def parse(options: dict[str, str] | None = None, *, is_stream: bool = False) -> SourceOptions:
    """Parse these options, with those that every read needs."""
    given = {"kafka.bootstrap.servers": "localhost:9092"} | (options or {})
    if not {"subscribe", "subscribePattern", "assign"} & given.keys():
        given["subscribe"] = "t"
    return SourceOptions.parse(given, is_stream=is_stream)


def test_a_batch_is_from_the_first_record_to_the_last() -> None:
    options = parse()
    assert (options.starting, options.ending) == (OffsetLimit(EARLIEST), OffsetLimit(LATEST))
    assert options.fail_on_data_loss
    assert not options.include_headers
    assert (options.poll_timeout_ms, options.offset_retries, options.offset_retry_interval_ms) == (120_000, 3, 1_000)


def test_a_stream_begins_with_new_records() -> None:
    assert parse(is_stream=True).starting == OffsetLimit(LATEST)


def test_names_are_taken_in_any_case() -> None:
    given = {"STARTINGOFFSETS": "Earliest", "failondataloss": "FALSE", "maxoffsetspertrigger": "7"}
    options = parse(given, is_stream=True)
    assert options.starting == OffsetLimit(EARLIEST)
    assert not options.fail_on_data_loss
    assert options.max_offsets_per_trigger == 7


def test_topics_are_named_or_fit_a_pattern_as_a_whole() -> None:
    assert parse({"subscribe": " b, a ,,b "}).subscription.topics == ("a", "b")
    subscription = parse({"subscribePattern": "a.|b"}).subscription
    assert [name for name in ("a1", "a", "b", "bb", "xa1") if subscription.has_topic(name)] == ["a1", "b"]
    assert parse({"assign": '{"t":[1,0]}'}).subscription.partitions == (T0, T1)


def test_offsets_by_partition_leave_the_others_whole() -> None:
    options = parse({"startingOffsets": '{"t":{"0":5,"1":-2}}', "endingOffsets": '{"t":{"0":-1,"1":9}}'})
    assert options.starting == OffsetLimit(EARLIEST, offsets={T0: 5, T1: -2})
    assert options.ending == OffsetLimit(LATEST, offsets={T0: -1, T1: 9})


def test_a_stream_that_begins_at_named_offsets_reads_the_other_partitions_whole() -> None:
    starting = parse({"startingOffsets": '{"t":{"0":-1}}'}, is_stream=True).starting
    assert starting == OffsetLimit(EARLIEST, offsets={T0: -1})


def test_a_time_for_all_comes_before_times_by_partition_and_these_before_offsets() -> None:
    given = {"startingOffsetsByTimestamp": '{"t":{"0":6}}', "startingOffsets": "earliest"}
    starting = parse(given | {"startingTimestamp": "5"}).starting
    assert (starting.time_of(T0), starting.time_of(T1)) == (5, 5)
    starting = parse(given).starting
    assert (starting.time_of(T0), starting.time_of(T1), starting.default) == (6, None, EARLIEST)


def test_a_start_that_is_younger_than_all_records_is_an_error_unless_asked_otherwise() -> None:
    by_time = {"startingTimestamp": "5"}
    assert not parse(by_time).starting.latest_when_none
    assert parse(by_time | {"startingOffsetsByTimestampStrategy": "LATEST"}).starting.latest_when_none
    assert parse({"endingTimestamp": "5"}).ending.latest_when_none


@pytest.mark.parametrize(
    ("options", "moving"),
    [
        ({}, {T0, T1}),
        ({"startingOffsets": "earliest"}, set()),
        ({"startingOffsets": '{"t":{"0":3}}'}, set()),
        ({"startingOffsets": '{"t":{"0":-1}}'}, {T0}),
        ({"startingTimestamp": "5"}, set()),
        ({"startingTimestamp": "5", "startingOffsetsByTimestampStrategy": "latest"}, {T0, T1}),
        ({"startingOffsetsByTimestamp": '{"t":{"1":5}}', "startingOffsetsByTimestampStrategy": "latest"}, {T1}),
    ],
)
def test_a_start_at_the_end_of_the_log_is_another_when_it_is_asked_again(
    options: dict[str, str], moving: set[TopicPartition]
) -> None:
    starting = parse(options, is_stream=True).starting
    assert {tp for tp in (T0, T1) if starting.may_move(tp)} == moving


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("15m", 900_000),
        ("90s", 90_000),
        (" 2 H ", 7_200_000),
        ("1d", 86_400_000),
        ("500ms", 500),
        ("7", 7),
        ("5min", 300_000),
    ],
)
def test_durations_are_as_spark_writes_them(text: str, milliseconds: int) -> None:
    assert parse_duration_ms("maxTriggerDelay", text) == milliseconds
    assert parse({"maxTriggerDelay": text}, is_stream=True).max_trigger_delay_ms == milliseconds


def test_kafkas_options_reach_the_reader_and_the_users_come_before_ours() -> None:
    config = parse({"kafka.isolation.level": "read_committed", "kafka.fetch.max.bytes": "1000"}).config
    assert (config.isolation_level, config.fetch_max_bytes) == ("read_committed", 1_000)
    assert config.auto_offset_reset == "none"
    assert config.max_partition_fetch_bytes > 1_048_576
    assert parse({"kafka.max.partition.fetch.bytes": "77"}).config.max_partition_fetch_bytes == 77


def test_options_go_to_the_executors() -> None:
    options = parse({"startingOffsets": '{"t":{"0":5}}', "maxPartitions": "2"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_a_batch_ignores_options_of_triggers() -> None:
    parse({"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "2", "maxTriggerDelay": "1m"})


def test_options_of_the_connector_without_a_meaning_here_are_ignored_and_named(
    caplog: pytest.LogCaptureFixture,
) -> None:
    ours = {
        "topic": "u",
        "path": "/x",
        "groupIdPrefix": "g",
        "maxOffsetsPerTrigger": "5",
        "exactlyOnce": "true",
        "jobId": "j",
    }
    kafkas = {"kafka.group.id": "g", "kafka.session.timeout.ms": "5", "kafka.acks": "all", "kafka.client.rack": "r"}
    assert parse(ours | kafkas).properties == parse().properties
    (told,) = [record.getMessage() for record in caplog.records]
    assert all(name in told for name in (*ours, *kafkas))


def test_nothing_to_read_is_refused() -> None:
    with pytest.raises(OptionError, match="exactly one of 'subscribe', 'subscribePattern' and 'assign'"):
        SourceOptions.parse({"kafka.bootstrap.servers": "localhost:9092"}, is_stream=False)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"subscribe": "a", "assign": '{"a":[0]}'}, "exactly one of 'subscribe', 'subscribePattern' and 'assign'"),
        ({"subscribe": " , "}, "names of topics"),
        ({"subscribePattern": "a("}, "a regular expression of Python's re"),
        ({"assign": "a"}, "it is not JSON"),
        ({"assign": "{}"}, "at least one partition"),
        ({"startingOffsets": "latest"}, "a batch that begins at the latest offset has nothing"),
        ({"startingOffsets": '{"t":{"0":-1}}'}, "a batch that begins at the latest offset has nothing"),
        ({"endingOffsets": "earliest"}, "a batch that ends at the earliest offset has nothing"),
        ({"endingOffsets": '{"t":{"0":-2}}'}, "a batch that ends at the earliest offset has nothing"),
        ({"startingOffsets": "first"}, "'earliest', 'latest', or"),
        ({"startingOffsets": '{"t":{"0":-3}}'}, "an offset, -1 for latest or -2 for earliest for t-0, not -3"),
        ({"startingOffsets": '{"u":{"0":3}}'}, "partitions that are read: u-0 is not"),
        ({"assign": '{"t":[0]}', "endingOffsets": '{"t":{"1":3}}'}, "partitions that are read: t-1 is not"),
        ({"startingOffsets": '{"t":{"0":9}}', "endingOffsets": '{"t":{"0":3}}'}, "t-0 begins at 9, ends at 3"),
        ({"startingTimestamp": "soon"}, "'startingTimestamp' is 'soon': expected a whole number"),
        ({"startingTimestamp": "9", "endingTimestamp": "3"}, "not later than endingTimestamp, 3"),
        ({"startingTimestamp": "9", "endingTimestamp": "0"}, "not later than endingTimestamp, 0"),
        ({"startingOffsetsByTimestamp": '{"t":{"0":-1}}'}, "a time in milliseconds since the epoch for t-0, not -1"),
        (
            {"startingOffsetsByTimestamp": '{"t":{"0":9}}', "endingOffsetsByTimestamp": '{"t":{"0":3}}'},
            "t-0 begins at 9, ends at 3",
        ),
        ({"startingOffsetsByTimestampStrategy": "none"}, "'error' or 'latest'"),
        ({"minPartitions": "0"}, "'minPartitions' is '0': expected a whole number of at least 1"),
        ({"maxRecordsPerPartition": "-5"}, "a whole number of at least 1"),
        ({"maxPartitions": "2", "minPartitions": "2"}, "left out with minPartitions"),
        ({"failOnDataLoss": "maybe"}, "'true' or 'false'"),
        ({"commitGroup": "g"}, "a stream has it"),
        ({"startingOffset": "earliest"}, "did you mean 'startingOffsets'"),
        ({"kafka.auto.offset.reset": "earliest"}, "write 'startingOffsets'"),
        ({"kafka.enable.auto.commit": "true"}, "Spark's checkpoint has the offsets"),
        ({"kafka.key.deserializer": "X"}, "cast the column instead"),
        ({"kafka.isolation.level": "committed"}, "isolation_level"),
        ({"kafka.fetch.min.byte": "1"}, "did you mean kafka.fetch.min.bytes"),
        ({"kafka.bootstrap.servers": " "}, "the brokers' addresses"),
    ],
)
def test_a_batch_refuses_options_that_make_no_sense(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(options)
    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"endingOffsets": "latest"}, "a stream has no end"),
        ({"endingTimestamp": "5"}, "a stream has no end"),
        ({"endingOffsetsByTimestamp": '{"t":{"0":5}}'}, "a stream has no end"),
        ({"maxOffsetsPerTrigger": "0"}, "a whole number of at least 1"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "3"}, "no more than maxOffsetsPerTrigger, 3"),
        ({"maxTriggerDelay": "a while"}, "a duration such as '15m'"),
        ({"commitGroup": " "}, "a value, or leave the option out"),
    ],
)
def test_a_stream_refuses_options_that_make_no_sense(options: dict[str, str], told: str) -> None:
    with pytest.raises(OptionError) as refused:
        parse(options, is_stream=True)
    assert told in str(refused.value)
