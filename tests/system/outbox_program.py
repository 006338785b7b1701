"""Services and relays of an outbox in processes of their own, which tests kill.

Run as a program it reads orders from standard input, one JSON object a line, and forks a child for each: all imports
are made once. A child that was told to halt at a step says so when it is there the second time, and stays there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from aiokafkapy.integrations.outbox.database import RelayDatabase
from aiokafkapy.integrations.outbox.relay import OutboxRelay
from aiokafkapy.integrations.outbox.sending import Sending
from tests.outboxes import TestOutbox

SERVICE_STEPS = ("added", "committed")
RELAY_STEPS = ("read", "acknowledged", "published", "marked")
"""The last three: the records have their outcome, so has the transaction, the database was told."""


async def halt(step: str, wanted: str | None, counter: list[str]) -> None:
    """Stay here, if this is the step and it is the second time."""
    if step == wanted:
        counter.append(step)
        if len(counter) == 2:
            print("halted", flush=True)
            await asyncio.Event().wait()


async def serve(outbox: TestOutbox, order: dict[str, Any], at: Callable[[str], Any]) -> None:
    """Place orders, each in a transaction with its record, with a key of three."""
    for number in range(order["first"], order["first"] + order["count"]):
        value = b"%06d" % number
        async with outbox.engine.begin() as connection:
            await connection.execute(sa.insert(outbox.orders).values(value=value))
            await outbox.outbox.add(connection, "t", value, key=b"%d" % (number % 3))
            await at("added")
        await at("committed")
    print("done", flush=True)


async def relay(outbox: TestOutbox, order: dict[str, Any], at: Callable[[str], Any]) -> None:
    """Publish until killed."""
    pending, settle, mark = RelayDatabase.pending, Sending.settle, RelayDatabase.mark

    async def halting_pending(self: RelayDatabase, *arguments: Any) -> Any:
        rows = await pending(self, *arguments)
        if rows:
            await at("read")
        return rows

    async def halting_settle(self: Sending) -> None:
        await settle(self)
        await at("acknowledged")

    async def halting_mark(self: RelayDatabase, rows: Any) -> int:
        if rows:
            await at("published")
        told = await mark(self, rows)
        if rows:
            await at("marked")
        return told

    database: Any = RelayDatabase
    sending: Any = Sending
    database.pending, sending.settle, database.mark = halting_pending, halting_settle, halting_mark
    running: OutboxRelay = outbox.relay(order["servers"], batch_rows=order["batch_rows"], **order["mode"])
    print("ready", flush=True)
    await running.run(signals=())


async def act(order: dict[str, Any]) -> None:
    """The work of a child."""
    outbox = TestOutbox(order["url"], order["name"], shards=order["shards"])
    reached: list[str] = []

    def at(step: str) -> Any:
        return halt(step, order.get("halt"), reached)

    try:
        await {"service": serve, "relay": relay}[order["role"]](outbox, order, at)
    finally:
        await outbox.engine.dispose()


def main() -> None:
    """Fork for each order; the child writes to the descriptor that the order names."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    print("ready", flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        child = os.fork()
        if child == 0:
            os.dup2(os.open(order["told"], os.O_WRONLY), 1)
            os.close(0)
            asyncio.run(act(order))
            os._exit(0)
        print(child, flush=True)


if __name__ == "__main__":
    main()
