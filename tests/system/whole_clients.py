"""Programs of clients that do all that a client is for, run on a dev broker, and the output expected of each."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

from aiokafkapy.broker import DevBroker

__all__ = ["check", "said_by"]

LONGEST_RUN = 200
ROOT = Path(__file__).parents[2]


async def said_by(*command: str, **environment: str) -> dict[str, Any]:
    """The one line of JSON that a program prints before it ends."""
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, cwd=ROOT, env=os.environ | environment
    )
    saying = asyncio.create_task(process.communicate())
    try:
        await asyncio.wait([saying], timeout=LONGEST_RUN)
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGABRT)  # Python's faulthandler, and Go, say where they are
        output, errors = await saying
    assert process.returncode == 0, errors.decode()
    said: dict[str, Any] = json.loads(output)
    return said


def check(
    broker: DevBroker,
    said: dict[str, Any],
    group: str,
    *,
    described: tuple[str, int] = ("Stable", 10),
    reads_once: bool = True,
    deletes_group: bool = True,
) -> None:
    """Ten members have read three times 600 records; one that came later read 24 more; the topic is gone."""
    read = said.pop("read")
    assert said == {
        "partitions": 12,
        "retention": "1234567",
        "distinct": 1824,
        "resumed": 24,
        "committed": 1824,
        "group": list(described),
        "groups": [group],
        "topics": [],
    }
    assert read == 1824 if reads_once else read >= 1824
    assert (broker.state.groups.get(group) is None) == deletes_group
    assert broker.state.topics.get("t") is None
