"""The armed faults: which requests they hit, how often, and with what error.

Owns errors, drops, delays, throttles, interceptors and the count of requests. It knows a request by API key, topic and
partition, never its contents; neither sockets nor nodes. ``controls`` arms the faults, the request handlers ask for
them. Kafka has no counterpart; the idea, control by API key, is franz-go's kfake.

Rules:

- a fault counts once per request, however many partitions of the request it hits;
- a fault without topic and partition fails the whole request; one that names them fails those partitions only;
- a fault ends when its number of times is used up, with ``end`` of its name, or with ``clear``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from ...errors import BrokerError, KafkaError, for_code
from ...protocol.codec import Struct

__all__ = ["Fault", "FaultyRequest", "Faults", "broker_error", "error_code"]


class FaultyRequest(Protocol):
    """A request as the faults see it. ``used_faults`` has the faults that it has used already."""

    @property
    def api_key(self) -> int:
        """Kafka's number of the API."""

    @property
    def used_faults(self) -> set[Fault]:
        """A fault hits a request once, however many of its partitions ask."""


_NUMBERED: Final = "fault-"


@dataclass(slots=True, eq=False)
class Fault:
    """An error, or a dropped connection (code None), for requests that are still to come."""

    api_key: int
    code: int | None
    after: bool
    topic: str | None = None
    partition: int | None = None
    remaining: int | None = 1  # None: until clear()
    name: str = ""  # given by ``arm`` where it has none

    @property
    def is_partial(self) -> bool:
        """Whether the fault is for some partitions of a request only."""
        return self.topic is not None or self.partition is not None

    def matches(self, topic: str, partition: int | None) -> bool:
        """Whether the fault hits this partition; a partition of None stands for the whole topic."""
        if self.topic is not None and self.topic != topic:
            return False
        return self.partition is None or partition is None or self.partition == partition


@dataclass(slots=True)
class Faults:
    """Everything that ``Controls.clear`` forgets."""

    armed: list[Fault] = field(default_factory=list)
    delays: dict[int, float] = field(default_factory=dict)  # by API key, in seconds
    throttles: dict[str | None, float] = field(default_factory=dict)  # by client id (None: every other), in seconds
    interceptors: dict[int, Callable[[Any, Struct], Any]] = field(default_factory=dict)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)  # (API key, node id)
    numbered: int = 0  # faults that were given a name, which ``clear`` does not forget
    named: set[str] = field(default_factory=set)  # names that the callers gave

    def clear(self) -> None:
        """Forget everything."""
        for each in (self.armed, self.delays, self.throttles, self.interceptors, self.counts):
            each.clear()

    def arm(self, fault: Fault) -> str:
        """Add a fault after those that are armed, and return its name. ValueError for a name that one of them has."""
        # A fault that was used up goes here and not at once: its request may still ask for its other partitions.
        self.armed = [each for each in self.armed if each.remaining != 0]
        if not fault.name:
            self.numbered += 1
            fault.name = f"{_NUMBERED}{self.numbered}"
        elif fault.name.startswith(_NUMBERED):
            raise ValueError(f"name={fault.name!r}: names that begin with {_NUMBERED!r} are made, not given")
        elif fault.name in {each.name for each in self.armed}:
            raise ValueError(f"name={fault.name!r} is the name of a fault that is armed: write another name")
        else:
            self.named.add(fault.name)
        self.armed.append(fault)
        return fault.name

    def end(self, name: str) -> bool:
        """End the fault of this name, and return whether it was still armed. ValueError when there was none."""
        for fault in self.armed:
            if fault.name == name and fault.remaining != 0:
                fault.remaining = 0
                return True
        number = name.removeprefix(_NUMBERED)
        if name in self.named or (number != name and number.isdecimal() and 0 < int(number) <= self.numbered):
            return False
        armed = ", ".join(each.name for each in self.armed if each.remaining != 0) or "none"
        raise ValueError(f"name={name!r}: no fault has had this name; armed are {armed}")

    # for the request handlers

    def count_request(self, node_id: int, api_key: int) -> None:
        """Count a request."""
        self.counts[api_key, node_id] += 1

    def intercept(self, request: FaultyRequest, body: Struct) -> Any:
        """The answer of the function given to ``on_request``; None without one, or when it lets the request pass."""
        function = self.interceptors.get(request.api_key)
        return None if function is None else function(request, body)

    def take_drop(self, request: FaultyRequest, *, after: bool) -> bool:
        """Whether the connection is to be closed instead of an answer; uses the fault up."""
        return self._take(request, after=after, fits=lambda fault: fault.code is None) is not None

    def request_error(self, request: FaultyRequest, *, after: bool = False) -> int:
        """The code the whole request is to be answered with, 0 for none; uses the fault up."""
        return _code(
            self._take(request, after=after, fits=lambda fault: fault.code is not None and not fault.is_partial)
        )

    def topic_error(self, request: FaultyRequest, topic: str, partition: int | None, *, after: bool = False) -> int:
        """The code for one partition of the request, 0 for none; uses the fault up, once per request."""

        def fits(fault: Fault) -> bool:
            return fault.code is not None and fault.is_partial and fault.matches(topic, partition)

        return _code(self._take(request, after=after, fits=fits))

    def delay_of(self, request: FaultyRequest) -> float:
        """Seconds for which the response is held back."""
        return self.delays.get(request.api_key, 0.0)

    def throttle_time(self, client_id: str) -> float:
        """Seconds for which this client is throttled."""
        return self.throttles.get(client_id, self.throttles.get(None, 0.0)) if self.throttles else 0.0

    # internals

    def _take(self, request: FaultyRequest, *, after: bool, fits: Callable[[Fault], bool]) -> Fault | None:
        """The first fault that fits, used up unless this request has used it already."""
        for fault in self.armed:
            if fault.api_key != request.api_key or fault.after != after or not fits(fault):
                continue
            if fault not in request.used_faults:
                if fault.remaining == 0:
                    continue
                request.used_faults.add(fault)
                if fault.remaining is not None:
                    fault.remaining -= 1
            return fault
        return None


def broker_error(code: int) -> KafkaError:
    """The error of a code, also of a code that brokers no longer send."""
    error = for_code(code)
    if error.code != code:
        error = type("InjectedError", (BrokerError,), {"code": code})
    return error("asked for by controls.fail_next")


def error_code(error: type[KafkaError] | int) -> int:
    """The code of an error, a class or the code itself; ValueError for one that no broker sends."""
    code = error if isinstance(error, int) else getattr(error, "code", None)
    if code is None:
        raise ValueError(f"{error} is not an error that a broker sends: it has no code")
    return int(code)


def _code(fault: Fault | None) -> int:
    return 0 if fault is None else fault.code or 0
