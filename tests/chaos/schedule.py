"""The schedules of faults and of strikes at copiers: endless sequences, determined by the seed.

Pure: knows the numbers of nodes and partitions, no clock and no Kafka. How long a fault takes to heal depends on the
cluster, so a fault has no start time: it has a quiet time before it and a duration.

Rules: each round has all kinds once, in random order, so that a short run has them all. At most one fault is active,
and it undoes its work at its end. Two nodes of three, and so the majority of the controllers, may be down at once.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

__all__ = ["Fault", "Kind", "Move", "Strike", "Way", "schedule", "strikes"]


class Kind(StrEnum):
    """Kinds of faults; the values are as they stand in a report."""

    KILL = "kill -9"
    PAUSE = "SIGSTOP"
    RESTART = "restart"
    ELECT = "election"
    REASSIGN = "reassignment"


class Way(StrEnum):
    """Kinds of strikes against a copier in the middle of a transaction."""

    FAIL = "exception"
    """The copier's block raises; the same producer and consumer go on."""
    CANCEL = "cancellation"
    """The copier's loop is cancelled; the same producer and consumer go on."""
    LEAVE = "leaving"
    """The copier is cancelled and closes; a new producer and consumer begin."""
    CRASH = "crash"
    """The copier's producer is closed at once, which leaves the transaction open; a new producer and consumer begin."""
    OVERTAKE = "overtaking"
    """A new producer and consumer begin while the old ones go on."""
    STALL = "stall"
    """The copier's block lasts longer than a transaction may."""


# Seconds between the fall of a node and its return. A broker is given up after five: pauses lie on both sides.
_LASTS = {
    Kind.KILL: (0.0, 4.0),
    Kind.PAUSE: (0.5, 9.0),
    Kind.RESTART: (0.0, 2.0),
    Kind.ELECT: (0.0, 0.0),
    Kind.REASSIGN: (0.2, 2.0),
}
_TAKES_NODES = (Kind.KILL, Kind.PAUSE, Kind.RESTART)
_QUIET = (0.2, 1.5)
_QUIET_BETWEEN_STRIKES = (1.0, 6.0)


@dataclass(frozen=True, slots=True)
class Move:
    """A partition that first loses a replica, and then has one on each node again, in another order."""

    topic: int
    partition: int
    narrow: tuple[int, ...]
    wide: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One step of a run."""

    number: int
    kind: Kind
    quiet: float
    """Seconds of load before it."""
    seconds: float
    """The fault's duration in seconds."""
    nodes: tuple[int, ...] = ()
    """The nodes that are down meanwhile."""
    moves: tuple[Move, ...] = ()
    """Narrowed when it begins, wide again when the nodes are back."""

    def __str__(self) -> str:
        words = [str(self.kind)]
        if self.nodes:
            words.append(f"of node {' and '.join(map(str, self.nodes))} for {self.seconds:.1f} s")
        words += [f"partition {move.topic}/{move.partition} to {move.narrow} and {move.wide}" for move in self.moves]
        return ", ".join([" ".join(words[:2]), *words[2:]])


@dataclass(frozen=True, slots=True)
class Strike:
    """A copier is disturbed on purpose."""

    quiet: float
    """Seconds before it."""
    copier: int
    way: Way


def strikes(seed: int, copiers: int) -> Iterator[Strike]:
    """The strikes of a seed at so many copiers: whole rounds of all ways, too."""
    chance = random.Random(f"strikes {seed}")
    while True:
        ways = list(Way)
        chance.shuffle(ways)
        for way in ways:
            yield Strike(chance.uniform(*_QUIET_BETWEEN_STRIKES), chance.randrange(copiers), way)


def schedule(seed: int, nodes: Sequence[int] = (1, 2, 3), partitions: Sequence[int] = (6, 3)) -> Iterator[Fault]:
    """The faults of a seed, for a cluster of these nodes and topics of these numbers of partitions."""
    chance = random.Random(seed)
    number = 0
    while True:
        kinds = list(Kind)
        chance.shuffle(kinds)
        for kind in kinds:
            number += 1
            yield _fault(chance, number, kind, nodes, partitions)


def _fault(chance: random.Random, number: int, kind: Kind, nodes: Sequence[int], partitions: Sequence[int]) -> Fault:
    down: tuple[int, ...] = ()
    if kind in _TAKES_NODES:
        # Every fourth crash or pause takes the majority away.
        count = 2 if kind is not Kind.RESTART and chance.random() < 0.25 else 1
        down = tuple(sorted(chance.sample(nodes, count)))
    count = chance.randint(1, 3) if kind is Kind.REASSIGN else int(kind in _TAKES_NODES and chance.random() < 0.3)
    places = [(topic, partition) for topic, total in enumerate(partitions) for partition in range(total)]
    moves = tuple(_move(chance, *place, nodes) for place in chance.sample(places, count))
    return Fault(number, kind, chance.uniform(*_QUIET), chance.uniform(*_LASTS[kind]), down, moves)


def _move(chance: random.Random, topic: int, partition: int, nodes: Sequence[int]) -> Move:
    narrow = chance.sample(nodes, len(nodes) - 1)
    return Move(topic, partition, tuple(narrow), tuple(chance.sample(nodes, len(nodes))))
