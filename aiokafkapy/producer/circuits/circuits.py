"""``Circuits``: stops the calls of topics whose deliveries keep failing.

Owns the state of each circuit, drawn in ``CIRCUIT_STATES``. It knows no batches, no loop and no log: outcomes come in,
``now`` is an argument, and ``on_change`` is called. Java's producer has no counterpart; the pattern is Nygard's
("Release It!").

Rules:

- A success closes a circuit in any state: also that of a record that was accepted before it opened.
- Consecutive failures count, by batch, and only those that say something of the cluster: not a record's own faults,
  and not records that the user has given up.
- A probe whose outcome does not come, since it was cancelled or refused, does not keep the circuit half open for ever:
  others are let through after another ``open_ms``.
- A transaction is a probe as a whole: with some of its records refused it could never be committed.
- While a topic's calls go elsewhere, to the spool, they are let through, and failures of the topic do not count.
- A topic without trouble has no entry, and without entries no call is checked.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from typing import Final, NamedTuple

from ...errors import (
    CircuitOpenError,
    CloseTimeoutError,
    GaplessGuaranteeError,
    IllegalStateError,
    InvalidRecordError,
    InvalidTimestampError,
    KafkaError,
    MessageTooLargeError,
    PolicyViolationError,
    PurgedError,
    RecordDroppedError,
    RecordListTooLargeError,
    SenderCrashedError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedForMessageFormatError,
)
from ...states import StateTable
from ..options.circuit_options import CircuitBreaker

__all__ = ["CIRCUIT_STATES", "CircuitState", "CircuitStatus", "Circuits"]


class CircuitState(enum.Enum):
    """The states of a circuit."""

    CLOSED = "calls are taken"
    OPEN = "calls fail at once"
    HALF_OPEN = "calls fail at once, but for a few whose outcome decides"


CIRCUIT_STATES: Final = StateTable(
    "circuit",
    CircuitState.CLOSED,
    {
        CircuitState.CLOSED: {CircuitState.OPEN},
        CircuitState.OPEN: {CircuitState.HALF_OPEN, CircuitState.CLOSED},
        CircuitState.HALF_OPEN: {CircuitState.OPEN, CircuitState.CLOSED},
    },
)

_NOT_THE_CLUSTERS: Final = (
    CircuitOpenError,
    CloseTimeoutError,
    GaplessGuaranteeError,  # behind a failure that counts
    IllegalStateError,
    InvalidRecordError,
    InvalidTimestampError,
    MessageTooLargeError,
    PolicyViolationError,
    PurgedError,
    RecordDroppedError,
    RecordListTooLargeError,
    SenderCrashedError,
    SerializationError,
    TransactionAbortedError,
    UnsupportedForMessageFormatError,
)
"""Errors of the record itself, or caused by the user or by the end of the producer."""
_ALL: Final = ""
"""Stands for the topic when one circuit is for all."""


class CircuitStatus(NamedTuple):
    """A circuit at one moment; durations in seconds."""

    topic: str | None
    """None: the circuit is for all topics."""
    state: str
    """``closed`` (with too few failures), ``open`` or ``half open``."""
    failures: int
    """Deliveries that failed in a row."""
    open_for: float
    """Seconds since the circuit opened; 0 while it is closed."""
    retry_in: float
    """Seconds until records are let through again; 0 if the next one is."""
    last_error: str | None


class Circuits:
    """The circuits of one producer. ``on_change`` is called with a topic, or "" for all, and the circuit's status, when
    a circuit has opened, or is closed again.
    """

    def __init__(
        self,
        options: CircuitBreaker,
        on_change: Callable[[str, CircuitStatus], object],
        *,
        has_transactions: bool = False,
    ) -> None:
        self._options = options
        self._probes = math.inf if has_transactions else options.probes
        self._open_time = options.open_ms / 1000
        self._is_for_all = options.scope == "producer"
        self._on_change = on_change
        self.goes_elsewhere: Callable[[str], bool] = lambda _: False
        """Tells whether calls for a topic are served without deliveries."""
        self._troubled: dict[str, _Circuit] = {}
        self._tripped = 0
        self.openings = 0
        """The number of times that a circuit has opened."""

    @property
    def is_alert(self) -> bool:
        """True when ``admit`` may refuse anything."""
        return self._tripped > 0

    def lets_through(self, topic: str) -> bool:
        """True when calls for the topic need not ask ``admit``."""
        return not self._tripped or self._state(topic) is CircuitState.CLOSED or self.goes_elsewhere(topic)

    def admit(self, topic: str, now: float) -> None:
        """Let a call for the topic through, as a probe if need be. Raises CircuitOpenError."""
        circuit = self._troubled.get(self._key(topic))
        if circuit is None or circuit.state is CircuitState.CLOSED or self.goes_elsewhere(topic):
            return
        if now >= circuit.retry_at:
            if circuit.state is CircuitState.OPEN:
                circuit.become(CircuitState.HALF_OPEN)
            circuit.probes = self._probes
            circuit.retry_at = now + self._open_time
        if circuit.state is CircuitState.HALF_OPEN and circuit.probes:
            circuit.probes -= 1
            return
        raise self._error(topic, circuit, now)

    def give_back(self, topic: str) -> None:
        """The call that was let through last was refused for a reason of its own: another may be the probe."""
        circuit = self._troubled.get(self._key(topic))
        if circuit is not None and circuit.state is CircuitState.HALF_OPEN and not self.goes_elsewhere(topic):
            circuit.probes += 1

    def succeeded(self, topic: str, now: float) -> None:
        """A batch of the topic was delivered."""
        if not self._troubled:
            return
        key = self._key(topic)
        circuit = self._troubled.pop(key, None)
        if circuit is not None and circuit.state is not CircuitState.CLOSED:
            status = self._status(key, circuit, now)
            circuit.become(CircuitState.CLOSED)
            self._tripped -= 1
            self._on_change(key, status._replace(state=_name(circuit.state)))

    def failed(self, topic: str, error: BaseException, now: float) -> None:
        """A delivery to the topic has failed for good."""
        if not isinstance(error, KafkaError) or isinstance(error, _NOT_THE_CLUSTERS) or self.goes_elsewhere(topic):
            return
        key = self._key(topic)
        circuit = self._troubled.get(key)
        if circuit is None:
            circuit = self._troubled[key] = _Circuit()
        circuit.failures += 1
        circuit.last_error = error
        if circuit.state is CircuitState.OPEN:
            return  # accepted before it opened
        if circuit.state is CircuitState.CLOSED:
            if circuit.failures < self._options.failures:
                return
            circuit.opened_at = now
            self._tripped += 1
            self.openings += 1
        circuit.become(CircuitState.OPEN)
        circuit.retry_at = now + self._open_time
        self._on_change(key, self._status(key, circuit, now))

    def error_of(self, topic: str, now: float) -> CircuitOpenError:
        """The error of a call for the topic, whose circuit is not closed."""
        return self._error(topic, self._troubled.get(self._key(topic), _Circuit()), now)

    def statuses(self, now: float) -> tuple[CircuitStatus, ...]:
        """The circuits with failures, by topic."""
        return tuple(self._status(key, circuit, now) for key, circuit in sorted(self._troubled.items()))

    # internals

    def _key(self, topic: str) -> str:
        return _ALL if self._is_for_all else topic

    def _state(self, topic: str) -> CircuitState:
        circuit = self._troubled.get(self._key(topic))
        return CircuitState.CLOSED if circuit is None else circuit.state

    def _status(self, key: str, circuit: _Circuit, now: float) -> CircuitStatus:
        is_closed = circuit.state is CircuitState.CLOSED
        has_probe = circuit.state is CircuitState.HALF_OPEN and circuit.probes > 0
        return CircuitStatus(
            key or None,
            _name(circuit.state),
            circuit.failures,
            0.0 if is_closed else now - circuit.opened_at,
            0.0 if is_closed or has_probe else max(0.0, circuit.retry_at - now),
            None if circuit.last_error is None else str(circuit.last_error),
        )

    def _error(self, topic: str, circuit: _Circuit, now: float) -> CircuitOpenError:
        retry_in = max(0.0, circuit.retry_at - now)
        when = f"the next record is tried in {retry_in:.3f} s"
        if circuit.state is CircuitState.HALF_OPEN:
            when = f"a record is being tried, and without an outcome the next one in {retry_in:.3f} s"
        error = CircuitOpenError(
            f"topic {topic!r} takes no records: {circuit.failures} deliveries in a row failed"
            f"{' (of all topics)' if self._is_for_all else ''}, and the circuit opened {now - circuit.opened_at:.3f} s "
            f"ago; {when}; last error: {circuit.last_error}",
            open_for=now - circuit.opened_at,
            retry_in=retry_in,
            topic=topic,
        )
        error.__cause__ = circuit.last_error
        return error


class _Circuit:
    """One circuit with failures."""

    __slots__ = ("failures", "last_error", "opened_at", "probes", "retry_at", "state")

    def __init__(self) -> None:
        self.state = CIRCUIT_STATES.initial
        self.failures = 0
        self.last_error: KafkaError | None = None
        self.opened_at = self.retry_at = 0.0
        self.probes: float = 0

    def become(self, state: CircuitState) -> None:
        self.state = CIRCUIT_STATES.transition(self.state, state)


def _name(state: CircuitState) -> str:
    return state.name.lower().replace("_", " ")
