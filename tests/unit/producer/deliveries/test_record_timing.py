from __future__ import annotations

import pickle
import weakref

import pytest

from aiokafkapy.producer.deliveries.record_timing import BatchTiming, WeakClock
from aiokafkapy.producer.records import RecordMetadata, RecordTiming
from aiokafkapy.testing.clock import VirtualClock


def test_a_record_s_timing_is_its_batch_s_and_the_time_until_it_is_read() -> None:
    clock = VirtualClock()
    timing = BatchTiming(
        linger=0.01,
        queued=0.1,
        encode=0.02,
        retried=0.4,
        in_flight=0.2,
        throttled=0.3,
        attempts=2,
        node_id=7,
        batch_records=3,
        batch_size=100,
        answered_at=clock.time(),
        clock=clock.time,
    )
    at_once = timing.metadata("t", 1, 2, 3, 4, 5)
    clock.advance(0.5)
    later = timing.metadata("t", 1, 3, 3, 4, 5)
    assert at_once.timing == RecordTiming(
        0.01, 0.1, 0.02, 0.4, 0.2, told=0.0, throttled=0.3, attempts=2, node_id=7, batch_records=3, batch_size=100
    )
    assert later.timing is not None
    assert later.timing.told == pytest.approx(0.5)


def test_metadata_with_a_timing_is_equal_to_that_without_and_may_be_pickled() -> None:
    timing = BatchTiming(
        linger=0.01,
        queued=0.1,
        encode=0.02,
        retried=0.4,
        in_flight=0.2,
        throttled=0.0,
        attempts=1,
        node_id=7,
        batch_records=3,
        batch_size=100,
        answered_at=0.0,
        clock=lambda: 1.0,
    )
    metadata = timing.metadata("t", 1, 2, 3, 4, 5)
    plain = RecordMetadata("t", 1, 2, 3, 4, 5)
    assert metadata == plain
    assert hash(metadata) == hash(plain)
    assert plain.timing is None
    assert pickle.loads(pickle.dumps(metadata)).timing == metadata.timing
    assert metadata.topic_partition == ("t", 1)


def test_a_weak_clock_tells_its_loop_s_time_and_does_not_hold_it() -> None:
    class Loop:
        def time(self) -> float:
            return 7.0

    loop = Loop()
    clock = WeakClock(loop)
    assert clock() == 7.0
    gone = weakref.ref(loop)
    del loop
    assert gone() is None
    assert clock() == 7.0
    timing = BatchTiming(
        linger=0.0, queued=0.0, encode=0.0, retried=0.0, in_flight=0.0, throttled=0.0, attempts=1, node_id=1,
        batch_records=1, batch_size=100, answered_at=8.0, clock=clock,
    ).metadata("t", 1, 2, 3, 4, 5).timing  # fmt: skip
    assert timing is not None
    assert timing.told == 0
