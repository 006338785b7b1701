"""One transactional id: its producer, its state and its open transaction. Pure: every time is an argument.

Owns the state table and the effect of each step on producer id and epoch; must not know which step is allowed when
(``transaction_coordinator`` decides), nor disk nor partitions' logs. Kafka's counterparts are ``TransactionState`` and
``TransactionMetadata``.

Rules:

- ``state`` changes by ``move`` alone; PREPARE_COMMIT and PREPARE_ABORT are the moment of truth: only their own
  completion follows;
- each InitProducerId raises the epoch, which fences older producers of the id; so does each end in version 2 (KIP-890);
- an epoch that has no successor is followed by a new producer id with epoch 0.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from typing import Any, Final, NamedTuple, Self

from ...common import TopicPartition
from ...states import StateTable

__all__ = [
    "MAX_EPOCH",
    "NEVER_MS",
    "NO_EPOCH",
    "NO_PRODUCER",
    "TRANSACTION_STATES",
    "Addition",
    "ProducerIdAndEpoch",
    "TransactionMetadata",
    "TransactionState",
]

NO_EPOCH: Final = -1
MAX_EPOCH: Final = 2**15 - 1
NEVER_MS: Final = 2**31 - 1
"""In place of a time-out: the transaction never expires."""
LAST_EPOCH: Final = MAX_EPOCH - 1
"""The last epoch that a producer gets: the one after it is kept for fencing it (Java's ``isEpochExhausted``)."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer's identity: of two with one id, the lower epoch is fenced."""

    producer_id: int
    epoch: int


NO_PRODUCER: Final = ProducerIdAndEpoch(-1, NO_EPOCH)


class Addition(NamedTuple):
    """The partitions, and the groups with their offsets, that a producer takes into its transaction."""

    transactional_id: str
    producer: ProducerIdAndEpoch
    partitions: Collection[TopicPartition] = ()
    groups: Collection[str] = ()
    version: int = 1
    """2 when the producer has not asked for it (KIP-890)."""


class TransactionState(Enum):
    """Kafka's states; the values are the names that tools show."""

    EMPTY = "Empty"
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"


_S = TransactionState

TRANSACTION_STATES: Final = StateTable(
    "transaction",
    _S.EMPTY,
    {
        # From EMPTY to PREPARE_ABORT: version 2 ends a transaction without partitions, for the new epoch.
        _S.EMPTY: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD},
        _S.ONGOING: {_S.ONGOING, _S.PREPARE_COMMIT, _S.PREPARE_ABORT, _S.PREPARE_EPOCH_FENCE},
        _S.PREPARE_COMMIT: {_S.COMPLETE_COMMIT},
        _S.PREPARE_ABORT: {_S.COMPLETE_ABORT},
        _S.COMPLETE_COMMIT: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD},
        _S.COMPLETE_ABORT: {_S.EMPTY, _S.ONGOING, _S.PREPARE_ABORT, _S.DEAD},
        _S.PREPARE_EPOCH_FENCE: {_S.PREPARE_ABORT},
        _S.DEAD: (),
    },
)


