"""Assignments of the protocol ``consumer``, and other bytes."""

from __future__ import annotations

import pytest
from aiokafka.coordinator.protocol import ConsumerProtocolMemberAssignment
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.common import TopicPartition
from aiokafkapy.console.assignments import read_assignment


def test_an_assignment_is_read_as_another_client_writes_it() -> None:
    data = ConsumerProtocolMemberAssignment(1, [("orders", [0, 2]), ("größen", [])], b"user data").encode()
    assert read_assignment(data) == [TopicPartition("orders", 0), TopicPartition("orders", 2)]


@pytest.mark.parametrize("cut", [1, 5, 8, 14, 20])
def test_a_truncated_assignment_is_refused(cut: int) -> None:
    data = ConsumerProtocolMemberAssignment(1, [("orders", [0, 2])], b"").encode()
    assert read_assignment(data[:cut]) == []


@given(st.binary(max_size=100))
def test_no_bytes_raise_an_error(data: bytes) -> None:
    assert isinstance(read_assignment(data), list)
