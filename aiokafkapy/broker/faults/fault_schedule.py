"""A schedule of faults: calls of the controls with their times, drawn from a seed or read from a file.

Owns ``FaultSchedule`` and its file. Pure: the same seed and cluster give the same faults, and no clock is read;
``playback`` has the timers. Kafka has no counterpart.

Rules:

- each fault of a drawn schedule ends in it: stalls, delays and throttles are undone, nodes start again, and the last
  call is ``clear`` at ``seconds``;
- one node always runs, and a leader is given to nodes that are not stopped;
- the file is JSON, for people to read and to change; a wrong entry is an error with its number.
"""

from __future__ import annotations

import json
import os
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...common import JsonLike
from .control_calls import ControlCall, is_number

__all__ = ["FaultSchedule", "ScheduledFault"]

MOST_FAULTS: Final = 10_000
LONGEST: Final = 86_400.0
"""Seconds."""
MEAN_GAP: Final = 2.0
"""Seconds between the beginnings of two faults of a drawn schedule."""
_FAILING: Final = (
    ("PRODUCE", "NotLeaderOrFollowerError"),
    ("PRODUCE", "NotEnoughReplicasError"),
    ("PRODUCE", "RequestTimedOutError"),
    ("FETCH", "NotLeaderOrFollowerError"),
    ("METADATA", "LeaderNotAvailableError"),
    ("FIND_COORDINATOR", "CoordinatorNotAvailableError"),
    ("OFFSET_COMMIT", "CoordinatorLoadInProgressError"),
)
"""Errors that a client is expected to get over by itself."""


@dataclass(frozen=True, slots=True)
class ScheduledFault:
    """A call, ``at`` seconds after the schedule begins."""

    at: float
    call: ControlCall

    def to_json(self) -> dict[str, JsonLike]:
        """The fault as a file has it."""
        return {"at": self.at, **self.call.to_json()}


