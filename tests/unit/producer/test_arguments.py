"""Arguments are checked at the call: the same error in both forms, with the remedy."""

from __future__ import annotations

import array
import ctypes
from collections import OrderedDict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import InvalidTopicError, SerializationError
from aiokafkapy.producer.arguments import (
    EarlyTime,
    check_data,
    chosen_partition,
    headers_of,
    materialized,
    partition_of,
    plain_data,
    time_of,
    topic_name,
)


class Index:
    """An integer like NumPy's: not an int, but as good as one."""

    def __init__(self, number: Any) -> None:
        self.number = number

    def __index__(self) -> int:
        if isinstance(self.number, BaseException):
            raise self.number
        return self.number  # type: ignore[no-any-return]


class Number(IntEnum):
    THREE = 3


class Topic(StrEnum):
    ORDERS = "orders"


class TestTopic:
    def test_a_name_is_taken_as_a_plain_str(self) -> None:
        assert topic_name("orders") == "orders"
        assert type(topic_name(Topic.ORDERS)) is str

    @pytest.mark.parametrize("name", ["", ".", "..", "a b", "\ud800", "a" * 250, None, 1, b"t", [], {}])
    def test_any_other_is_refused(self, name: Any) -> None:
        with pytest.raises(InvalidTopicError, match="name of a topic"):
            topic_name(name)


class TestPartition:
    @pytest.mark.parametrize("partition", [3, Index(3), Number.THREE])
    def test_every_object_that_is_an_int_is_one(self, partition: Any) -> None:
        assert partition_of("t", partition) == 3
        assert chosen_partition("t", partition, 6) == 3

    @pytest.mark.parametrize("partition", [True, 0.7, 3.0, "1", b"1", Index(ValueError()), Index("3"), [], Decimal(3)])
    def test_an_invalid_value_is_named_with_its_topic(self, partition: Any) -> None:
        kind = type(partition).__name__
        with pytest.raises(TypeError, match=f"topic 't': partition is a {kind}, not an int"):
            partition_of("t", partition)
        with pytest.raises(ValueError, match=f"chose a {kind} for topic 't', which has partitions 0 to 5"):
            chosen_partition("t", partition, 6)

    def test_a_partition_that_no_topic_can_have_is_refused(self) -> None:
        assert partition_of("t", 2**31 - 1) == 2**31 - 1
        for partition in (-1, -2, 2**31, 2**63, -(2**70)):
            with pytest.raises(ValueError, match=f"partition {partition} of topic 't': write 0 to 2147483647"):
                partition_of("t", partition)
        with pytest.raises(ValueError, match="a number of 33220 bits"):
            partition_of("t", 10**10_000)

    def test_a_partitioner_may_choose_the_sticky_one_or_a_partition_that_there_is(self) -> None:
        assert chosen_partition("t", Index(-1), 6) is None
        for chosen in (6, -2, 10**10_000):
            with pytest.raises(ValueError, match="partitions 0 to 5"):
                chosen_partition("t", chosen, 6)


class TestTimestamp:
    @pytest.mark.parametrize("timestamp", [0, 1, Index(5), Number.THREE, 2**63 - 1])
    def test_milliseconds_are_taken(self, timestamp: Any) -> None:
        assert time_of("t", timestamp) == timestamp.__index__()

    @pytest.mark.parametrize("timestamp", [1.7e12, float("nan"), True, "1700000000000", Decimal(1), timedelta(1)])
    def test_a_value_that_is_not_a_time_is_named_with_its_topic(self, timestamp: Any) -> None:
        kind = type(timestamp).__name__
        with pytest.raises(TypeError, match=f"topic 't': timestamp_ms is a {kind}, not an int of milliseconds or a"):
            time_of("t", timestamp)

    def test_java_takes_none_before_1970_and_the_protocol_none_over_64_bits(self) -> None:
        for timestamp in (-1, 2**63, 2**70, -(2**63) - 1, datetime(1969, 12, 31, tzinfo=UTC)):
            with pytest.raises(ValueError, match=r"timestamp_ms is -?[0-9]+: write 0 to 9223372036854775807"):
                time_of("t", timestamp)

    def test_a_table_may_have_times_before_1970(self) -> None:
        assert time_of("t", EarlyTime(-1)) == -1
        assert time_of("t", EarlyTime(-(2**63))) == -(2**63)

    @given(st.integers(0, 253_402_300_799_999), st.integers(-720, 720))
    def test_a_datetime_is_its_milliseconds_rounded_down(self, milliseconds: int, offset: int) -> None:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds, microseconds=999)
        assert time_of("t", moment) == milliseconds
        try:
            elsewhere = moment.astimezone(timezone(timedelta(minutes=offset)))
        except OverflowError:
            return
        assert time_of("t", elsewhere) == milliseconds

    def test_a_naive_datetime_is_local_time_as_python_has_it(self) -> None:
        moment = datetime(2024, 5, 6, 7, 8, 9, 123_000)  # noqa: DTZ001
        assert time_of("t", moment) == round(moment.timestamp() * 1000)

    def test_an_object_that_only_looks_like_a_datetime_is_refused(self) -> None:
        pandas = pytest.importorskip("pandas")
        with pytest.raises(ValueError, match="topic 't': timestamp_ms is not a moment in time"):
            time_of("t", pandas.NaT)
        assert time_of("t", pandas.Timestamp("2024-01-01", tz="UTC")) == 1_704_067_200_000


