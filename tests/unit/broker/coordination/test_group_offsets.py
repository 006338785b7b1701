"""Committed offsets: remembered, and not lost in a crash once acknowledged."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from aiokafkapy.broker.coordination.group_offsets import CommittedOffset, OffsetStore
from aiokafkapy.broker.storage import journal
from aiokafkapy.broker.storage.checkpoint_file import DamagedFileError
from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import KafkaStorageError

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = uuid.UUID(int=5)

OpenStore = Callable[[], OffsetStore]


@pytest.fixture
def open_store(tmp_path: Path) -> Iterator[OpenStore]:
    opened: list[OffsetStore] = []

    def open_store() -> OffsetStore:
        opened.append(OffsetStore(tmp_path / "data"))
        return opened[-1]

    yield open_store
    for store in opened:
        store.close()


def test_the_last_commit_counts() -> None:
    store = OffsetStore()
    store.commit("g", {A: CommittedOffset(1), B: CommittedOffset(2, 7, "note")})
    store.commit("g", {A: CommittedOffset(3)})
    assert store.get("g") == {A: CommittedOffset(3), B: CommittedOffset(2, 7, "note")}
    assert store.get("other") == {}
    assert store.groups() == ["g"]


def test_a_deleted_topic_has_no_offset() -> None:
    store = OffsetStore()
    store.commit("g", {A: CommittedOffset(1, topic_id=TOPIC_ID)})
    assert store.fetch("g", A, TOPIC_ID) == CommittedOffset(1, topic_id=TOPIC_ID)
    assert store.fetch("g", A, uuid.UUID(int=6)) is None
    assert store.fetch("g", B, TOPIC_ID) is None


def test_everything_is_there_after_a_restart_without_closing(open_store: OpenStore) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1, 2, "naïve\n", TOPIC_ID), B: CommittedOffset(9)})
    store.commit("h", {A: CommittedOffset(5)})
    store.commit("g", {A: CommittedOffset(4, 2, "", TOPIC_ID)})
    store.forget("g", [B, TopicPartition("t", 7)])
    store.commit("gone", {A: CommittedOffset(1)})
    store.delete("gone")
    again = open_store()
    assert again.get("g") == {A: CommittedOffset(4, 2, "", TOPIC_ID)}
    assert again.get("h") == {A: CommittedOffset(5)}
    assert again.groups() == ["g", "h"]


def test_a_line_cut_short_is_dropped_and_written_over(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1)})
    path = tmp_path / "data" / "group-offsets.jsonl"
    whole = path.read_bytes()
    store.commit("g", {A: CommittedOffset(22_222)})
    both = path.read_bytes()
    for size in range(len(whole), len(both)):
        path.write_bytes(both[:size])
        again = open_store()
        assert again.get("g") == {A: CommittedOffset(1)}
        again.commit("g", {B: CommittedOffset(3)})
        assert open_store().get("g") == {A: CommittedOffset(1), B: CommittedOffset(3)}


def test_a_flipped_bit_anywhere_is_damage_that_is_named_and_not_written_over(
    open_store: OpenStore, tmp_path: Path
) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1)})
    store.commit("g", {A: CommittedOffset(2, 0, "note", TOPIC_ID)})
    path = tmp_path / "data" / "group-offsets.jsonl"
    whole = path.read_bytes()
    for position in range(len(whole)):
        damaged = bytearray(whole)
        damaged[position] ^= 0x01
        path.write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=r"group-offsets.jsonl is damaged: line [12] does not fit"):
            open_store()
        assert path.read_bytes() == damaged


def test_a_commit_that_cannot_be_written_is_not_remembered(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1)})
    really = os.pwritev

    def fail(descriptor: int, buffers: list[bytes], offset: int) -> int:
        really(descriptor, [bytes(buffers[0])[:9]], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", fail)
    with pytest.raises(KafkaStorageError, match="No space left"):
        store.commit("g", {A: CommittedOffset(2)})
    monkeypatch.undo()
    assert store.get("g") == {A: CommittedOffset(1)}
    store.commit("g", {B: CommittedOffset(3)})
    assert open_store().get("g") == {A: CommittedOffset(1), B: CommittedOffset(3)}


def test_the_file_does_not_grow_for_ever(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "REWRITE_FROM", 50)
    store = open_store()
    for offset in range(220):
        store.commit("g", {A: CommittedOffset(offset)})
    lines = (tmp_path / "data" / "group-offsets.jsonl").read_bytes().splitlines()
    assert len(lines) <= 50
    assert open_store().get("g") == {A: CommittedOffset(219)}


@pytest.mark.parametrize(
    "change",
    [
        lambda store: store.commit("new", {A: CommittedOffset(7)}),
        lambda store: store.commit("g", {B: CommittedOffset(7)}),
        lambda store: store.forget("g", [A]),
        lambda store: store.delete("g"),
        lambda store: store.delete("modern"),
        lambda store: store.note_type("new", is_consumer=True),
        lambda store: store.add_pending("g", 8, {A: CommittedOffset(7)}),
        lambda store: store.end_pending("g", 7, is_commit=True),
        lambda store: store.end_pending("g", 7, is_commit=False),
    ],
    ids=["commit of a new group", "commit", "forget", "delete", "delete modern", "type", "pending", "end", "abort"],
)
@pytest.mark.parametrize("lines_before", [0, 1, 2])
def test_the_change_that_has_the_file_rewritten_is_there_after_a_restart(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, change: Callable[[OffsetStore], None], lines_before: int
) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1)})
    store.note_type("modern", is_consumer=True)
    store.add_pending("g", 7, {B: CommittedOffset(5)})
    for _ in range(20 - lines_before - 3):
        store.commit("filler", {A: CommittedOffset(1)})
    monkeypatch.setattr(journal, "REWRITE_FROM", 20)
    before = _content(store)
    for _ in range(lines_before):
        store.commit("filler", {A: CommittedOffset(1)})
    change(store)
    assert _content(store) != before
    assert _content(open_store()) == _content(store)


def test_transactions_that_only_add_and_abort_offsets_do_not_let_the_file_grow(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journal, "REWRITE_FROM", 50)
    store = open_store()
    for _ in range(100):
        store.add_pending("g", 7, {A: CommittedOffset(1)})
        store.end_pending("g", 7, is_commit=False)
    assert len((tmp_path / "data" / "group-offsets.jsonl").read_bytes().splitlines()) <= 50


def test_offsets_of_a_transaction_count_when_it_is_committed_also_after_a_restart(open_store: OpenStore) -> None:
    store = open_store()
    store.commit("g", {A: CommittedOffset(1)})
    for producer_id, offset in ((7, 5), (8, 6)):
        store.add_pending("g", producer_id, {A: CommittedOffset(offset)})
    for each in (store, open_store()):
        assert each.get("g") == {A: CommittedOffset(1)}
        assert each.is_pending("g", A)
        assert not each.is_pending("h", A)
    store = open_store()
    store.end_pending("g", 7, is_commit=False)
    assert store.get("g") == {A: CommittedOffset(1)}
    store.end_pending("g", 8, is_commit=True)
    store.end_pending("g", 8, is_commit=True)
    for each in (store, open_store()):
        assert each.get("g") == {A: CommittedOffset(6)}
        assert not each.is_pending("g", A)


def _content(store: OffsetStore) -> object:
    offsets = {group_id: store.get(group_id) for group_id in store.groups()}
    pending = [(group_id, place) for group_id in ("g", "new") for place in (A, B) if store.is_pending(group_id, place)]
    return {group_id: each for group_id, each in offsets.items() if each}, set(store.consumer_groups), pending
