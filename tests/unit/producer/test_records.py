"""Records in and metadata out."""

from __future__ import annotations

import dataclasses

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.producer.records import ProducerRecord, RecordMetadata


def test_a_record_needs_only_a_topic() -> None:
    record = ProducerRecord("t")
    assert (record.value, record.key, record.partition, record.timestamp_ms, record.headers) == (None,) * 5


def test_a_record_is_a_value() -> None:
    record = ProducerRecord("t", b"v", key=b"k")
    assert record == ProducerRecord("t", b"v", b"k")
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.value = b"w"  # type: ignore[misc]


def test_metadata_says_where_a_record_is() -> None:
    metadata = RecordMetadata("t", 2, 7, 1000, 3, 4)
    assert metadata.topic_partition == TopicPartition("t", 2)
    assert metadata.has_offset
    assert not RecordMetadata("t", 2, -1).has_offset