@dataclass(frozen=True, slots=True)
class FaultSchedule:
    """Faults in the order of their times. ``seed`` is None unless they were drawn from one."""

    seconds: float
    faults: tuple[ScheduledFault, ...]
    seed: int | None = None

    def __post_init__(self) -> None:
        if not (is_number(self.seconds) and 0 < self.seconds <= LONGEST):
            raise ValueError(f"seconds={self.seconds}: a schedule takes more than 0 s and at most {LONGEST:g} s")
        if len(self.faults) > MOST_FAULTS:
            raise ValueError(f"{len(self.faults)} faults: a schedule has at most {MOST_FAULTS}")
        for fault in self.faults:
            if not (is_number(fault.at) and 0 <= fault.at <= self.seconds):
                raise ValueError(f"at={fault.at}: a fault comes from 0 to {self.seconds:g} s, the schedule's end")

    @classmethod
    def from_seed(
        cls, seed: int, *, seconds: float = 60.0, topics: Mapping[str, int] | None = None, nodes: int = 1
    ) -> FaultSchedule:
        """Draw one: about a fault every two seconds. ``topics`` are their partitions by name, whose leaders move.

        Raises ValueError for a number that is out of its limits.
        """
        if nodes < 1:
            raise ValueError(f"nodes={nodes}: a cluster has at least one node")
        if not 0.001 <= seconds <= MOST_FAULTS / 4 * MEAN_GAP:
            raise ValueError(f"seconds={seconds}: a drawn schedule takes 0.001 s to {MOST_FAULTS / 4 * MEAN_GAP:g} s")
        seconds = round(seconds, 3)  # as the times of its faults
        drawn = _Draw(random.Random(seed), seconds, dict(topics or {}), nodes).faults()
        return cls(seconds, tuple(sorted(drawn, key=lambda fault: fault.at)), seed)

    @classmethod
    def from_json(cls, document: object) -> FaultSchedule:
        """The opposite of ``to_json``; faults may be in any order. Raises ValueError for any other document."""
        if not isinstance(document, Mapping) or not isinstance(document.get("faults"), list):
            raise ValueError('a schedule is an object with "seconds" and a list "faults"')
        faults = [_read_fault(number, entry) for number, entry in enumerate(document["faults"])]
        faults.sort(key=lambda fault: fault.at)
        seconds, seed = document.get("seconds"), document.get("seed")
        if not is_number(seconds):
            raise ValueError(f"seconds={seconds!r}: write a number")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise ValueError(f"seed={seed!r}: write an integer, or null")
        return cls(float(seconds), tuple(faults), seed)

    def to_json(self) -> dict[str, JsonLike]:
        """The schedule as a file has it."""
        return {"seed": self.seed, "seconds": self.seconds, "faults": [fault.to_json() for fault in self.faults]}

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> FaultSchedule:
        """Read a file. OSError, and ValueError with the file's name for one that has no schedule."""
        try:
            return cls.from_json(json.loads(Path(path).read_text(encoding="utf-8")))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{os.fspath(path)}: {error}") from error

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write a file, a fault on each line. OSError."""
        document = self.to_json()
        del document["faults"]
        head = json.dumps(document)[:-1]
        lines = ",\n".join(f"  {json.dumps(fault.to_json())}" for fault in self.faults)
        Path(path).write_text(f'{head}, "faults": [\n{lines}\n]}}\n', encoding="utf-8")


# internals


def _read_fault(number: int, entry: object) -> ScheduledFault:
    if not isinstance(entry, Mapping):
        raise ValueError(f'fault {number}: it is an object with "at", "control" and "arguments"')
    try:
        at = entry["at"]
        if not is_number(at):
            raise ValueError(f"at={at!r}: write a number of seconds")
        return ScheduledFault(float(at), ControlCall.of(entry["control"], entry.get("arguments")))
    except KeyError as error:
        raise ValueError(f"fault {number} has no {error}") from error
    except ValueError as error:
        raise ValueError(f"fault {number}: {error}") from error


@dataclass(slots=True)
class _Draw:
    """One drawing. ``busy`` has the time until which a lasting control is in use: two at once would end each other."""

    random: random.Random
    seconds: float
    topics: dict[str, int]
    nodes: int
    stopped: dict[int, float] = field(default_factory=dict)  # by node: the time of its restart
    busy: dict[str, float] = field(default_factory=dict)

    def faults(self) -> Iterator[ScheduledFault]:
        """The faults, each with its end; not in order."""
        kinds: list[Callable[[float, float], Iterator[ScheduledFault]]]
        kinds = [self._fail, self._fail, self._drop, self._delay, self._throttle, self._cut, self._stall, self._hold]
        if self.nodes > 1:
            kinds += [self._stop, self._lead, self._lead]
        at = self._gap()
        while at < self.seconds:
            lasts = round(min(self.random.uniform(0.3, 3.0), self.seconds - at), 3)
            yield from self.random.choice(kinds)(at, lasts)
            at = round(at + self._gap(), 3)
        yield ScheduledFault(self.seconds, ControlCall.of("clear"))

    def _gap(self) -> float:
        return round(max(0.05, self.random.expovariate(1 / MEAN_GAP)), 3)

    def _fail(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        api, error = self.random.choice(_FAILING)
        times = self.random.randint(1, 3)
        yield _fault(at, "fail_next", api=api, error=error, times=times)

    def _drop(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        yield _fault(at, "drop_next", api=self.random.choice(("PRODUCE", "FETCH")), after=self.random.random() < 0.5)

    def _delay(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        api = self.random.choice(("PRODUCE", "FETCH", "METADATA"))
        if self._take(f"delay {api}", at, lasts):
            yield _fault(at, "delay", api=api, seconds=round(self.random.uniform(0.05, 0.5), 3))
            yield _fault(at + lasts, "delay", api=api, seconds=0)

    def _throttle(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        if self._take("throttle", at, lasts):
            yield _fault(at, "throttle", client_id=None, ms=self.random.randint(20, 300))
            yield _fault(at + lasts, "throttle", client_id=None, ms=0)

    def _cut(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        node_id = self.random.randint(1, self.nodes) if self.nodes > 1 else None
        yield _fault(at, "drop_connections", node_id=node_id)

    def _stall(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        node_id = self.random.randint(1, self.nodes)
        if self._take(f"stall {node_id}", at, lasts):
            yield _fault(at, "stall_connections", is_stalled=True, node_id=node_id)
            yield _fault(at + lasts, "stall_connections", is_stalled=False, node_id=node_id)

    def _hold(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        if self._take("hold", at, lasts):
            yield _fault(at, "hold_transactions", is_held=True)
            yield _fault(at + lasts, "hold_transactions", is_held=False)

    def _stop(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        running = self._running(at)
        if len(running) > 1:
            node_id = self.random.choice(running)
            self.stopped[node_id] = at + lasts
            yield _fault(at, "stop_node", node_id=node_id)
            yield _fault(at + lasts, "start_node", node_id=node_id)

    def _lead(self, at: float, lasts: float) -> Iterator[ScheduledFault]:
        if self.topics:
            topic = self.random.choice(sorted(self.topics))
            partition = self.random.randrange(self.topics[topic])
            yield _fault(
                at, "set_leader", topic=topic, partition=partition, node_id=self.random.choice(self._running(at))
            )

    def _running(self, at: float) -> list[int]:
        return [node_id for node_id in range(1, self.nodes + 1) if self.stopped.get(node_id, -1.0) < at]

    def _take(self, name: str, at: float, lasts: float) -> bool:
        if self.busy.get(name, -1.0) >= at:
            return False
        self.busy[name] = at + lasts
        return True


def _fault(at: float, control: str, **arguments: object) -> ScheduledFault:
    return ScheduledFault(round(at, 3), ControlCall.of(control, arguments))
