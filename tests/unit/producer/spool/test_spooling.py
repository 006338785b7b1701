"""The spool of a producer's life: its counts, and the looks at unsent records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy import CircuitBreaker, TopicOptions
from aiokafkapy.errors import DeliveryTimeoutError, SpoolError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.admission import Admission
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.intake.pending_record import PendingRecord
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.producer.spool.spooling import Spooling, SpoolStatistics

from ..sender_fakes import cluster_of


def runtime_of(folder: Path | None, **options: object) -> ProducerRuntime:
    spool = {} if folder is None else {"spool_dir": folder}
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1", **spool, **options)  # type: ignore[arg-type]
    return ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())


async def test_without_a_folder_there_is_no_spool_and_records_go_as_ever() -> None:
    runtime = runtime_of(None)
    assert runtime.spooling is None
    assert type(runtime.admission) is Admission
    assert runtime.accumulator.wakeup == runtime.sender.wakeup
    await runtime.close(0)


async def test_a_circuit_does_not_keep_records_out(tmp_path: Path) -> None:
    async with Outage(tmp_path, circuit_breaker=CircuitBreaker(failures=1)) as outage:
        circuits = outage.runtime.circuits
        assert circuits is not None
        outage.send()
        outage.spooling.admission.evacuate(["t"], "not sent")
        for topic in ("t", "u"):
            circuits.failed(topic, DeliveryTimeoutError("no outcome"), outage.runtime.now())
        assert [circuits.lets_through(topic) for topic in ("t", "u")] == [True, False]


async def test_the_spool_is_opened_once_and_gives_its_folder_back(tmp_path: Path) -> None:
    runtime, other = runtime_of(tmp_path), runtime_of(tmp_path)
    assert isinstance(runtime.spooling, Spooling)
    assert isinstance(other.spooling, Spooling)
    assert runtime.spooling.statistics() == SpoolStatistics(0, 0, 0, 0, 0, 0)
    await runtime.spooling.open()
    with pytest.raises(SpoolError, match="in use"):
        await other.spooling.open()
    await runtime.close(runtime.now() + 5)
    await other.close(other.now() + 5)
    again = runtime_of(tmp_path)
    assert again.spooling is not None
    await again.spooling.open()
    again.abort()
    await again.close(again.now() + 5)


async def test_nobody_looks_at_unsent_records_unless_something_comes(tmp_path: Path) -> None:
    runtime = runtime_of(tmp_path, spool_after_ms=None)
    assert runtime.accumulator.wakeup == runtime.sender.wakeup
    await runtime.close(0)
    runtime = runtime_of(tmp_path, spool_after_ms=10)
    spooling: Any = runtime.spooling
    runtime.accumulator.wakeup()
    assert spooling._timer is not None
    spooling._on_timer()
    assert spooling._timer is None, "nothing is there, so nobody looks again"
    await runtime.close(0)


async def test_there_is_one_timer_and_none_afterwards(tmp_path: Path) -> None:
    """Records that are moved out wake the Sender, in the middle of the timer's own callback."""
    runtime = runtime_of(tmp_path, spool_after_ms=10)
    spooling: Any = runtime.spooling
    runtime.accumulator.wakeup()
    spooling._arm(5.0)
    first = spooling._timer
    runtime.accumulator.wakeup()
    spooling._arm(6.0)
    assert first.cancelled()
    await runtime.close(0)
    assert spooling._timer.cancelled()
    spooling._timer = None
    runtime.accumulator.wakeup()
    assert spooling._timer is None


class Outage:
    """A producer whose clock goes on when it is told to, with records of the topic t in memory, which has no leader."""

    def __init__(self, folder: Path, **options: object) -> None:
        self.runtime = runtime_of(folder, linger_ms=0, request_timeout_ms=1_000, **options)
        self.spooling: Any = self.runtime.spooling
        self.passed = 0.0
        self.runtime.now = lambda: self.runtime.loop.time() + self.passed
        self.runtime.metadata.cluster = cluster_of({"t": [-1], "u": [-1]})

    async def __aenter__(self) -> Outage:
        await self.spooling.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.runtime.close(0)

    def send(self, topic: str = "t", *, within: float | None = None) -> PendingRecord:
        runtime = self.runtime
        record = PendingRecord(runtime.admission, topic, None, b"x", 0, 1, None, loop=runtime.loop)
        runtime.admission.enter(record, runtime.now())
        if within is not None:
            runtime.deadlines.add(record, runtime.now() + within)
        return record

    def spooled(self) -> int:
        return int(self.spooling.statistics().spool_records)


async def test_records_go_there_before_their_delivery_timeout_is_over(tmp_path: Path) -> None:
    async with Outage(tmp_path, delivery_timeout_ms=3_000) as outage:
        record = outage.send()
        outage.passed = 1.9
        outage.spooling._on_timer()
        assert outage.spooled() == 0
        outage.passed = 2.1
        outage.spooling._on_timer()
        assert outage.spooled() == 1
        assert (await (await record)).is_spooled


async def test_a_close_without_end_keeps_records_that_would_run_out_of_time(tmp_path: Path) -> None:
    async with Outage(tmp_path, delivery_timeout_ms=3_000, spool_after_ms=None) as outage:
        record = outage.send()
        outage.passed = 2.1
        assert outage.spooling._timer is None
        outage.spooling.stop_sending()
        outage.spooling._on_timer()
        assert (await (await record)).is_spooled


async def test_a_record_with_a_time_of_its_own_takes_its_topic_along_when_that_is_nearly_over(tmp_path: Path) -> None:
    async with Outage(tmp_path) as outage:
        records = [outage.send(), outage.send(within=2), outage.send("u")]
        outage.passed = 1.1
        outage.spooling._nearly_overdue.expire_until(outage.runtime.now())
        assert outage.spooled() == 2
        assert all([(await (await record)).is_spooled for record in records[:2]])
        assert not records[2].result().done(), "another topic"


@pytest.mark.parametrize(("is_ready", "within", "spooled"), [(True, 0.4, 0), (False, 0.4, 1), (True, 2.0, 1)])
async def test_a_leader_that_is_there_may_be_busy_for_a_moment(
    tmp_path: Path, is_ready: bool, within: float, spooled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Outage(tmp_path) as outage:
        runtime = outage.runtime
        outage.send(within=within)
        runtime.metadata.cluster = cluster_of({"t": [1]})
        nodes = SimpleNamespace(is_connection_ready=lambda *_: is_ready)
        monkeypatch.setattr(runtime, "client", SimpleNamespace(nodes=nodes))
        outage.passed = within / 2 + 0.1
        outage.spooling._nearly_overdue.expire_until(runtime.now())
        assert outage.spooled() == spooled
        monkeypatch.undo()


async def test_a_record_waiting_for_metadata_goes_to_the_spool(tmp_path: Path) -> None:
    async with Outage(tmp_path) as outage:
        record = outage.send("new", within=2)
        outage.passed = 1.1
        outage.spooling._nearly_overdue.expire_until(outage.runtime.now())
        assert (await (await record)).is_spooled


async def test_a_record_that_gathers_in_its_batch_stays_there(tmp_path: Path) -> None:
    async with Outage(tmp_path, topics={"t": TopicOptions(linger_ms=1_500)}) as outage:
        record = outage.send(within=2)
        outage.passed = 1.1
        outage.spooling._nearly_overdue.expire_until(outage.runtime.now())
        assert outage.spooled() == 0
        assert not record.result().done()
