"""The spool of a producer's life: its counts, and when somebody looks at unsent records."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy.errors import SpoolError
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.intake.admission import Admission
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner
from aiokafkapy.producer.runtime import ProducerRuntime
from aiokafkapy.producer.spool.spooling import Spooling, SpoolStatistics


def runtime_of(folder: Path | None, **options: object) -> ProducerRuntime:
    spool = {} if folder is None else {"spool_dir": folder}
    config = ProducerConfig(bootstrap_servers="127.0.0.1:1", **spool, **options)  # type: ignore[arg-type]
    return ProducerRuntime(config, DefaultPartitioner(), asyncio.get_running_loop())


async def test_without_a_folder_there_is_none_and_all_is_as_ever() -> None:
    runtime = runtime_of(None)
    assert runtime.spooling is None
    assert type(runtime.admission) is Admission
    assert runtime.accumulator.wakeup == runtime.sender.wakeup
    await runtime.close(0)


async def test_it_is_opened_once_and_gives_the_folder_back(tmp_path: Path) -> None:
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
