"""kcat, unchanged, on the dev broker: it writes, ten of its processes join and leave a reading group, and it lists."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shutil
from collections.abc import AsyncIterator, Callable

import pytest

from aiokafkapy.broker import DevBroker
from tests.foreign_programs import unavailable

GROUP, PARTITIONS, BATCH, MORE = "kcat", 12, 600, 24
LONGEST_WAIT = 120
Process = asyncio.subprocess.Process


class KcatGroup:
    """Members, each a process, and the lines that they have printed: partition, offset and value."""

    def __init__(self, program: str, broker: DevBroker) -> None:
        self.program = program
        self.broker = broker
        self.members: list[tuple[Process, asyncio.Task[None]]] = []
        self.read: list[str] = []
        self.changed = asyncio.Event()

    async def run(self, *arguments: str, lines: list[str] | None = None) -> str:
        """Run kcat to its end and return its words."""
        stdin = None if lines is None else "\n".join(lines).encode()
        process = await self._start(*arguments)
        said, _ = await asyncio.wait_for(process.communicate(stdin), LONGEST_WAIT)
        assert process.returncode == 0
        return said.decode()

    async def join(self, number: int) -> None:
        """So many members come."""
        options = ("heartbeat.interval.ms=100", "auto.offset.reset=earliest")
        shown = ("-u", "-q", "-f", "%p %o %s\n")
        for _ in range(number):
            process = await self._start("-G", GROUP, *shown, *(each for o in options for each in ("-X", o)), "t")
            self.members.append((process, asyncio.create_task(self._gather(process))))

    async def leave(self, number: int) -> None:
        """The first ones go, one after the other, each from a stable group.

        librdkafka 2.0 that is closed while it is told of a rebalance may send its LeaveGroup before its last
        OffsetCommit, which is then refused; the records after the commit before are read again.
        """
        for _ in range(number):
            await self._until(self._is_stable)
            process, task = self.members.pop(0)
            process.terminate()
            await asyncio.wait_for(process.wait(), LONGEST_WAIT)
            await task

    async def write(self, number: int) -> None:
        """Write so many records, and wait until they are read."""
        first = len(self.read)
        for partition in range(PARTITIONS):
            values = [str(value) for value in range(first, first + number) if value % PARTITIONS == partition]
            await self.run("-P", "-t", "t", "-p", str(partition), "-H", "n=1", lines=values)
        await self._until(lambda: len(self.read) >= first + number)

    async def read_some(self) -> None:
        """When the group is stable with all members, write records and read them."""
        await self._until(self._is_stable)
        await self.write(BATCH)

    def _is_stable(self) -> bool:
        group = self.broker.state.groups.get(GROUP)
        return group is not None and len(group.members) == len(self.members) and group.state.value == "Stable"

    async def _start(self, *arguments: str) -> Process:
        return await asyncio.create_subprocess_exec(
            *(self.program, "-b", self.broker.bootstrap_servers, *arguments), stdin=-1, stdout=-1, stderr=-1
        )

    async def _gather(self, process: Process) -> None:
        assert process.stdout is not None
        async for line in process.stdout:
            self.read.append(line.decode().strip())
            self.changed.set()

    async def _until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(LONGEST_WAIT):
            while not is_so():
                self.changed.clear()
                # The state of the group changes without a line.
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(self.changed.wait(), 0.05)


@pytest.fixture
async def group() -> AsyncIterator[KcatGroup]:
    program = shutil.which("kcat") or shutil.which("kafkacat")
    if program is None:
        unavailable("NO KCAT (Debian: kcat)")
    async with DevBroker(nodes=3) as broker:
        group = KcatGroup(program, broker)
        yield group
        for process, task in group.members:
            process.kill()
            await task
            await process.wait()


async def test_it_writes_and_ten_members_come_and_go_and_resume_and_it_lists_topics_and_offsets(
    group: KcatGroup,
) -> None:
    broker = group.broker
    broker.create_topic("t", PARTITIONS)  # kcat makes no topics
    await group.join(10)
    await group.read_some()
    await group.leave(5)
    await group.read_some()
    await group.join(5)
    await group.read_some()
    await group.leave(10)
    await group.join(1)
    await group.write(MORE)
    await group.leave(1)
    in_log = [f"{each.partition} {each.offset} {(each.value or b'').decode()}" for each in broker.records("t")]
    assert sorted(group.read) == sorted(in_log)
    assert len(in_log) == 3 * BATCH + MORE
    committed = broker.state.groups.offsets.get(GROUP)
    assert [each.offset for each in committed.values()] == [152] * PARTITIONS
    (topic,) = json.loads(await group.run("-L", "-J", "-t", "t"))["topics"]
    assert len(topic["partitions"]) == PARTITIONS
    assert "[11] offset 152" in await group.run("-Q", "-t", "t:11:-1")
