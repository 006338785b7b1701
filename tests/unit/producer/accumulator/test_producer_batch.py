"""A batch: filling, sealing, attempts, one outcome."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aiokafkapy.errors import IllegalStateError, IllegalTransitionError, KafkaError
from aiokafkapy.producer.accumulator.batch_successors import split
from aiokafkapy.producer.accumulator.producer_batch import BATCH_STATES, BatchState, ProducerBatch
from aiokafkapy.producer.identity.sequenced_batch import NO_SEQUENCE
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, inline_limit

from ..accumulator_harness import KIB, T0, batch_of, parsed, values_of, wire_bytes

CODECS = list(Compression)


class TestFilling:
    def test_it_takes_records_until_its_limit(self) -> None:
        batch, _ = batch_of(limit=200)
        count = 0
        while batch.try_append(1, None, b"x" * 20, None) is not None:
            count += 1
        assert batch.record_count == count > 2
        assert batch.wanted == 0
        assert batch.size <= 200
        before = batch.is_full  # a smaller one would still fit
        batch.close()
        batch.close()
        assert (before, batch.is_full) == (False, True)
        assert batch.try_append(1, None, b"", None) is None
        assert batch.record_count == count
        assert batch.produce_result.record_count == count

    def test_an_empty_one_takes_a_record_of_any_size(self) -> None:
        batch, (delivery,) = batch_of(b"x" * 1000, limit=100)
        assert batch.is_full
        batch.seal()
        batch.complete(5)
        assert delivery.result().offset == 5

    def test_more_memory_than_allowed_is_asked_for_and_not_taken(self) -> None:
        batch, _ = batch_of(b"x")
        batch.builder.allowance = batch.builder.capacity
        while batch.try_append(1, None, b"x" * 50, None) is not None:
            assert batch.builder.capacity <= batch.builder.allowance
        count, capacity = batch.record_count, batch.builder.capacity
        assert batch.wanted > capacity
        batch.builder.allowance = batch.wanted
        assert batch.try_append(1, None, b"x" * 50, None) is not None
        assert capacity < batch.builder.capacity <= batch.builder.allowance
        assert batch.record_count == count + 1

    @pytest.mark.parametrize("bad", [{"key": "text"}, {"value": 3}, {"headers": (("h", "text"),)}])
    def test_a_record_that_has_no_bytes_leaves_it_as_it_was(self, bad: dict[str, Any]) -> None:
        batch, _ = batch_of(b"one")
        size = batch.size
        with pytest.raises(TypeError):
            batch.try_append(1, bad.get("key"), bad.get("value"), bad.get("headers"))
        assert (batch.record_count, batch.size) == (1, size)
        assert batch.try_append(1, None, b"two", None) is not None
        assert values_of(batch) == [b"one", b"two"]

    def test_deliveries_tell_the_sizes_of_keys_and_values(self) -> None:
        batch, _ = batch_of()
        numbers: Any = memoryview(bytearray(16)).cast("d")
        sizes = [(None, b"abc"), (b"", None), (bytearray(b"ab"), numbers)]
        deliveries = [batch.try_append(1, key, value, None) for key, value in sizes]
        batch.complete(0)
        found = [delivery.result() for delivery in deliveries if delivery is not None]
        told = [(item.serialized_key_size, item.serialized_value_size) for item in found]
        assert told == [(-1, 3), (0, -1), (2, 16)]

    def test_a_run_stops_at_the_limit_and_says_where(self) -> None:
        batch, _ = batch_of(limit=400)
        values = [b"%d" % number * 30 for number in range(100)]
        stopped = batch.append_run(1, values, 1, 100)
        assert 1 < stopped < 20
        assert batch.record_count == stopped - 1
        assert values_of(batch) == values[1:stopped]
        assert batch.append_run(1, values, stopped, 100) == stopped

    def test_a_run_with_a_bad_record_keeps_the_records_before_it(self) -> None:
        batch, _ = batch_of()
        with pytest.raises(TypeError):
            batch.append_run(1, [b"a", b"b", cast(bytes, "text"), b"c"], 0, 4)
        assert batch.record_count == 2
        assert values_of(batch) == [b"a", b"b"]


class TestSealing:
    @pytest.mark.parametrize("codec", CODECS)
    @pytest.mark.parametrize("in_thread", [False, True])
    def test_the_bytes_are_those_that_a_broker_reads(self, codec: Compression, in_thread: bool) -> None:
        values = [b"value %d, and on and on and on" % number for number in range(50)]
        batch, _ = batch_of(*values, compression=codec)
        raw = batch.size
        batch.close()
        if in_thread and codec is not Compression.NONE:
            batch.compress()
        batch.seal()
        batch.seal()
        assert batch.builder.is_sealed
        assert not batch.needs_compression
        assert batch.size == len(wire_bytes(batch))
        if codec is not Compression.NONE:
            assert batch.size < raw
        found = parsed(batch)
        assert (found.record_count, found.compression) == (50, codec)
        assert [record.value for record in found.records()] == values
        assert [record.timestamp_ms for record in found.records()] == [1000 + number for number in range(50)]

    def test_a_batch_that_compression_makes_longer_is_sent_as_it_is(self) -> None:
        batch, _ = batch_of(b"\x93\x01\xfe", compression=Compression.GZIP)
        batch.seal()
        assert parsed(batch).compression == Compression.NONE
        assert values_of(batch) == [b"\x93\x01\xfe"]

    def test_only_large_records_need_a_thread(self) -> None:
        assert not batch_of(b"x" * 100, compression=Compression.ZSTD)[0].needs_compression
        large = b"x" * (inline_limit(Compression.ZSTD) + 1)
        assert not batch_of(large)[0].needs_compression
        batch, _ = batch_of(large, compression=Compression.ZSTD)
        assert batch.needs_compression
        batch.compress()
        assert not batch.needs_compression

    def test_a_retry_sends_the_same_bytes_and_an_epoch_bump_others(self) -> None:
        batch, _ = batch_of(b"a", b"b")
        batch.seal()
        assert (batch.has_sequence, batch.base_sequence) == (False, NO_SEQUENCE)
        batch.set_producer_state(7, 1, 40)
        assert (batch.has_sequence, batch.base_sequence) == (True, 40)
        first = wire_bytes(batch)
        held = batch.buffers()
        batch.drained(11.0)
        batch.reenqueued(12.0, 0.1)
        assert wire_bytes(batch) == first
        batch.reset_producer_state(7, 2, 0)
        assert batch.sequence_has_been_reset
        assert b"".join(bytes(piece) for piece in held) == first  # the transport's bytes stay as they are
        found = parsed(batch)
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 2, 0)
        batch.drained(13.0)
        assert not batch.sequence_has_been_reset


class TestAttempts:
    def test_a_retry_waits_for_its_back_off(self) -> None:
        batch, _ = batch_of(b"a")
        batch.seal()
        assert (batch.has_been_sent, batch.is_backing_off(10.0)) == (False, False)
        batch.drained(11.0)
        assert (batch.has_been_sent, batch.drained_at) == (True, 11.0)
        batch.reenqueued(12.0, 0.5)
        assert (batch.attempts, batch.in_retry, batch.last_attempt, batch.retry_at) == (1, True, 12.0, 12.5)
        assert batch.is_backing_off(12.49)
        assert not batch.is_backing_off(12.5)

    def test_a_new_leader_is_tried_at_once_and_only_once(self) -> None:
        batch, _ = batch_of(b"a")
        batch.seal()
        batch.maybe_update_leader_epoch(3)
        batch.drained(11.0)
        batch.reenqueued(12.0, 0.5)
        assert batch.is_backing_off(12.1)
        batch.maybe_update_leader_epoch(3)
        assert batch.is_backing_off(12.1)
        batch.maybe_update_leader_epoch(4)
        assert not batch.is_backing_off(12.1)
        batch.drained(12.1)
        batch.reenqueued(12.2, 0.5)
        assert batch.is_backing_off(12.3)

    def test_the_delivery_time_counts_from_the_batchs_creation(self) -> None:
        batch, _ = batch_of(b"a")
        assert not batch.has_reached_delivery_timeout(5.0, 14.99)
        assert batch.has_reached_delivery_timeout(5.0, 15.0)

    def test_the_delivery_time_is_over_at_the_moment_that_others_wait_for(self) -> None:
        """Timers wait for the sum; a difference rounds otherwise, and the Sender span until the clock had moved."""
        batch = ProducerBatch(T0, RecordBatchBuilder(16 * KIB), 1000.0194820535381)
        assert 1001.5244820535381 - batch.created < 1.505
        assert batch.has_reached_delivery_timeout(1.505, batch.created + 1.505)


class TestOutcome:
    def test_a_batch_is_done_once(self) -> None:
        for first in ("complete", "fail", "abort"):
            batch, (delivery,) = batch_of(b"a")
            error = KafkaError("first")
            assert batch.complete(1) if first == "complete" else getattr(batch, first)(error)
            assert batch.is_done
            state = batch.state
            assert not batch.complete(2)
            assert not batch.fail(KafkaError("second"))
            assert not batch.abort(KafkaError("third"))
            assert batch.state is state
            if first == "complete":
                assert delivery.result().offset == 1
            else:
                assert str(delivery.exception()) == "first"

    def test_every_way_in_which_it_may_end(self) -> None:
        batch, _ = batch_of(b"a", b"b")
        batch.close()
        split(batch, 100)
        assert batch.state is BatchState.SPLIT
        assert not batch.fail(KafkaError())
        assert batch_of(b"a")[0].state is BatchState.OPEN

    def test_a_batch_that_is_done_is_not_sent(self) -> None:
        batch, _ = batch_of(b"a")
        batch.fail(KafkaError())
        with pytest.raises(IllegalTransitionError):
            batch.drained(11.0)
        with pytest.raises(IllegalStateError, match="outcome already"):
            split(batch, 100)
        assert "FAILED" in repr(batch)

    def test_the_states_are_drawn(self) -> None:
        assert "IN_FLIGHT" in BATCH_STATES.diagram()

    def test_an_error_for_each_record(self) -> None:
        batch, deliveries = batch_of(b"a", b"b")
        batch.fail(lambda index: KafkaError(f"record {index}"))
        assert [str(delivery.exception()) for delivery in deliveries] == ["record 0", "record 1"]
