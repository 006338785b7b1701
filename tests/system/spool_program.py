"""A service with a spool in a process of its own, which tests kill.

It sends numbers until it is killed, several at a time, and tells the outcome of each: lines of ``number outcome``.
With ``torn_at`` it kills itself in that write of the spool, when half of the bytes are in the file, within a record.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from typing import Any

from aiokafkapy import KafkaProducer
from aiokafkapy.producer.spool import spool_segment

SENDERS = 8
KEYS = 3


def tear(at: int) -> None:
    """Be killed in the middle of a write."""
    real, writes = spool_segment.write_at, itertools.count(1)

    def torn(descriptor: int, data: Any, position: int) -> int:
        if next(writes) == at:
            real(descriptor, data[: len(data) // 2 + 5], position)
            os.kill(os.getpid(), signal.SIGKILL)
        return real(descriptor, data, position)

    module: Any = spool_segment
    module.write_at = torn


async def serve(order: dict[str, Any]) -> None:
    """Send without end. Records of one key are sent by one sender, one after the other."""
    async with KafkaProducer(
        order["servers"], spool_dir=order["folder"], buffer_records=order["buffer_records"], max_block_ms=200,
        reconnect_backoff_max_ms=50, spool_fsync=order["fsync"], client_id="service",
    ) as producer:  # fmt: skip
        print("ready", flush=True)

        async def sender(number: int) -> None:
            for value in itertools.count(order["first"] + number, SENDERS):
                metadata = await producer.send("t", b"%09d" % value, key=b"%d" % number)
                os.write(1, b"%d %s\n" % (value, b"spooled" if metadata.is_spooled else b"delivered"))
                await asyncio.sleep(0)

        await asyncio.gather(*map(sender, range(SENDERS)))


def main() -> None:
    """Read the order, and do it."""
    order = json.loads(sys.argv[1])
    if order["torn_at"]:
        tear(order["torn_at"])
    asyncio.run(serve(order))


if __name__ == "__main__":
    main()
