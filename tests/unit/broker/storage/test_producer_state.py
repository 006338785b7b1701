"""Batches of an idempotent producer: new, repeated or wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.broker.storage.producer_state import (
    MAX_SEQUENCE,
    PRODUCER_ID_BLOCK_SIZE,
    BatchMetadata,
    ProducerIdManager,
    ProducerStateManager,
)
from aiokafkapy.errors import InvalidProducerEpochError, OutOfOrderSequenceNumberError

PRODUCER = 7


def append(state: ProducerStateManager, first: int, last: int, *, epoch: int = 0, offset: int | None = None) -> None:
    assert state.check(PRODUCER, epoch, first, last) is None
    offset = first if offset is None else offset
    state.update(PRODUCER, epoch, BatchMetadata(first, last, offset, offset + last - first, 1_000))


def test_each_of_the_last_five_batches_is_recognised() -> None:
    state = ProducerStateManager("t-0")
    for number in range(7):
        append(state, number * 10, number * 10 + 9)
    for number in range(2, 7):
        found = state.check(PRODUCER, 0, number * 10, number * 10 + 9)
        assert found is not None
        assert found.first_offset == number * 10


def test_a_repeated_batch_that_is_older_is_out_of_order() -> None:
    state = ProducerStateManager("t-0")
    for number in range(7):
        append(state, number * 10, number * 10 + 9)
    with pytest.raises(OutOfOrderSequenceNumberError, match=r"10 \(incoming seq. number\), 69"):
        state.check(PRODUCER, 0, 10, 19)


def test_a_batch_cut_differently_is_not_a_duplicate() -> None:
    state = ProducerStateManager("t-0")
    append(state, 0, 9)
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(PRODUCER, 0, 0, 4)


def test_a_gap_is_out_of_order() -> None:
    state = ProducerStateManager("t-0")
    append(state, 0, 9)
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(PRODUCER, 0, 11, 12)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """KIP-360: its records may have been deleted."""
    append(ProducerStateManager("t-0"), 500, 501)


@pytest.mark.parametrize("epoch", [-1, 0])
def test_after_a_batch_without_an_epoch_any_sequence_is_taken_as_in_kafka(epoch: int) -> None:
    state = ProducerStateManager("t-0")
    append(state, 0, 9, epoch=-1)
    append(state, 15, 15, epoch=epoch)


def test_a_new_epoch_begins_with_sequence_zero_and_forgets_the_old_batches() -> None:
    state = ProducerStateManager("t-0")
    append(state, 0, 9)
    with pytest.raises(OutOfOrderSequenceNumberError, match="new epoch"):
        state.check(PRODUCER, 1, 10, 11)
    append(state, 0, 0, epoch=1, offset=10)
    with pytest.raises(OutOfOrderSequenceNumberError):
        state.check(PRODUCER, 1, 0, 9)


def test_an_older_epoch_is_fenced() -> None:
    state = ProducerStateManager("t-0")
    append(state, 0, 9, epoch=3)
    with pytest.raises(InvalidProducerEpochError, match="is 2, which is smaller than the last seen epoch 3"):
        state.check(PRODUCER, 2, 10, 11)


def test_sequences_wrap_around() -> None:
    state = ProducerStateManager("t-0")
    append(state, MAX_SEQUENCE - 1, MAX_SEQUENCE)
    append(state, 0, 3, offset=100)
    append(state, 4, 4, offset=104)


def test_checking_alone_remembers_nothing() -> None:
    state = ProducerStateManager("t-0")
    assert state.check(PRODUCER, 0, 0, 9) is None
    assert state.check(PRODUCER, 0, 0, 9) is None
    assert not state.producers


def test_producers_not_heard_of_are_forgotten_when_there_are_many() -> None:
    state = ProducerStateManager("t-0", expiration_ms=5_000)
    for producer_id in range(1_000):
        state.update(producer_id, 0, BatchMetadata(0, 0, producer_id, producer_id, producer_id * 10))
    state.update(1_000, 0, BatchMetadata(0, 0, 1_000, 1_000, 10_000))
    assert min(state.producers) == 501
    assert len(state.producers) == 500


def test_ids_are_never_given_twice_over_restarts(tmp_path: Path) -> None:
    given: list[int] = []
    for _ in range(3):
        manager = ProducerIdManager(tmp_path / "data")
        given += [manager.generate() for _ in range(PRODUCER_ID_BLOCK_SIZE + 1)]
    assert len(set(given)) == len(given)


def test_ids_begin_at_zero_in_memory() -> None:
    manager = ProducerIdManager()
    assert [manager.generate() for _ in range(3)] == [0, 1, 2]


def test_a_damaged_block_of_ids_is_refused_and_ids_begin_after_those_in_the_logs_without_it(tmp_path: Path) -> None:
    ProducerIdManager(tmp_path).generate()
    path = tmp_path / "producer-ids"
    path.write_bytes(path.read_bytes().replace(b"1000", b"0000"))
    with pytest.raises(DamagedFileError, match=r"producer-ids is damaged: .* delete it: new producer ids then begin"):
        ProducerIdManager(tmp_path)
    path.unlink()
    assert ProducerIdManager(tmp_path, first=42).generate() == 42
