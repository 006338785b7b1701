"""The simulation's spools: a checker that finds each broken promise, in the product and sentence by sentence."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import RecordMetadata
from aiokafkapy.errors import KafkaTimeoutError, SpoolError
from aiokafkapy.producer.spool import spool_replay
from aiokafkapy.producer.spool.format import Mark
from aiokafkapy.producer.spool.spool import Spool, SpooledRecordMetadata
from aiokafkapy.producer.spool.spool_replay import SpoolReplay
from aiokafkapy.producer.spool.spooling_admission import SpoolingAdmission

from .checker import Spooled, check_records
from .run import run
from .simulated_disk import SimulatedDisk
from .workload import Sent

OPTIONS = {"max_block_ms": 1_000, "delivery_timeout_ms": 2_000}


def test_a_seed_with_spools_replays_exactly() -> None:
    spooled = 0
    for seed in range(3):
        first = run(seed, kind="spool")
        spooled += first.counts["spooled"]  # how much depends on the form, whose batches have other sizes in memory
        assert first.fingerprint == run(seed, kind="spool").fingerprint
    assert spooled


@pytest.mark.parametrize("seed", [3, 6, 24, 59, 104, 110, 120, 223, 1287, 2278, 3181])
def test_a_seed_that_once_found_something_finds_nothing(seed: int) -> None:
    # A partitioner's error that held the spool up; idle connections that did; a timer left by another one; a spool
    # that was called full; a refused record that a full disk let others pass; two that went to another partition when
    # they were sent again, by the same process and, interpreted, by the next one (1287); a send_many that went on
    # after its producer's end; records of a refused batch that may have been written (2278); one whose partitioner
    # sends others (24); a death in a line of refused.jsonl, which the workload must not take for one (3, 110).
    assert run(seed, kind="spool").findings == []


# sabotage


def mark_records_before_they_are_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_replay, "Mark", lambda _, sent_to, *__: Mark(sent_to, sent_to))


def let_newer_records_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpoolingAdmission, "_hold", lambda *_: None)


def count_no_repetition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Spool, "note_sending", lambda *_: None)


def wait_for_a_partitioner_to_think_better_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SpoolReplay, "_is_refused", lambda *_, **__: False)


FIRST_SEEDS: dict[Callable[..., None], int] = {
    count_no_repetition: 29,
    let_newer_records_pass: 7,
    mark_records_before_they_are_sent: 3,
}
"""The seeds at which the search begins, so that it takes less than a minute."""


@pytest.mark.parametrize(
    ("sabotage", "finding"),
    [
        (mark_records_before_they_are_sent, "acknowledged and lost"),
        (let_newer_records_pass, "is before it in the log"),
        (count_no_repetition, "records are there again"),
        (wait_for_a_partitioner_to_think_better_of_it, "was not sent within"),
    ],
)
def test_seeds_find_a_fault_in_the_product(
    sabotage: Callable[[pytest.MonkeyPatch], None], finding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sabotage(monkeypatch)
    first = FIRST_SEEDS.get(sabotage, 0)
    for seed in range(first, first + 150):
        if any(finding in found for found in run(seed, kind="spool").findings):
            return
    pytest.fail("150 seeds found nothing")


# the checker, sentence by sentence


def sent(order: int, outcome: Any = None, **fields: Any) -> Sent:
    return Sent(0, order, b"%d" % order, 10.0, outcome=outcome, ended=10.1, **fields)


def spooled(partition: int = -1) -> RecordMetadata:
    return SpooledRecordMetadata("t", partition, -1, 0, -1, 1)


UNKNOWN = SpoolError("closed", outcome_unknown=True)


@pytest.mark.parametrize(
    ("records", "log", "finding"),
    [
        ([sent(0, spooled())], [b"0"], None),
        ([sent(0, spooled(0))], [b"0"], None),
        ([sent(9, spooled())], [], None),
        ([sent(0, spooled())], [], "acknowledged and lost"),
        ([sent(0, spooled(1))], [b"0"], "elsewhere than told: told (1, -1), is at [(0, 0)]"),
        ([sent(0, RecordMetadata("t", 0, -1, 0, -1, 1), is_row=True)], [b"0"], None),
        ([sent(0, spooled()), sent(1, spooled())], [b"0", b"0", b"1", b"0"], None),
        ([sent(0, spooled()), sent(1, spooled())], [b"0", b"1", b"0", b"1", b"1"], "3 records are there again, and 2"),
        ([sent(0, UNKNOWN)], [b"0", b"0"], None),
        ([sent(0, is_cancelled=True, is_lost=True)], [b"0", b"0"], None),
        ([sent(0, RecordMetadata("t", 0, 0, 0, -1, 1))], [b"0", b"0"], "repeated"),
        ([sent(0, KafkaTimeoutError("late"))], [b"0"], "said to be not written, and is"),
        ([sent(0, spooled()), sent(1, spooled())], [b"1", b"0"], "record 0/1 was called in after record 0/0"),
        ([sent(0, spooled()), sent(1, spooled())], [b"1", b"0", b"1"], "record 0/1 was called in after record 0/0"),
        ([sent(0, is_cancelled=True, may_be_late=True), sent(1, spooled())], [b"1", b"0"], None),
    ],
)
def test_the_checker_tells_each_broken_promise(records: list[Sent], log: list[bytes], finding: str | None) -> None:
    found = list(check_records(records, {0: log, 1: []}, OPTIONS, spooled=Spooled({b"9"}, repeated=2)))
    assert [finding in each for each in found] == [True] if finding else not found


# the disk


def test_a_death_in_a_write_leaves_a_part_of_it_to_the_next_process() -> None:
    disk, data, parts = SimulatedDisk(random.Random(1)), b"0123456789", set()
    for _ in range(30):
        folder = disk.new_folder()
        folder.mkdir(parents=True)
        copies: list[Path] = []
        disk.die_in_write(folder, 1, copies.append)
        write_all(disk, folder / "file", data)
        assert (folder / "file").read_bytes() == data, "the dead go on with theirs"
        (copy,) = copies
        parts.add((copy / "file").read_bytes())
    disk.close()
    assert len(parts) > 5
    assert all(data.startswith(part) for part in parts)


def test_a_full_disk_refuses_a_write_after_a_part_of_it() -> None:
    disk = SimulatedDisk(random.Random(1))
    folder = disk.new_folder()
    folder.mkdir(parents=True)
    disk.is_full = True
    with pytest.raises(OSError, match="No space"):
        write_all(disk, folder / "file", bytes(100))
    disk.heal()
    write_all(disk, folder / "file", b"whole")
    disk.close()
    assert not folder.exists()


def write_all(disk: SimulatedDisk, file: Path, data: bytes) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT)
    try:
        position = 0
        while position < len(data):
            position += disk.write_at(descriptor, data[position:], position)
    finally:
        os.close(descriptor)
