from __future__ import annotations

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaTimeoutError, NotLeaderOrFollowerError
from aiokafkapy.reader.offsets import not_found_error
from tests.unit.metadata_options import METADATA_OPTIONS

T0 = TopicPartition("t", 0)


def test_an_offset_that_was_not_found_has_its_last_error() -> None:
    error = not_found_error(T0, 2.5, NotLeaderOrFollowerError("moved"), Metadata(**METADATA_OPTIONS))
    assert isinstance(error, KafkaTimeoutError)
    assert "not found within 2.5 s: " in str(error)
    assert "moved" in str(error)
    assert (error.topic, error.partition) == T0
