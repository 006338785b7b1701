"""The users of a service with a spool, whose process comes to its end in every way and is started again.

One process after another has the folder. A process ends with ``close()``, or it is killed: at any moment, also in the
middle of a write to the disk. A death is made of three things: the next process gets a copy of the folder as it is at
that moment; the users are told nothing any more; the dead producer is cut off from its brokers in the same step, and
later changes of its parts to its old folder have no effect.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from aiokafkapy import KafkaProducer, RecordMetadata
from aiokafkapy.errors import KafkaError
from aiokafkapy.producer.spool.format import decode_mark
from tests.inside import runtime_of

from .hooks import Hooks
from .simulated_disk import SimulatedDisk
from .workload import Sent, Workload, producer_options

__all__ = ["SpoolingWorkload", "spooling_options"]


def spooling_options(chance: random.Random) -> dict[str, Any]:
    """Options of a producer with a spool, but for its folder."""
    options = producer_options(chance)
    options.pop("enable_gapless_guarantee", None)
    if options.get("acks") == 0:
        options["acks"] = 1
    options["buffer_memory"] = chance.choice((3_000, 3_000, 20_000, 33_554_432))
    options["max_request_size"] = min(options["max_request_size"], options["buffer_memory"])
    return options | {
        "overflow": "spool",
        "spool_after_ms": chance.choice((None, 20, 200, 5_000)),
        "spool_max_bytes": max(options["max_request_size"], chance.choice((20_000, 200_000, 2**30, 2**30))),
        "spool_fsync": chance.choice(("always", "every_second", "never")),
    }


class SpoolingWorkload(Workload):
    """The users of one folder, and its processes one after another. ``make_producer`` makes the next one's producer."""

    def __init__(
        self,
        number: int,
        make_producer: Callable[[Path], KafkaProducer[Any, Any]],
        chance: random.Random,
        partitions: int,
        duration: float,
        hooks: Hooks,
        *,
        disk: SimulatedDisk,
        on_end: Callable[[KafkaProducer[Any, Any]], None],
    ) -> None:
        """``on_end`` is told of each producer that has come to its end."""
        self.folder = disk.new_folder()
        super().__init__(number, make_producer(self.folder), chance, partitions, duration, hooks)
        hooks.is_asked_again = True
        self.counts: Counter[str] = Counter()
        self.repeated = 0
        self.is_in_doubt = False  # some records may have been sent by a process that is no more
        self.is_unmarked = False  # so many of them as were sent while the disk took no mark
        self._make_producer = make_producer
        self._disk = disk
        self._on_end = on_end
        self._lives = chance.choice((1, 2, 2, 4))
        self._life = chance.choice((0.5, 1.0, 2.0)) * duration / self._lives
        self._dead: list[KafkaProducer[Any, Any]] = []
        self._accounted: set[KafkaProducer[Any, Any]] = set()
        self._is_closing = False
        self._refused_before = 0

    # overriding Workload

    async def run(self) -> None:
        """One life after another; the last one's producer is left running, if nothing has ended it."""
        for life in range(self._lives):
            await self._start()
            if self._is_closing:
                break
            if life == self._lives - 1:
                await super().run()
                break
            await self._live()
            self._begin_anew()
        while self._children:
            await asyncio.wait(self._children)

    async def close(self, timeout: float | None) -> None:
        """Close the producer, for good."""
        self._is_closing = True
        await self._settle(self.producer, timeout)
        await self._bury()

    def _tell(self, sent: Sent, outcome: RecordMetadata | BaseException) -> None:
        if not sent.is_lost:
            super()._tell(sent, outcome)

    # afterwards

    async def drain(self, deadline: float) -> str:
        """One more process sends the rest; returns why it is not, at the deadline."""
        await self._settle(self.producer, None)
        await self._bury()
        self._is_closing = False
        self._begin_anew()
        await self._start()
        while self.producer.statistics().spool_records and self._loop.time() < deadline:  # noqa: ASYNC110  # nobody tells of it
            await asyncio.sleep(0.05)
        left = self.producer.statistics()
        await self._settle(self.producer, None)
        return f"{left.spool_records} records are left: {left}" if left.spool_records else ""

    def refused(self) -> set[bytes]:
        """The values of records that brokers refused for good."""
        file = self.folder / "refused.jsonl"
        lines = file.read_bytes().splitlines() if file.exists() else []
        found = set()
        for line in lines:
            with contextlib.suppress(ValueError):  # a process died in it: the next one has the record in its spool
                found.add(str(json.loads(line)["value"]).encode())
        return found

    # internals

    async def _start(self) -> None:
        self._refused_before = self._disk.refused
        while not self._is_closing:
            try:
                await self.producer.start()
            except KafkaError:
                await asyncio.sleep(0.05)
            else:
                return

    def _begin_anew(self) -> None:
        for sent in self.sent:
            sent.may_be_late |= sent.outcome is None or getattr(sent.outcome, "outcome_unknown", False)
        if self._disk.refused > self._refused_before:
            self.is_in_doubt = self.is_unmarked = True
        with contextlib.suppress(FileNotFoundError):
            mark = decode_mark((self.folder / "sent.json").read_bytes())
            self.is_in_doubt |= mark.sent_to > mark.next
        self.producer = self._make_producer(self.folder)

    async def _live(self) -> None:
        """Run this process to its end."""
        chance, died = self._chance, self._loop.create_future()
        ending = chance.choice(("close", "close at once", "kill", "kill", "kill in a write", "kill in a write"))
        if ending == "kill in a write":
            self._disk.die_in_write(self.folder, chance.choice((1, 1, 2, 3, 5, 10)), lambda copy: self._die(died, copy))
        users = self._loop.create_task(super().run())
        await asyncio.wait([users, died], timeout=chance.uniform(0, 2 * self._life), return_when="FIRST_COMPLETED")
        self._disk.forget_death(self.folder)
        if ending.startswith("kill"):
            self.counts["kill in a write" if died.done() else "kill"] += 1
            if not died.done():
                self._die(died, self._disk.copy(self.folder))
            for task in (users, *self._children):
                task.cancel()
            await asyncio.wait([users])
            await self._bury()
            return
        self.counts[ending] += 1
        users.cancel()  # nobody calls any more
        await self._settle(self.producer, 0 if ending == "close at once" else None)
        await asyncio.wait([users])
        while self._children:
            await asyncio.wait(self._children)

    def _die(self, died: asyncio.Future[None], copy: Path) -> None:
        """The process dies."""
        for sent in self.sent:
            sent.is_lost = sent.is_cancelled = sent.outcome is None or sent.is_lost
        self._dead.append(self.producer)
        runtime = runtime_of(self.producer)
        if runtime is not None:
            runtime.abort()
        self.folder = copy
        died.set_result(None)

    async def _bury(self) -> None:
        """See that nothing is left of the dead; their accounts are as good as those of the living."""
        while self._dead:
            await self._settle(self._dead.pop(), 0)

    async def _settle(self, producer: KafkaProducer[Any, Any], timeout: float | None) -> None:
        await producer.close(timeout)
        if producer not in self._accounted:
            self._accounted.add(producer)
            now = producer.statistics()
            self.repeated += now.spool_repeated
            self.counts["spooled"] += now.spooled
            self.counts["sent from the spool"] += now.spool_replayed
            self.counts["sent from the spool again"] += now.spool_repeated
            self.counts["refused for good"] += now.spool_refused
            self._on_end(producer)
