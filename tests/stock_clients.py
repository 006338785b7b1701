"""Runs other people's clients, unchanged, and looks at the records that they wrote to a dev broker."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from aiokafkapy.broker import DevBroker

__all__ = ["CONSOLE_PRODUCER", "LONGEST_RUN", "PROGRAMS", "check_produced", "in_log", "run"]

PROGRAMS = Path(__file__).with_name("stock_client_programs.py")
CONSOLE_PRODUCER = "org.apache.kafka.tools.ConsoleProducer"
LONGEST_RUN = 120
"""Seconds: the clients' own ways out of a request (30) or a member (45) that got lost come first."""


async def run(*arguments: object) -> Any:
    """Run one of the programs to its end and return its output; one that hangs is made to say where."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-X", "faulthandler", str(PROGRAMS), *map(str, arguments)), stdout=-1, stderr=-1
    )
    saying = asyncio.create_task(process.communicate())
    try:
        await asyncio.wait([saying], timeout=LONGEST_RUN)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGABRT)
        output, errors = await saying
    assert process.returncode == 0, errors.decode()
    return json.loads(output)


def in_log(broker: DevBroker, topic: str) -> list[tuple[int, int, str]]:
    """Partition, offset and value of every record of a topic."""
    return [(r.partition, r.offset, (r.value or b"").decode()) for r in broker.records(topic)]


def check_produced(broker: DevBroker, topic: str, count: int) -> None:
    """Every value once, each key in one partition and in order, with its header."""
    records = broker.records(topic)
    assert Counter(record.value for record in records) == Counter(str(n).encode() for n in range(count))
    assert {tuple(record.headers) for record in records} == {(("n", b"1"),)}
    for key in {record.key for record in records}:
        of_key = [record for record in records if record.key == key]
        assert len({record.partition for record in of_key}) == 1
        numbers = [int(record.value or b"") for record in of_key]
        assert numbers == sorted(numbers)