@dataclass(slots=True)
class TransactionMetadata:
    """A transactional id. Times: ``started_ms`` is wall time, ``deadline`` loop time."""

    transactional_id: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_EPOCH
    last_producer_epoch: int = NO_EPOCH
    previous_producer_id: int = -1
    next_producer_id: int = -1
    state: TransactionState = TRANSACTION_STATES.initial
    version: int = 1
    started_ms: int = -1
    partitions: set[TopicPartition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    open_epoch: int = NO_EPOCH
    """The epoch of the producer that began the open transaction: it identifies a prepared transaction."""
    deadline: float | None = None
    """The time at which an ONGOING transaction is aborted; not kept on disk."""

    def move(self, state: TransactionState) -> None:
        """Change the state. Raises IllegalTransitionError."""
        self.state = TRANSACTION_STATES.transition(self.state, state)

    @property
    def is_epoch_exhausted(self) -> bool:
        """Whether the next producer needs a new id."""
        return self.producer_epoch >= LAST_EPOCH

    @property
    def is_ending(self) -> bool:
        """Whether the outcome is decided and its markers are being written."""
        return self.state in (_S.PREPARE_COMMIT, _S.PREPARE_ABORT)

    @property
    def is_complete(self) -> bool:
        """Whether the last transaction has ended."""
        return self.state in (_S.COMPLETE_COMMIT, _S.COMPLETE_ABORT)

    @property
    def producer(self) -> ProducerIdAndEpoch:
        """The producer that has the id now."""
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def next_producer(self) -> ProducerIdAndEpoch:
        """The producer after the end of the transaction, as EndTxn 5 tells it."""
        if self.is_ending and self.next_producer_id >= 0:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return self.producer

    def bump(self, timeout_ms: int, last_epoch: int) -> None:
        """A new epoch, for a new producer or one that asked for it; its earlier one is ``last_epoch`` (-1: none)."""
        self.last_producer_epoch = last_epoch
        self.producer_epoch += 1
        self._begin_empty(timeout_ms)

    def rotate(self, producer_id: int, timeout_ms: int, last_epoch: int) -> None:
        """A new producer id with epoch 0."""
        self.previous_producer_id, self.producer_id = self.producer_id, producer_id
        self.producer_epoch, self.last_producer_epoch = 0, last_epoch
        self._begin_empty(timeout_ms)

    def copy(self) -> Self:
        """A copy that can be changed by itself."""
        return replace(self, partitions=set(self.partitions), groups=set(self.groups))

    def add(self, addition: Addition, now: float, now_ms: int) -> None:
        """Take partitions and groups into the transaction, which begins with the first."""
        if self.state is not _S.ONGOING:
            self.started_ms = now_ms
            self.open_epoch = self.producer_epoch
            self.watch(now)
        self.version = addition.version
        self.move(_S.ONGOING)
        self.partitions.update(addition.partitions)
        self.groups.update(addition.groups)

    def watch(self, now: float) -> None:
        """Start the time of the open transaction; a transaction of two-phase commit has no time-out."""
        self.deadline = None if self.timeout_ms == NEVER_MS else now + self.timeout_ms / 1000

    def keep_open(self) -> None:
        """A new producer has the id, and the open transaction is left as it is (KIP-939)."""
        self.producer_epoch += 1
        self.last_producer_epoch = NO_EPOCH

    def fence(self, version: int) -> None:
        """Prepare an abort that the producer did not ask for. The epoch is raised, in version 2 by the abort itself."""
        if version < 2:
            self.producer_epoch = min(self.producer_epoch + 1, MAX_EPOCH)
            self.last_producer_epoch = NO_EPOCH
        self.move(_S.PREPARE_EPOCH_FENCE)

    def prepare(self, *, is_commit: bool, version: int, next_producer_id: int) -> None:
        """Decide the outcome; in version 2 the markers have the next epoch already."""
        self.version = version
        if version >= 2:
            self.last_producer_epoch = self.producer_epoch
            self.producer_epoch = min(self.producer_epoch + 1, MAX_EPOCH)
            self.next_producer_id = next_producer_id
        self.deadline = None
        self.move(_S.PREPARE_COMMIT if is_commit else _S.PREPARE_ABORT)

    def complete(self) -> None:
        """Every marker is written."""
        if self.next_producer_id >= 0:
            self.previous_producer_id, self.producer_id = self.producer_id, self.next_producer_id
            self.last_producer_epoch, self.producer_epoch, self.next_producer_id = self.producer_epoch, 0, -1
        self.partitions.clear()
        self.groups.clear()
        self.move(_S.COMPLETE_COMMIT if self.state is _S.PREPARE_COMMIT else _S.COMPLETE_ABORT)

    # disk

    def document(self) -> dict[str, object]:
        """Everything that a restart needs."""
        document = asdict(self)
        del document["deadline"]
        partitions = sorted(self.partitions)
        return document | {"state": self.state.value, "partitions": partitions, "groups": sorted(self.groups)}

    @classmethod
    def of(cls, document: dict[str, Any]) -> Self:
        """The opposite of ``document``."""
        partitions = {TopicPartition(*each) for each in document["partitions"]}
        state = TransactionState(document["state"])
        return cls(**document | {"state": state, "partitions": partitions, "groups": set(document["groups"])})

    # internals

    def _begin_empty(self, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.started_ms = -1
        self.next_producer_id = -1
        self.move(_S.EMPTY)
