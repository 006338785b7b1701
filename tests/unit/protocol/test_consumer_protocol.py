"""Subscriptions and assignments of the protocol ``consumer``, as other clients write and read them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import MalformedFrameError
from aiokafkapy.protocol.consumer_protocol import (
    Subscription,
    decode_assignment,
    decode_subscription,
    encode_assignment,
    version_of,
)
from tests.embedded_protocol import assignment, assignment_of, subscription

PLACES = (TopicPartition("t", 0), TopicPartition("t", 2), TopicPartition("größe", 1))


def test_a_subscription_is_read_as_other_clients_write_it() -> None:
    written = subscription("t", "größe", owned=(1, 2), rack_id="r")
    owned = (TopicPartition("t", 1), TopicPartition("t", 2))
    assert decode_subscription(written) == Subscription(("t", "größe"), owned, "r")
    assert version_of(written) == 3


def test_the_first_version_has_topics_alone() -> None:
    assert decode_subscription(subscription("t", version=0)) == Subscription(("t",))


def test_a_version_of_the_future_begins_as_the_newest_that_is_known() -> None:
    written = b"\0\7" + subscription("t", rack_id="r")[2:] + b"more"
    assert decode_subscription(written) == Subscription(("t",), (), "r")
    assert version_of(written) == 7


def test_an_empty_rack_is_none() -> None:
    assert decode_subscription(subscription("t", rack_id="")).rack_id is None


def test_an_assignment_is_read_as_other_clients_write_it_and_the_other_way_round() -> None:
    written = assignment("t", 0, 2, user_data=b"x")
    assert decode_assignment(written) == ((TopicPartition("t", 0), TopicPartition("t", 2)), b"x")
    assert assignment_of(encode_assignment(1, PLACES)) == (1, sorted(PLACES))
    assert decode_assignment(encode_assignment(3, PLACES)) == (tuple(sorted(PLACES)), b"")


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xff", b"\0\0\xff\xff\xff\xff", b"\0\1\0\0\0\1\0\2\xc3\x28"])
def test_bytes_that_do_not_fit_are_malformed(data: bytes) -> None:
    with pytest.raises(MalformedFrameError):
        decode_subscription(data)
    with pytest.raises(MalformedFrameError):
        decode_assignment(data)


@given(st.binary(max_size=100))
def test_any_bytes_raise_nothing_else(data: bytes) -> None:
    for decode in (decode_subscription, decode_assignment, version_of):
        with contextlib.suppress(MalformedFrameError):
            decode(data)
