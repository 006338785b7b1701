"""The states of a producer, as a table.

It knows nothing of what the states mean to the parts. Java's ``KafkaProducer`` has no states but "closed"; it lives in
one process and on no event loop.

Rule: NEW comes back after a ``start()`` that failed; CLOSED and FORKED are final. CRASHED is not in the table: it is
what RUNNING is called when the Sender has died.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from ..states import StateTable

__all__ = ["PRODUCER_STATES", "ProducerState"]


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
