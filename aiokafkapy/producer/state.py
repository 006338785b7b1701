"""The states of a producer, as a table, the life of one producer through them, and the error of a call in each.

It knows nothing of the parts. Java's ``KafkaProducer`` has only the state "closed": it has no event loop, and a JVM
does not fork.

Rule: NEW comes back after a ``start()`` that failed; CLOSED and FORKED are final. CRASHED is not in the table: it is
the name of RUNNING once the Sender has died.
"""

from __future__ import annotations

import os
from asyncio import _get_running_loop
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from ..errors import (
    ForkedProducerError,
    KafkaError,
    ProducerClosedError,
    ProducerNotStartedError,
    WrongEventLoopError,
)
from ..states import StateTable

__all__ = ["PRODUCER_STATES", "Lifecycle", "ProducerState", "why_unusable"]


class ProducerState(Enum):
    """The states of a producer."""

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


class RefusesRecords(Protocol):
    """The part of ``Transaction`` that is used here."""

    def why_no_record(self) -> KafkaError:
        """The error for a record that cannot be sent now."""


class LivingRuntime(Protocol):
    """The part of ``ProducerRuntime`` that is used here."""

    @property
    def crash(self) -> KafkaError | None:
        """The error that ended its Sender."""

    @property
    def is_usable_here(self) -> bool:
        """True on its loop, until this life is over."""

    @property
    def transaction(self) -> RefusesRecords | None:
        """The transaction of a transactional producer."""


R = TypeVar("R", bound=LivingRuntime)


class Lifecycle(Generic[R]):
    """The state of one producer, and the runtime of its last start, which has ended when the producer has.

    It is a separate object because the producer's intake asks it why the producer cannot be used. If it asked the
    producer, the two would hold each other, and a producer dropped without ``close()`` would be noticed late.
    """

    __slots__ = ("_state", "runtime")

    # For the producer's __del__: at the interpreter's end the names of modules may be gone.
    _OPEN: Final = (ProducerState.STARTING, ProducerState.RUNNING)

    def __init__(self) -> None:
        self._state = PRODUCER_STATES.initial
        self.runtime: R | None = None

    @property
    def state(self) -> ProducerState:
        """The state of the producer."""
        return _S.CRASHED if self._state is _S.RUNNING and self._crash() is not None else self._state

    @property
    def is_open(self) -> bool:
        """True from ``start()`` to ``close()``, also when the Sender has died meanwhile."""
        return self._state in self._OPEN

    @property
    def is_forked(self) -> bool:
        """True in the child of a fork, which owns no part of the producer."""
        return self._state is _S.FORKED

    def may_become(self, state: ProducerState) -> bool:
        """True when ``state`` may follow now."""
        return PRODUCER_STATES.can_follow(self._state, state)

    def become(self, state: ProducerState) -> None:
        """Go over to ``state``."""
        self._state = PRODUCER_STATES.transition(self._state, state)

    def why_unusable(self) -> KafkaError:
        """The error that says why the producer cannot be used here and now."""
        return why_unusable(self._state, self._crash())

    def why_no_record(self) -> KafkaError:
        """The error for a record that cannot be sent here and now: as ``why_unusable``, or that no transaction is
        open.
        """
        runtime = self.runtime
        if self.state is _S.RUNNING and runtime is not None and runtime.is_usable_here:
            transaction = runtime.transaction
            if transaction is not None:
                return transaction.why_no_record()
        return self.why_unusable()

    def _crash(self) -> KafkaError | None:
        return None if self.runtime is None else self.runtime.crash


def why_unusable(state: ProducerState, crash: KafkaError | None) -> KafkaError:
    """The error that says why a producer cannot be used here and now; ``crash`` is the error that ended its Sender."""
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
