"""The data folder after kill -9 at each byte that is written, and at each step between: all that was done is there.

The kill is made by hand, so that it happens at every byte: the bytes that are written are counted, and after the last
one that is allowed nothing reaches the disk. Removing and renaming count as one byte.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.group_offsets import CommittedOffset, OffsetStore
from aiokafkapy.broker.storage.producer_state import ProducerIdManager
from aiokafkapy.broker.storage.topics import TopicRegistry
from aiokafkapy.common import TopicPartition

from ..support import log_of, make_batch

PLACE = TopicPartition("t", 0)


class KilledError(BaseException):
    """The process has ended here."""


class Disk:
    """Lets so many bytes through, and no more."""

    def __init__(self, budget: int) -> None:
        self.budget = budget

    def take(self, size: int) -> int:
        """The number of these bytes that still reach the disk."""
        taken = min(size, self.budget)
        self.budget -= taken
        return taken

    def pwritev(self, descriptor: int, pieces: Sequence[bytes], position: int) -> int:
        data = b"".join(pieces)
        taken = self.take(len(data))
        os.pwrite(descriptor, data[:taken], position)
        if taken < len(data):
            raise KilledError
        return taken

    def write_bytes(self, path: Path, data: bytes) -> int:
        taken = self.take(len(data))
        with path.open("wb") as file:
            file.write(data[:taken])
        if taken < len(data):
            raise KilledError
        return taken

    def step(self, do: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            if not self.take(1):
                raise KilledError
            return do(*arguments, **named)

        return counted


@contextmanager
def killed_after(budget: int) -> Iterator[Disk]:
    disk = Disk(budget)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pwritev", disk.pwritev)
        patch.setattr(Path, "write_bytes", lambda path, data: disk.write_bytes(path, data))
        for name in ("replace", "rename", "unlink", "mkdir", "touch"):
            patch.setattr(Path, name, disk.step(getattr(Path, name)))
        yield disk


class Opened:
    """The state that a broker reads from a data folder."""

    def __init__(self, folder: Path) -> None:
        self.topics = TopicRegistry(BrokerConfig(), [1, 2], data_dir=folder)
        try:
            self.offsets = OffsetStore(folder)
            self.producer_ids = ProducerIdManager(folder)
        except BaseException:
            self.topics.close()
            raise

    def append(self, *values: bytes, sequence: int) -> None:
        log_of(self.topics).append(make_batch(values, producer=(7, 0, sequence)), 0, 1_000)

    @property
    def values(self) -> list[bytes | None]:
        return [] if "t" not in self.topics else [record.value for record in log_of(self.topics).records()]

    @property
    def partitions(self) -> int:
        topic = self.topics.get("t")
        return 0 if topic is None else len(topic.partitions)

    @property
    def start_offset(self) -> int:
        return log_of(self.topics).start_offset if self.partitions else 0

    @property
    def committed(self) -> int:
        found = self.offsets.get("g").get(PLACE)
        return -1 if found is None else found.offset

    def close(self) -> None:
        self.topics.close()
        self.offsets.close()


# Each step, and the part of the state that it changes: equal up to the step, other after it.
Step = tuple[Callable[[Opened], object], Callable[[Opened], object]]
STEPS: list[Step] = [
    (lambda it: it.topics.create("t", 1), lambda it: it.partitions),
    (lambda it: it.append(b"a", b"b", sequence=0), lambda it: it.values),
    (lambda it: it.offsets.commit("g", {PLACE: CommittedOffset(1)}), lambda it: it.committed),
    (lambda it: it.append(b"c", sequence=2), lambda it: it.values),
    (lambda it: log_of(it.topics).delete_records(1), lambda it: (it.start_offset, it.values)),
    (lambda it: it.offsets.commit("g", {PLACE: CommittedOffset(2)}), lambda it: it.committed),
    (lambda it: it.topics.add_partitions("t", 2), lambda it: it.partitions),
    (lambda it: it.append(b"d", sequence=3), lambda it: it.values),
    (lambda it: it.topics.delete("t"), lambda it: it.partitions),
]


def run(folder: Path, budget: int) -> tuple[list[list[object]], bool]:
    """The state before each step that was begun and after the last finished one; and whether all were finished."""
    seen: list[list[object]] = []
    opened: Opened | None = None
    with killed_after(budget):
        try:
            opened = Opened(folder)
            seen.append(everything(opened))
            for do, _ in STEPS:
                do(opened)
                seen.append(everything(opened))
        except KilledError:
            return seen, False
        finally:
            if opened is not None:
                opened.close()
    return seen, True


def everything(opened: Opened) -> list[object]:
    return [look(opened) for _, look in STEPS]


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_kill_at_any_byte_loses_nothing_that_was_done_and_leaves_nothing_by_halves(tmp_path: Path) -> None:
    whole, is_done = run(tmp_path / "whole", 10**9)
    assert is_done
    assert all(look_before != look_after for look_before, look_after in pairwise(whole))
    kills = 0
    for budget in count():
        folder = tmp_path / str(budget)
        seen, is_done = run(folder, budget)
        if is_done:
            break
        kills += 1
        again = Opened(folder)
        found = everything(again)
        again.close()
        # The step that was cut short was done, or was not.
        done = max(0, len(seen) - 1)
        assert found in (whole[done], whole[done + 1]), f"killed at byte {budget}, in step {done}"
    assert kills > 600
