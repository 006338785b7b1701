"""Accounting: accepted = delivered + failed + pending, and the batches of a flush."""

from __future__ import annotations

from aiokafkapy.producer.accumulator.batch_successors import remove_records, split
from aiokafkapy.producer.accumulator.incomplete_batches import Flush, IncompleteBatches
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.record.builder import RecordBatchBuilder

from ..accumulator_harness import T0


def batch_of(incomplete: IncompleteBatches, records: int = 2, created: float = 0.0) -> ProducerBatch:
    batch = ProducerBatch(T0, RecordBatchBuilder(1000), created, incomplete=incomplete)
    for _ in range(records):
        assert batch.try_append(1, None, b"x", None) is not None
    incomplete.add(batch)
    return batch


def test_records_are_pending_until_their_batch_has_an_outcome() -> None:
    incomplete = IncompleteBatches()
    first, second, third = batch_of(incomplete, 1), batch_of(incomplete, 2), batch_of(incomplete, 4)
    assert (incomplete.pending, incomplete.delivered, incomplete.failed) == (7, 0, 0)
    first.complete(0)
    assert (incomplete.pending, incomplete.delivered, incomplete.failed) == (6, 1, 0)
    second.fail(ValueError())
    assert (incomplete.pending, incomplete.delivered, incomplete.failed) == (4, 1, 2)
    third.abort(ValueError())
    assert (incomplete.pending, incomplete.delivered, incomplete.failed) == (0, 1, 6)
    assert len(incomplete) == 0
    assert first not in incomplete


def test_a_second_outcome_counts_nothing() -> None:
    incomplete = IncompleteBatches()
    batch = batch_of(incomplete)
    assert batch.fail(ValueError())
    assert not batch.complete(0)
    assert not batch.abort(ValueError())
    assert (incomplete.pending, incomplete.delivered, incomplete.failed) == (0, 0, 2)


def test_the_pieces_of_a_split_batch_take_its_place_in_the_same_step() -> None:
    incomplete = IncompleteBatches()
    batch = batch_of(incomplete, 6)
    batch.close()
    pieces = split(batch, 80)
    assert len(pieces) > 1
    assert incomplete.copy_all() == pieces
    assert incomplete.pending == 6
    for piece in pieces:
        piece.complete(0)
    assert (incomplete.pending, incomplete.delivered) == (0, 6)


def test_the_pieces_of_a_split_batch_are_as_old_as_it_was() -> None:
    incomplete = IncompleteBatches()
    old, young = batch_of(incomplete, 6, created=1.0), batch_of(incomplete, created=2.0)
    old.close()
    pieces = split(old, 80)
    assert incomplete.first(lambda batch: True) is pieces[0]
    assert incomplete.first(lambda batch: batch not in pieces) is young
    assert incomplete.copy_all() == [*pieces, young]


def test_records_that_were_taken_out_of_a_batch_have_failed_when_the_others_are_pending_again() -> None:
    incomplete = IncompleteBatches()
    batch = batch_of(incomplete, 6)
    batch.close()
    rest = remove_records(batch, {1: ValueError(), 4: ValueError()})
    assert rest is not None
    assert incomplete.copy_all() == [rest]
    assert (incomplete.pending, incomplete.failed) == (4, 2)


class TestFlush:
    def test_it_is_settled_by_the_last_of_its_batches(self) -> None:
        incomplete = IncompleteBatches()
        batches = [batch_of(incomplete) for _ in range(3)]
        events: list[str] = []
        flush = Flush(incomplete.copy_all(), lambda: events.append("settled"), lambda: events.append("end"))
        batch_of(incomplete)  # is not waited for
        batches[1].complete(0)
        batches[0].fail(ValueError())
        assert (flush.is_settled, events) == (False, [])
        batches[2].complete(5)
        assert flush.is_settled
        flush.end()
        flush.end()
        assert events == ["settled", "end"]

    def test_nothing_to_wait_for_is_settled_at_once_without_a_call(self) -> None:
        events: list[str] = []
        flush = Flush([], lambda: events.append("settled"), lambda: events.append("end"))
        assert flush.is_settled
        flush.end()
        assert events == ["end"]

    def test_it_follows_a_batch_that_is_split_and_split_again(self) -> None:
        incomplete = IncompleteBatches()
        batch = batch_of(incomplete, 8)
        events: list[str] = []
        flush = Flush(incomplete.copy_all(), lambda: events.append("settled"), lambda: None)
        batch.close()
        halves = split(batch, 95)
        pieces = [piece for half in halves for piece in split(half, 70)]
        assert len(pieces) > len(halves) > 1
        for piece in pieces:
            assert not flush.is_settled
            assert events == []
            piece.complete(0)
        assert events == ["settled"]

    def test_one_that_was_given_up_is_not_called_any_more(self) -> None:
        incomplete = IncompleteBatches()
        batch = batch_of(incomplete)
        events: list[str] = []
        flush = Flush(incomplete.copy_all(), lambda: events.append("settled"), lambda: events.append("end"))
        flush.end()
        batch.complete(0)
        assert events == ["end"]