class TestHeaders:
    PAIRS: Any = (("a", b"1"), ("ü", None), ("a", b""))

    @pytest.mark.parametrize(
        "headers",
        [
            PAIRS,
            list(PAIRS),
            iter(PAIRS),
            (pair for pair in PAIRS),
            zip(*zip(*PAIRS, strict=True), strict=True),
            [list(pair) for pair in PAIRS],
            map(tuple, PAIRS),
            [("a", bytearray(b"1")), ("ü", None), ("a", array.array("i"))],
            [("a", memoryview(b"1")), ("ü", None), ("a", memoryview(b"xyz")[3::2])],
            [("a", (ctypes.c_char * 1)(b"1")), ("ü", None), ("a", b"")],
        ],
    )
    def test_pairs_in_any_iterable_are_read_once(self, headers: Any) -> None:
        found = headers_of("t", headers)
        assert found is not None
        assert found == self.PAIRS
        assert {type(pair) for pair in found} == {tuple}
        assert {type(value) for _, value in found} == {bytes, type(None)}

    def test_a_mapping_and_names_of_an_enum_are_taken(self) -> None:
        assert headers_of("t", OrderedDict(a=b"1", b=None)) == (("a", b"1"), ("b", None))
        found = headers_of("t", {Topic.ORDERS: b""})
        assert found is not None
        ((name, _),) = found
        assert (name, type(name)) == ("orders", str)

    @pytest.mark.parametrize("headers", [(), [], {}, iter(())])
    def test_empty_headers_become_none(self, headers: Any) -> None:
        assert headers_of("t", headers) is None

    @pytest.mark.parametrize(
        ("headers", "message"),
        [
            (7, "headers must be pairs, .* or a mapping; there is a int"),
            ("ab", "there is a str"),
            (b"ab", "there is a int"),
            ([("a",)], "there is a tuple"),
            (["ab"], "there is a str"),
            ([("a", b"", b"")], "there is a tuple"),
            ([None], "there is a NoneType"),
            ([(b"a", b"b")], "header's name is a bytes, not a str"),
            ([("a", "b")], "value of header 'a' is a str, not bytes"),
            ({"a": 1}, "value of header 'a' is a int, not bytes"),
            ([("\ud800", b"")], r"name of header '\\ud800' is not Unicode text"),
        ],
    )
    def test_an_invalid_value_is_named_with_its_topic(self, headers: Any, message: str) -> None:
        with pytest.raises(SerializationError, match=f"topic 't': .*{message}") as caught:
            headers_of("t", headers)
        assert caught.value.topic == "t"
        str(caught.value).encode()

    def test_an_iterator_that_fails_is_the_cause(self) -> None:
        def failing() -> Iterator[Any]:
            yield ("a", b"")
            raise TypeError("mine")

        with pytest.raises(SerializationError, match="headers cannot be read: TypeError: mine"):
            headers_of("t", failing())

    def test_lists_are_left_to_their_owner_until_they_are_sent(self) -> None:
        headers = [("a", b"")]
        assert materialized("t", headers) is headers


class TestData:
    @pytest.mark.parametrize(
        "data",
        [
            None,
            b"xy",
            bytearray(b"xy"),
            memoryview(b"wxyz")[::2],
            array.array("i", [1]),
            (ctypes.c_char * 2)(),
        ],
    )
    def test_every_object_with_bytes_is_fine(self, data: Any) -> None:
        check_data("t", data, data)

    @pytest.mark.parametrize("data", ["a password", 5, 1.0, [], object(), ["a password"]])
    def test_anything_else_is_named_and_not_shown(self, data: Any) -> None:
        for part, pair in (("key", (data, None)), ("value", (None, data))):
            with pytest.raises(SerializationError, match=f"the {part} of a record of topic 't' is a ") as caught:
                check_data("t", *pair)
            assert "password" not in str(caught.value)

    def test_a_view_that_was_released_and_addresses_of_objects_are_not_bytes(self) -> None:
        view = memoryview(b"x")
        view.release()
        with pytest.raises(SerializationError, match="cannot be read: ValueError: operation forbidden"):
            check_data("t", None, view)
        numpy = pytest.importorskip("numpy")
        with pytest.raises(SerializationError, match="is a ndarray, not bytes"):
            check_data("t", numpy.array([object()]), None)
        check_data("t", None, numpy.array(7))

    def test_waiting_records_are_kept_as_they_were_given(self) -> None:
        data = bytearray(b"now")
        kept = plain_data(data)
        data[:] = b"new"
        assert kept == b"now"
        assert plain_data(None) is None
