"""Records that move on into other batches: split, without some of them, without a codec."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.accumulator.batch_successors import move_out, remove_records, split, uncompressed
from aiokafkapy.producer.accumulator.producer_batch import BatchState, ProducerBatch
from aiokafkapy.producer.deliveries.delivery import Delivery
from aiokafkapy.producer.deliveries.produce_request_result import ProduceRequestResult
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression
from aiokafkapy.record.layout import BATCH_HEADER_SIZE

from ..accumulator_harness import KIB, T0, batch_of, parsed, values_of


class TestSplit:
    @pytest.mark.parametrize("codec", [Compression.NONE, Compression.LZ4])
    def test_the_pieces_have_all_records_in_order_with_consecutive_sequences(self, codec: Compression) -> None:
        values = [b"%03d" % number * 20 for number in range(40)]
        batch, deliveries = batch_of(*values, compression=codec, order=1 << 24)
        batch.seal()
        batch.set_producer_state(7, 1, 2**31 - 5)
        batch.drained(11.0)
        pieces = split(batch, 600)
        assert len(pieces) > 2
        assert [value for piece in pieces for value in values_of(piece)] == values
        sequence = 2**31 - 5
        order = batch.order
        for piece in pieces:
            assert piece.is_split_batch
            assert piece.builder.is_sealed
            assert piece.state is BatchState.CLOSED
            assert piece.created == batch.created
            assert piece.order == order
            assert BATCH_HEADER_SIZE + piece.builder.records_size <= 600
            found = parsed(piece)
            assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 1, sequence)
            sequence = (sequence + piece.record_count) & 0x7FFFFFFF
            order += piece.record_count
        for number, piece in enumerate(pieces):
            piece.complete(1000 * number)
        offsets = [1000 * number + at for number, piece in enumerate(pieces) for at in range(piece.record_count)]
        assert [delivery.result().offset for delivery in deliveries] == offsets
        assert [delivery.result().timestamp_ms for delivery in deliveries] == [1000 + at for at in range(40)]

    def test_a_record_over_the_limit_gets_a_piece_of_its_own(self) -> None:
        batch, _ = batch_of(b"a", b"b" * 1000, b"c")
        batch.close()
        assert [values_of(piece) for piece in split(batch, 200)] == [[b"a"], [b"b" * 1000], [b"c"]]

    def test_pieces_without_sequences_have_none(self) -> None:
        batch, _ = batch_of(b"a" * 50, b"b" * 50)
        batch.close()
        assert [piece.has_sequence for piece in split(batch, 100)] == [False, False]

    @given(st.lists(st.binary(max_size=300), min_size=2, max_size=30), st.data())
    def test_halving_ends_with_single_records_in_order(self, values: list[bytes], data: st.DataObject) -> None:
        batch, deliveries = batch_of(*values)
        batch.seal()
        batch.set_producer_state(7, 0, 100)
        queue, done = [batch], []
        while queue:
            first = queue.pop(0)
            if first.record_count > 1 and data.draw(st.booleans()):
                half = (BATCH_HEADER_SIZE + first.builder.records_size) // 2
                pieces = split(first, half)
                assert 1 < len(pieces) <= first.record_count
                queue = pieces + queue
            else:
                first.complete(first.base_sequence - 100)
                done.append(first)
        assert [value for piece in done for value in values_of(piece)] == values
        assert [piece.order for piece in done] == sorted(piece.order for piece in done)
        assert [delivery.result().offset for delivery in deliveries] == list(range(len(values)))


class TestRemoveRecords:
    def test_the_named_records_fail_alone(self) -> None:
        batch, deliveries = batch_of(*[b"%d" % number for number in range(6)])
        batch.seal()
        batch.set_producer_state(7, 1, 40)
        batch.drained(11.0)
        rest = remove_records(batch, {0: KafkaError("zero"), 3: KafkaError("three"), 99: KafkaError("nobody")})
        assert rest is not None
        assert values_of(rest) == [b"1", b"2", b"4", b"5"]
        found = parsed(rest)
        assert (found.producer_id, found.producer_epoch, found.base_sequence) == (7, 1, 40)
        assert [record.timestamp_ms for record in found.records()] == [1001, 1002, 1004, 1005]
        assert [delivery.done() for delivery in deliveries] == [True, False, False, True, False, False]
        rest.complete(70)
        errors = [delivery.exception() for delivery in deliveries]
        assert [None if error is None else str(error) for error in errors] == ["zero", None, None, "three", None, None]
        offsets = [delivery.result().offset for delivery in deliveries if delivery.exception() is None]
        assert offsets == [70, 71, 72, 73]

    def test_nothing_is_left_when_all_are_named(self) -> None:
        batch, deliveries = batch_of(b"a", b"b")
        batch.close()
        assert remove_records(batch, {0: KafkaError("a"), 1: KafkaError("b")}) is None
        assert [str(delivery.exception()) for delivery in deliveries] == ["a", "b"]
        assert batch.is_done

    def test_the_other_records_stay_though_they_grow(self) -> None:
        """All other timestamps are written as differences to the first: those to another take more bytes."""
        batch = ProducerBatch(T0, RecordBatchBuilder(16 * KIB), 10.0)
        stamps = [0, 2**63 - 1]
        deliveries: list[Delivery] = []
        while (delivery := batch.try_append(stamps[len(deliveries)], None, b"", None)) is not None:
            deliveries.append(delivery)
            stamps.append(0)
        rest = remove_records(batch, {0: KafkaError("gone")})
        assert rest is not None
        assert rest.size > 16 * KIB
        assert rest.record_count == len(deliveries) - 1

    @given(st.integers(1, 20), st.sets(st.integers(0, 25)), st.sampled_from([Compression.NONE, Compression.SNAPPY]))
    def test_any_set_of_records(self, count: int, named: set[int], codec: Compression) -> None:
        values = [b"%d" % number * 10 for number in range(count)]
        batch, deliveries = batch_of(*values, compression=codec)
        batch.seal()
        rest = remove_records(batch, {index: KafkaError(str(index)) for index in named})
        kept = [index for index in range(count) if index not in named]
        assert (rest is None) == (not kept)
        if rest is not None:
            assert values_of(rest) == [values[index] for index in kept]
            rest.complete(500)
        for index, delivery in enumerate(deliveries):
            if index in named:
                assert str(delivery.exception()) == str(index)
            else:
                assert delivery.result().offset == 500 + kept.index(index)


class TestUncompressed:
    def test_the_records_are_as_they_were_without_the_codec(self) -> None:
        values = [b"%d" % number * 50 for number in range(5)]
        batch, deliveries = batch_of(*values, compression=Compression.GZIP)
        batch.seal()
        batch.set_producer_state(7, 1, 40)
        rest = uncompressed(batch)
        assert batch.state is BatchState.SPLIT
        found = parsed(rest)
        assert (found.compression, found.base_sequence) == (Compression.NONE, 40)
        assert [record.value for record in found.records()] == values
        rest.complete(70)
        assert [delivery.result().offset for delivery in deliveries] == [70, 71, 72, 73, 74]


class TestMoveOut:
    def test_the_records_have_the_outcome_of_the_result(self) -> None:
        batch, deliveries = batch_of(b"a", b"b")
        batch.close()
        elsewhere = ProduceRequestResult(T0)
        elsewhere.record_count = 2
        move_out(batch, elsewhere)
        assert batch.is_done
        assert not deliveries[1].done()
        elsewhere.succeed(5, -1)
        assert [delivery.result().offset for delivery in deliveries] == [5, 6]
