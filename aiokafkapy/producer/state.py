"""The states of a producer, as a table, and what each of them means to whoever wants to use it.

It knows nothing of the parts. Java's ``KafkaProducer`` has no states but "closed"; it lives in
one process and on no event loop.

Rule: NEW comes back after a ``start()`` that failed; CLOSED and FORKED are final. CRASHED is not in the table: it is
what RUNNING is called when the Sender has died.
"""

from __future__ import annotations

import os
from asyncio import _get_running_loop
from enum import Enum
from typing import Final

from ..errors import (
    ForkedProducerError,
    KafkaError,
    ProducerClosedError,
    ProducerNotStartedError,
    WrongEventLoopError,
)
from ..states import StateTable

__all__ = ["PRODUCER_STATES", "UNBOUND", "ProducerState", "why_unusable"]

UNBOUND: Final = object()
"""Stands for the event loop of whoever has none."""


class ProducerState(Enum):
    """Where a producer stands."""

    NEW = "new"
    STARTING = "starting"
    RUNNING = "running"
    CRASHED = "crashed"
    CLOSING = "closing"
    CLOSED = "closed"
    FORKED = "forked"


_S = ProducerState

PRODUCER_STATES: Final = StateTable(
    "KafkaProducer",
    _S.NEW,
    {
        _S.NEW: {_S.STARTING, _S.CLOSING},
        _S.STARTING: {_S.RUNNING, _S.NEW, _S.CLOSING, _S.FORKED},
        _S.RUNNING: {_S.CLOSING, _S.FORKED},
        _S.CLOSING: {_S.CLOSED, _S.FORKED},
        _S.CLOSED: (),
        _S.FORKED: (),
    },
)


def why_unusable(state: ProducerState, crash: KafkaError | None) -> KafkaError:
    """Why a producer cannot be used here and now; ``crash`` is what its Sender died of."""
    if state is _S.FORKED:
        return ForkedProducerError(
            f"this producer was started before the fork of process {os.getpid()}: make and start one in each process"
        )
    if state in (_S.CLOSING, _S.CLOSED):
        return ProducerClosedError(f"the producer is {state.value}: make a new one")
    if state is _S.STARTING:
        return ProducerNotStartedError("the producer is still starting: await start() first")
    if state is _S.NEW:
        return ProducerNotStartedError(
            "the producer is not started: use it in `async with producer:`, or `await producer.start()` first"
        )
    if crash is not None:
        return crash.fresh()
    where = "outside of any event loop" if _get_running_loop() is None else "on another event loop"
    return WrongEventLoopError(
        f"the producer was started on one event loop and is used {where}: use it where it was started, or make one "
        "for each loop"
    )
