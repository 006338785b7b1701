"""Faults on demand: what a test says to a `DevBroker` to see how a client takes it.

Owns the faults that are armed and the count of requests. It knows requests by API key and by context, never their
contents; leaders and nodes it changes through the cluster it belongs to. Kafka has no counterpart; the idea, control by
API key, is franz-go's kfake.

Rules:
- everything is synchronous and holds from the next request that is handled; nothing is undone but by `clear()`,
  by its `times` running out, or by the opposite call; `clear()` leaves leaders and stopped nodes as they are;
- a fault counts once per request it hit, however many partitions of it;
- a fault without topic and partition fails the whole request before anything is done; one that names them fails those
  partitions only, and the rest of the request is served;
- `fail_next` comes before the work is done (nothing is appended). With `after_append=True` the work is done first and
  the answer says it was not: a retry of an idempotent producer then meets DUPLICATE_SEQUENCE_NUMBER at the broker.
  `drop_next` does the same with the connection instead of an answer;
- a delayed answer is one to a request that was handled at once: only the response waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import BrokerError, KafkaError, for_code

if TYPE_CHECKING:
    from .context import RequestContext

__all__ = ["Controls", "broker_error", "checked_times", "error_code"]

OnRequest = Callable[["RequestContext", Any], Any]


class Cluster(Protocol):
    """What the controls need of the `DevBroker`."""

    def drop_connections(self, node_id: int | None) -> int: ...

    def stall_connections(self, is_stalled: bool, node_id: int | None) -> None: ...

    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None: ...

    def stop_node(self, node_id: int) -> None: ...

    def start_node(self, node_id: int) -> None: ...


@dataclass(slots=True, eq=False)
class _Fault:
    """An error, or a dropped connection (code None), for requests that are still to come."""

    api_key: int
    code: int | None
    after: bool
    topic: str | None
    partition: int | None
    remaining: int | None  # None: until clear()

    @property
    def is_partial(self) -> bool:
        return self.topic is not None or self.partition is not None

    def matches(self, topic: str, partition: int | None) -> bool:
        if self.topic is not None and self.topic != topic:
            return False
        return self.partition is None or partition is None or self.partition == partition


@dataclass(slots=True)
class _State:
    """Everything `clear()` forgets."""

    faults: list[_Fault] = field(default_factory=list)
    delays: dict[int, float] = field(default_factory=dict)
    throttles: dict[str | None, float] = field(default_factory=dict)
    interceptors: dict[int, OnRequest] = field(default_factory=dict)
    counts: Counter[tuple[int, int]] = field(default_factory=Counter)  # (API key, node id)


class Controls:
    """`DevBroker.controls`. An API key may be an `ApiKey` or its number everywhere."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._state = _State()

    # errors

    def fail_next(
        self,
        api: int,
        error: type[KafkaError] | int,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = 1,
        *,
        after_append: bool = False,
    ) -> None:
        """Answer the next `times` requests of this API (None: all, until `clear`) with an error, a class or a code.

        With `topic`, or `topic` and `partition`, only requests that name them are hit, and only there. By default
        nothing is done but answering; with `after_append=True` the request is carried out before it is "failed".
        """
        self._arm(_Fault(int(api), error_code(error), after_append, topic, partition, checked_times(times)))

    def drop_next(self, api: int, *, after: bool = True, times: int | None = 1) -> None:
        """Close the connection instead of answering the next requests of this API, carried out (`after`) or not."""
        self._arm(_Fault(int(api), None, after, None, None, checked_times(times)))

    def on_request(self, api: int, function: OnRequest | None) -> None:
        """Call `function(context, body)` with every request of this API before it is handled; None removes it.

        It may return None (go on), a response (built with `context.respond`) or a future of one, or raise a KafkaError,
        which becomes the API's error response.
        """
        if function is None:
            self._state.interceptors.pop(int(api), None)
        else:
            self._state.interceptors[int(api)] = function

    # time

    def delay(self, api: int, seconds: float) -> None:
        """Hold every response of this API back for so long; 0 ends it."""
        self._state.delays[int(api)] = seconds

    def throttle(self, client_id: str | None, ms: int) -> None:
        """Tell this client id (None: every client) in each response to be quiet for `ms`, and be deaf for as long.

        0 ends it. As with a quota the response comes at once and the connection is muted after it (KIP-219).
        """
        self._state.throttles[client_id] = ms / 1000

    def stall_connections(self, is_stalled: bool = True, node_id: int | None = None) -> None:
        """Read nothing and write nothing, on all nodes or on one, while connections stay open; False goes on."""
        self._cluster.stall_connections(is_stalled, node_id)

    # connections, leaders, nodes

    def drop_connections(self, node_id: int | None = None) -> int:
        """Abort every connection, of all nodes or of one; how many they were. New ones are welcome."""
        return self._cluster.drop_connections(node_id)

    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None:
        """Move a partition to another node, with a higher epoch; None leaves it without a leader."""
        self._cluster.set_leader(topic, partition, node_id)

    def stop_node(self, node_id: int) -> None:
        """Close a node's port and connections; what it led is led by another running node with a higher epoch."""
        self._cluster.stop_node(node_id)

    def start_node(self, node_id: int) -> None:
        """Open a stopped node again on the same port."""
        self._cluster.start_node(node_id)

    # bookkeeping

    def request_count(self, api: int, node_id: int | None = None) -> int:
        """Requests of this API that reached a handler since the start or the last `clear`, on all nodes or on one."""
        return sum(
            count
            for (api_key, node), count in self._state.counts.items()
            if api_key == int(api) and node_id in (None, node)
        )

    def clear(self) -> None:
        """Forget every fault, delay, throttle, function and count, and end a stall."""
        self._state = _State()
        self._cluster.stall_connections(False, None)

    # for the request handlers

    def count_request(self, node_id: int, api_key: int) -> None:
        """Count a request."""
        self._state.counts[api_key, node_id] += 1

    def intercept(self, context: RequestContext, body: Any) -> Any:
        """What the function given to `on_request` answers, None when there is none or it lets the request pass."""
        function = self._state.interceptors.get(context.api_key)
        return None if function is None else function(context, body)

    def take_drop(self, context: RequestContext, *, after: bool) -> bool:
        """Whether the connection is to be closed instead of an answer; uses the fault up."""
        return any(fault.code is None for fault in self._take(context, after, lambda fault: fault.code is None))

    def request_error(self, context: RequestContext, *, after: bool = False) -> int:
        """The code the whole request is to be answered with, 0 for none; uses the fault up."""
        taken = self._take(context, after, lambda fault: fault.code is not None and not fault.is_partial)
        return taken[0].code or 0 if taken else 0

    def topic_error(self, context: RequestContext, topic: str, partition: int | None, *, after: bool = False) -> int:
        """The code for one partition of the request, 0 for none; uses the fault up, once per request."""
        taken = self._take(
            context,
            after,
            lambda fault: fault.code is not None and fault.is_partial and fault.matches(topic, partition),
        )
        return taken[0].code or 0 if taken else 0

    def delay_of(self, context: RequestContext) -> float:
        """Seconds the response is held back."""
        return self._state.delays.get(context.api_key, 0.0)

    def throttle_time(self, client_id: str) -> float:
        """Seconds this client is told to be quiet for."""
        throttles = self._state.throttles
        return throttles.get(client_id, throttles.get(None, 0.0)) if throttles else 0.0

    # internals

    def _arm(self, fault: _Fault) -> None:
        # What was used up is dropped here and not when it is: a request may still be asking for its other partitions.
        self._state.faults = [*(armed for armed in self._state.faults if armed.remaining != 0), fault]

    def _take(self, context: RequestContext, after: bool, fits: Callable[[_Fault], bool]) -> list[_Fault]:
        """The first fault that fits, used up unless this request has used it already; as a list of at most one."""
        for fault in self._state.faults:
            if fault.api_key != context.api_key or fault.after != after or not fits(fault):
                continue
            if fault not in context.used_faults:
                if fault.remaining == 0:
                    continue
                context.used_faults.add(fault)
                if fault.remaining is not None:
                    fault.remaining -= 1
            return [fault]
        return []


def broker_error(code: int) -> KafkaError:
    """The error of a code, also of one that no broker of today sends."""
    error = for_code(code)
    if error.code != code:
        error = type("InjectedError", (BrokerError,), {"code": code})
    return error("asked for by controls.fail_next")


def error_code(error: type[KafkaError] | int) -> int:
    """The code of an error, a class or the code itself; ValueError for one that no broker sends."""
    code = error if isinstance(error, int) else error.code
    if code is None:
        raise ValueError(f"{error} is no error a broker sends: it has no code")
    return int(code)


def checked_times(times: int | None) -> int | None:
    """How often a fault happens (None: until it is cleared); ValueError unless that is once at least."""
    if times is not None and times < 1:
        raise ValueError(f"times={times}: a fault happens at least once")
    return times
