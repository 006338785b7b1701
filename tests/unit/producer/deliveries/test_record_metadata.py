"""aiokafkapy.producer.deliveries.record_metadata: the shortcut and the constructor give the same."""

from __future__ import annotations

import gc
import sys

from aiokafkapy import RecordMetadata, compiled
from aiokafkapy.producer.deliveries.record_metadata import record_metadata


def test_record_metadata_equals_the_result_of_its_constructor() -> None:
    long_way = RecordMetadata("topic", 3, 2**40, 1_700_000_000_000, -1, 100)
    short_way = record_metadata("topic", 3, 2**40, 1_700_000_000_000, -1, 100)
    assert type(short_way) is RecordMetadata
    assert short_way == long_way
    assert repr(short_way) == repr(long_way)
    assert hash(short_way) == hash(long_way)
    assert (short_way._replace(offset=1), short_way[2:4]) == (long_way._replace(offset=1), long_way[2:4])
    references = sys.getrefcount(RecordMetadata)
    for _ in range(1000):
        record_metadata("topic", 3, 5, -1, -1, -1)
    assert sys.getrefcount(RecordMetadata) == references


def test_compiled_it_is_nothing_to_the_cyclic_collector() -> None:
    kept = [record_metadata("topic", 3, number, number, number, number) for number in range(1_000)]
    assert {gc.is_tracked(found) for found in kept} == {not compiled}
    gc.collect()
    assert [found.offset for found in kept] == list(range(1_000))
    del kept
    assert gc.collect() == 0
