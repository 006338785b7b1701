"""The faults of a simulated cluster: a schedule made of one ``random.Random``, and the execution of each fault.

A fault has a beginning, a duration and parameters; all are drawn when the schedule is made, so a schedule can be read
before it is run, and leaving out a fault does not change the others.

Faults stay within a broker's possible behaviour: no code that means "not written" for records that were written (except
UNKNOWN_SERVER_ERROR, which is ambiguous), and a few codes never for a batch that is in the log.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ... import errors
from ...protocol.api import ApiKey
from .simulated_cluster import ONLY_OF_NEW_BATCHES, SimulatedCluster

__all__ = ["FAULTS", "FAULTS_OF_OUTAGES", "FAULTS_OF_TRANSACTIONS", "RECOVERABLE", "Fault", "Faults", "make_schedule"]

Errors = tuple[type[errors.KafkaError], ...]

EVERY_OTHER: Final[Errors] = tuple(
    errors.for_code(code)
    for code in range(1, 200)
    if errors.for_code(code).code == code
    and errors.for_code(code) not in (*ONLY_OF_NEW_BATCHES, errors.DuplicateSequenceNumberError)
)
RETRIABLE: Final[Errors] = tuple(error for error in EVERY_OTHER if error.retriable)
FATAL: Final[Errors] = (*(error for error in EVERY_OTHER if not error.retriable), errors.UnknownServerError)
AFTER_APPEND: Final[Errors] = (
    errors.NotEnoughReplicasAfterAppendError,
    errors.RequestTimedOutError,
    errors.NotLeaderOrFollowerError,
    errors.KafkaStorageError,
    errors.UnknownServerError,
)
SAID_BY_BROKERS: Final[Errors] = (
    errors.NotLeaderOrFollowerError,
    errors.NotEnoughReplicasError,
    errors.KafkaStorageError,
)
SAID_AFTER_APPEND: Final[Errors] = tuple(error for error in AFTER_APPEND if error.retriable)
"""Errors that brokers return for a Produce request in an outage, and that a producer survives."""
RECOVERABLE: Final[tuple[str, ...]] = (
    "reset",
    "vanish",
    "refuse",
    "silence",
    "slow down",
    "tear frames",
    "stall",
    "stop node",
    "move leader",
    "lose leader",
    "replicate slowly",
    "not written",
    "written, and not said so",
    "lose answer",
    "deliver twice",
    "throttle",
    "delay answers",
)
"""The faults that clients meet in an ordinary year. A producer eventually survives all of them."""
MOST_PARTITIONS: Final = 8
_LONGEST: Final = 86_400.0
"""Seconds."""
OTHER_ERRORS: Final[dict[ApiKey, Errors]] = {
    ApiKey.METADATA: (errors.UnknownServerError, errors.RequestTimedOutError),
    ApiKey.API_VERSIONS: (errors.UnsupportedVersionError,),
    ApiKey.INIT_PRODUCER_ID: (
        errors.CoordinatorLoadInProgressError,
        errors.CoordinatorNotAvailableError,
        errors.RequestTimedOutError,
    ),
}
OTHER_APIS: Final = tuple(OTHER_ERRORS)
_COORDINATOR_MOVES: Final[Errors] = (
    errors.CoordinatorLoadInProgressError,
    errors.CoordinatorNotAvailableError,
    errors.NotCoordinatorError,
)
ERRORS_OF_TRANSACTIONS: Final[dict[ApiKey, Errors]] = {
    ApiKey.FIND_COORDINATOR: (errors.CoordinatorNotAvailableError,),
    ApiKey.INIT_PRODUCER_ID: (*_COORDINATOR_MOVES, errors.ConcurrentTransactionsError),
    ApiKey.ADD_PARTITIONS_TO_TXN: (
        *_COORDINATOR_MOVES,
        errors.ConcurrentTransactionsError,
        errors.UnknownTopicOrPartitionError,
        errors.TransactionAbortableError,
        errors.TopicAuthorizationFailedError,
    ),
    ApiKey.ADD_OFFSETS_TO_TXN: (
        *_COORDINATOR_MOVES,
        errors.ConcurrentTransactionsError,
        errors.TransactionAbortableError,
        errors.GroupAuthorizationFailedError,
    ),
    ApiKey.TXN_OFFSET_COMMIT: (
        *_COORDINATOR_MOVES,
        errors.RequestTimedOutError,
        errors.UnknownTopicOrPartitionError,
        errors.TransactionAbortableError,
        errors.IllegalGenerationError,
        errors.UnknownMemberIdError,
        errors.FencedInstanceIdError,
    ),
    ApiKey.END_TXN: (*_COORDINATOR_MOVES, errors.ConcurrentTransactionsError, errors.RequestTimedOutError),
}
APIS_OF_TRANSACTIONS: Final = tuple(ERRORS_OF_TRANSACTIONS)


@dataclass(frozen=True)
class Fault:
    """From ``at`` for ``seconds`` (virtual, from the start of the load)."""

    at: float
    seconds: float
    name: str
    node: int
    partition: int
    choice: int
    times: int
    size: float

    def begin(self, cluster: SimulatedCluster) -> None:
        """Inject the fault."""
        _VERBS[self.name][0](cluster, self)

    def end(self, cluster: SimulatedCluster) -> None:
        """End the fault."""
        _VERBS[self.name][1](cluster, self)

    def __str__(self) -> str:
        return (
            f"{self.at:8.4f} s  {self.name} for {self.seconds:.4f} s (node {self.node}, partition {self.partition}, "
            f"choice {self.choice}, times {self.times}, size {self.size:.4f})"
        )


@dataclass(frozen=True)
class Faults:
    """The possible faults: at most ``most`` of those with these ``names``, within ``seconds`` of virtual time.

    Raises ValueError for an unknown name, and for numbers out of their limits.
    """

    names: Sequence[str] = RECOVERABLE
    most: int = 10
    seconds: float = 10.0

    def __post_init__(self) -> None:
        unknown = [name for name in self.names if name not in _VERBS]
        if unknown or isinstance(self.names, str):
            raise ValueError(f"names={self.names!r}: faults are {', '.join(map(repr, _VERBS))}")
        if self.most < 0:
            raise ValueError(f"most={self.most}: there are at least 0 faults")
        if not (math.isfinite(self.seconds) and 0 < self.seconds <= _LONGEST):
            raise ValueError(f"seconds={self.seconds}: faults come within more than 0 s and at most {_LONGEST:g} s")


def make_schedule(chance: random.Random, wanted: Faults, nodes: int, partitions: int) -> list[Fault]:
    """The faults of a run, in the order of their times, each within ``wanted.seconds``."""
    faults = []
    for _ in range(chance.randint(0, wanted.most if wanted.names else 0)):
        at = chance.uniform(0, wanted.seconds)
        faults.append(
            Fault(
                at=at,
                seconds=min(wanted.seconds - at, chance.expovariate(1 / chance.choice((0.05, 0.5, 3.0)))),
                name=chance.choice(wanted.names),
                node=chance.randint(1, nodes),
                partition=chance.randrange(partitions),
                choice=chance.randrange(1_000),
                times=chance.choice((1, 1, 2, 3, 8)),
                size=chance.random(),
            )
        )
    return sorted(faults, key=lambda fault: fault.at)


# the verbs


def _nothing(_: SimulatedCluster, __: Fault) -> None:
    """The end of a fault without one, or of one that ends by itself."""


def _reset(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.reset(cluster.port_of(fault.node) if fault.choice % 3 else None)


def _vanish(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.vanish(cluster.port_of(fault.node) if fault.choice % 3 else None)


def _refuse(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.refusing.add(cluster.port_of(fault.node))
    if fault.choice % 2:
        cluster.network.reset(cluster.port_of(fault.node))


def _accept(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.refusing.discard(cluster.port_of(fault.node))


def _silence(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.silent.add(cluster.port_of(fault.node))
    if fault.choice % 2:
        cluster.network.reset(cluster.port_of(fault.node))


def _speak(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.silent.discard(cluster.port_of(fault.node))


def _slow_down(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.delay = (fault.size / 10, fault.size)


def _tear(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.network.largest_piece = 1 + fault.choice % 97


def _speed_up(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.network.heal_speed()


def _stall(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.stall_connections(True, fault.node)


def _go_on(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.stall_connections(False, fault.node)


def _stop(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.stop_node(fault.node, is_crash=fault.choice % 2 == 1)


def _start(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.start_node(fault.node)


def _move_leader(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.move_leader(fault.partition, fault.node)


def _lose_leader(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.move_leader(fault.partition, None)


def _add_partition(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.add_partition(fault.partition, MOST_PARTITIONS)


def _replicate_slowly(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.replication.delay = (0.0, 4 * fault.size)


def _replicate_nothing(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.replication.delay = (100.0, 100.0)


def _crash(cluster: SimulatedCluster, fault: Fault) -> None:
    _replicate(cluster, fault)
    cluster.stop_node(fault.node, is_crash=True)
    cluster.controls.start_node(fault.node)


def _replicate(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.replication.delay = (0.0, 0.002)


def _fail_before(codes: Errors) -> Callable[[SimulatedCluster, Fault], None]:
    def fail(cluster: SimulatedCluster, fault: Fault) -> None:
        error = codes[fault.choice % len(codes)]
        cluster.fail_produce(error, fault.partition if fault.size < 0.7 else None, fault.times)

    return fail


def _fail_after(codes: Errors) -> Callable[[SimulatedCluster, Fault], None]:
    def fail(cluster: SimulatedCluster, fault: Fault) -> None:
        error = codes[fault.choice % len(codes)]
        cluster.controls.fail_next(ApiKey.PRODUCE, error, times=fault.times, after_append=True)

    return fail


def _lose_answer(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.drop_next(ApiKey.PRODUCE, after=fault.choice % 4 != 0, times=fault.times)


def _repeat(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.replication.twice += fault.times


def _fail_other(cluster: SimulatedCluster, fault: Fault) -> None:
    api = OTHER_APIS[fault.choice % len(OTHER_APIS)]
    codes = OTHER_ERRORS[api]
    if fault.size < 0.4:
        cluster.controls.drop_next(api, times=fault.times)
    else:
        cluster.controls.fail_next(api, codes[fault.choice % len(codes)], times=fault.times)


def _throttle(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.throttle(None, 1 + int(fault.size * 800))


def _throttle_no_more(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.controls.throttle(None, 0)


def _delay(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.delay(ApiKey.PRODUCE if fault.choice % 2 else ApiKey.METADATA, fault.size * 2)


def _delay_no_more(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.delay(ApiKey.PRODUCE if fault.choice % 2 else ApiKey.METADATA, 0)


# of transactions


def _fail_transaction(cluster: SimulatedCluster, fault: Fault) -> None:
    api = APIS_OF_TRANSACTIONS[fault.choice % len(APIS_OF_TRANSACTIONS)]
    codes = ERRORS_OF_TRANSACTIONS[api]
    error = codes[int(fault.size * len(codes))]
    is_done = error.retriable and fault.partition % 2 == 1
    cluster.controls.fail_next(api, error, times=fault.times, after_append=is_done)


def _lose_answer_of_transaction(cluster: SimulatedCluster, fault: Fault) -> None:
    api = APIS_OF_TRANSACTIONS[fault.choice % len(APIS_OF_TRANSACTIONS)]
    cluster.controls.drop_next(api, after=fault.size < 0.7, times=fault.times)


def _delay_transaction(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.delay(APIS_OF_TRANSACTIONS[fault.choice % len(APIS_OF_TRANSACTIONS)], fault.size * 2)


def _delay_transaction_no_more(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.controls.delay(APIS_OF_TRANSACTIONS[fault.choice % len(APIS_OF_TRANSACTIONS)], 0)


def _hold_transactions(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.controls.hold_transactions()


def _carry_transactions_out(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.controls.hold_transactions(False)


def _expire_transactions(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.expire_transactions()


def _move_coordinator(cluster: SimulatedCluster, fault: Fault) -> None:
    cluster.move_coordinators(fault.node)


def _lose_coordinator(cluster: SimulatedCluster, _: Fault) -> None:
    cluster.move_coordinators(None)


Verb = Callable[[SimulatedCluster, Fault], object]

FAULTS: Final[dict[str, tuple[Verb, Verb]]] = {
    "reset": (_reset, _nothing),
    "vanish": (_vanish, _nothing),
    "refuse": (_refuse, _accept),
    "silence": (_silence, _speak),
    "slow down": (_slow_down, _speed_up),
    "tear frames": (_tear, _speed_up),
    "stall": (_stall, _go_on),
    "stop node": (_stop, _start),
    "move leader": (_move_leader, _nothing),
    "lose leader": (_lose_leader, _move_leader),
    "add a partition": (_add_partition, _nothing),
    "replicate slowly": (_replicate_slowly, _replicate),
    "crash with records that only it has": (_replicate_nothing, _crash),
    "retriable error": (_fail_before(RETRIABLE), _nothing),
    "fatal error": (_fail_before(FATAL), _nothing),
    "error of a new batch": (_fail_before(ONLY_OF_NEW_BATCHES), _nothing),
    "error after append": (_fail_after(AFTER_APPEND), _nothing),
    "lose answer": (_lose_answer, _nothing),
    "deliver twice": (_repeat, _nothing),
    "fail another api": (_fail_other, _nothing),
    "throttle": (_throttle, _throttle_no_more),
    "delay answers": (_delay, _delay_no_more),
}

FAULTS_OF_TRANSACTIONS: Final[dict[str, tuple[Verb, Verb]]] = {
    "fail a transaction's request": (_fail_transaction, _nothing),
    "lose a transaction's answer": (_lose_answer_of_transaction, _nothing),
    "delay a transaction's answers": (_delay_transaction, _delay_transaction_no_more),
    "hold transactions": (_hold_transactions, _carry_transactions_out),
    "expire transactions": (_expire_transactions, _nothing),
    "move the coordinators": (_move_coordinator, _nothing),
    "lose the coordinators": (_lose_coordinator, _move_coordinator),
}
"""Further faults, for scenarios with transactions."""

FAULTS_OF_OUTAGES: Final[dict[str, tuple[Verb, Verb]]] = {
    "not written": (_fail_before(SAID_BY_BROKERS), _nothing),
    "written, and not said so": (_fail_after(SAID_AFTER_APPEND), _nothing),
}
"""Variants of ``FAULTS`` with errors, limited to the errors that a producer survives: for programs that run on one."""

_VERBS: Final = FAULTS_OF_OUTAGES | FAULTS | FAULTS_OF_TRANSACTIONS
