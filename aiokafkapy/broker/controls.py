"""Faults on demand: the calls by which a test makes a ``DevBroker`` fail.

Owns nothing: it arms the ``faults`` that the request handlers ask for, and changes leaders, nodes and connections
through the cluster it belongs to. It must not know the contents of requests. Kafka has no counterpart; the idea,
control by API key, is franz-go's kfake.

Rules:

- everything is synchronous and holds from the next request that is handled; nothing is undone but by ``clear()``,
  by its ``times`` running out, by ``end_fault`` of its name, or by the opposite call; ``clear()`` leaves leaders,
  coordinators and stopped nodes as they are;
- a fault without topic and partition fails the whole request before anything is done; one that names them fails those
  partitions only, and the rest of the request is served;
- ``fail_next`` comes before the work is done (nothing is appended). With ``after_append=True`` the work is done first
  and the answer says it was not: a retry of an idempotent producer then meets DUPLICATE_SEQUENCE_NUMBER at the broker.
  ``drop_next`` does the same with the connection instead of an answer;
- a request whose answer is delayed is handled at once: only the response waits;
- ``watchers`` hear of each call that was made, after it: a console shows them beside the traffic;
- an argument that a file could not have is a ValueError that says its limits, and changes nothing.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Concatenate, ParamSpec, Protocol, TypeAlias, TypeVar

from ..errors import KafkaError
from ..protocol.codec import Struct
from .context import RequestContext
from .faults.armed_faults import Fault, Faults, error_code

if TYPE_CHECKING:
    from .faults.control_calls import ControlCall
    from .faults.fault_schedule import FaultSchedule
    from .faults.playback import Playback
    from .handlers.registry import Answer

__all__ = ["Controls", "OnRequest"]

OnRequest: TypeAlias = "Callable[[RequestContext, Struct], Answer | None]"

P = ParamSpec("P")
R = TypeVar("R")


class Cluster(Protocol):
    """The ``DevBroker`` as the controls see it: each method is the control of its name, and None stands for all."""

    def drop_connections(self, node_id: int | None) -> int: ...

    def stall_connections(self, is_stalled: bool, node_id: int | None) -> None: ...

    def expire_sessions(self, node_id: int | None) -> int: ...

    def refuse_authentication(self, is_refused: bool) -> None: ...

    def rotate_certificate(self, keystore_location: str | os.PathLike[str], listener: str | None) -> None: ...

    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None: ...

    def move_coordinator(self, key: str, node_id: int | None) -> None: ...

    def hold_transactions(self, is_held: bool) -> None: ...

    def expire_transactions(self, transactional_id: str | None) -> int: ...

    def advance_clock(self, seconds: float) -> None: ...

    def clean_logs(self) -> None: ...

    def stop_node(self, node_id: int) -> None: ...

    def start_node(self, node_id: int) -> None: ...


def _watched(method: Callable[Concatenate[Controls, P], R]) -> Callable[Concatenate[Controls, P], R]:
    """Check the arguments as a schedule file's are checked, and tell the watchers of the call once it was made; a call
    that raised is not reported.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(self: Controls, /, *args: P.args, **kwargs: P.kwargs) -> R:
        from .faults.control_calls import ControlCall  # a broker is ready sooner without it

        bound = signature.bind(self, *args, **kwargs)
        bound.apply_defaults()
        _, *arguments = bound.arguments.items()
        made = ControlCall.of_python(method.__name__, dict(arguments))
        result = method(self, *args, **kwargs)
        if self.watchers:
            if made.arms_fault:
                made = replace(made, fault=str(result))
            for watcher in tuple(self.watchers):
                watcher(made)
        return result

    return call


class Controls:
    """``DevBroker.controls``. An API key may be an ``ApiKey`` or its number everywhere.

    A control of a node that the broker does not have raises ValueError. While the broker is not running, the controls
    of its data, leaders and coordinators, ``start_node``, and refusals and holds that begin raise IllegalStateError.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.faults = Faults()
        self.watchers: list[Callable[[ControlCall], object]] = []
        """Called with each call of a control that changes something. They raise nothing."""
        self.playback: Playback | None = None
        """The schedule that is played, or was last."""

    # errors

    @_watched
    def fail_next(
        self,
        api: int,
        error: type[KafkaError] | int,
        topic: str | None = None,
        partition: int | None = None,
        times: int | None = 1,
        *,
        after_append: bool = False,
        name: str | None = None,
    ) -> str:
        """Answer the next ``times`` requests of this API (None: all, until ``clear``) with an error, a class or a code.

        With ``topic``, or ``topic`` and ``partition``, only requests that name them are hit, and only there. By default
        nothing is done but answering; with ``after_append=True`` the request is carried out before it is "failed".

        Returns the fault's name for ``end_fault``: ``name``, or one that is made. Raises ValueError for an error that
        has no code, for ``times`` below 1, and for a name that another armed fault has.
        """
        code = error_code(error)
        return self.faults.arm(Fault(int(api), code, after_append, topic, partition, times, name or ""))

    @_watched
    def drop_next(self, api: int, *, after: bool = True, times: int | None = 1, name: str | None = None) -> str:
        """Close the connection instead of answering the next requests of this API, carried out (``after``) or not.

        Returns the fault's name, and raises ValueError, as ``fail_next``.
        """
        return self.faults.arm(Fault(int(api), None, after, remaining=times, name=name or ""))

    @_watched
    def end_fault(self, name: str) -> bool:
        """End one fault of ``fail_next`` or ``drop_next``, by its name; the others stay.

        Returns whether it was still armed: it may be used up. Raises ValueError when no fault has had this name.
        """
        return self.faults.end(name)

    def on_request(self, api: int, function: OnRequest | None) -> None:
        """Call ``function(context, body)`` with every request of this API before it is handled; None removes it.

        It may return None (go on), a response (built with ``context.respond``) or a future of one, or raise a
        KafkaError, which becomes the API's error response.
        """
        if function is None:
            self.faults.interceptors.pop(int(api), None)
        else:
            self.faults.interceptors[int(api)] = function

    # time

    @_watched
    def delay(self, api: int, seconds: float) -> None:
        """Hold every response of this API back for ``seconds``; 0 ends it."""
        self.faults.delays[int(api)] = seconds

    @_watched
    def throttle(self, client_id: str | None, ms: int) -> None:
        """Tell this client id (None: every client) in each response to wait ``ms`` milliseconds, and read nothing from
        it for as long.

        0 ends it. As with a quota the response comes at once and the connection is muted after it (KIP-219).
        """
        self.faults.throttles[client_id] = ms / 1000

    @_watched
    def advance_clock(self, seconds: float) -> None:
        """Advance the cluster's wall clock, and apply the effects of that time: records past their retention are
        deleted, and those in segments that are older than ``segment.ms`` are compacted.

        Records that the broker gives a time get a later one, too. Time-outs, of groups and transactions for example,
        run by another clock. Raises ValueError when ``seconds`` is negative.
        """
        self._cluster.advance_clock(seconds)

    @_watched
    def clean_logs(self) -> None:
        """Drop the records past their topics' retention, and compact all topics that are compacted, now."""
        self._cluster.clean_logs()

    @_watched
    def stall_connections(self, is_stalled: bool = True, node_id: int | None = None) -> None:
        """Read nothing and write nothing, on all nodes or on one, while connections stay open; False goes on."""
        self._cluster.stall_connections(is_stalled, node_id)

    # security

    @_watched
    def expire_sessions(self, node_id: int | None = None) -> int:
        """End every SASL session, of all nodes or of one, and return their number.

        A connection goes on if its client authenticates again on it before the next request, else that closes it.
        """
        return self._cluster.expire_sessions(node_id)

    @_watched
    def refuse_authentication(self, is_refused: bool = True) -> None:
        """Let nobody authenticate by SASL, with any credentials; False goes on. Sessions that live stay."""
        self._cluster.refuse_authentication(is_refused)

    @_watched
    def rotate_certificate(self, keystore_location: str | os.PathLike[str], listener: str | None = None) -> None:
        """Show new connections another certificate: a PEM file of key and chain, on one TLS listener or on all.

        Connections that are there stay. Raises ConfigurationError, and has changed nothing, when the file is of no use,
        and ValueError when no listener has TLS, or none of this name.
        """
        self._cluster.rotate_certificate(keystore_location, listener)

    # transactions

    @_watched
    def move_coordinator(self, key: str, node_id: int | None) -> None:
        """Let another node coordinate a transactional id or a group; None: no node. It stays so, as leaders do, until
        that node stops. Raises ValueError for a node that does not run.
        """
        self._cluster.move_coordinator(key, node_id)

    @_watched
    def hold_transactions(self, is_held: bool = True) -> None:
        """Write no markers: a commit or abort is decided and answered, and readers see nothing of it until False.

        The producer's next transaction meets CONCURRENT_TRANSACTIONS meanwhile.
        """
        self._cluster.hold_transactions(is_held)

    @_watched
    def expire_transactions(self, transactional_id: str | None = None) -> int:
        """Abort the open transaction of an id, or of all, as if its time-out were over; return their number."""
        return self._cluster.expire_transactions(transactional_id)

    # connections, leaders, nodes

    @_watched
    def drop_connections(self, node_id: int | None = None) -> int:
        """Abort every connection, of all nodes or of one, and return their number. New connections are accepted."""
        return self._cluster.drop_connections(node_id)

    @_watched
    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None:
        """Move a partition to another node, with a higher epoch; None leaves it without a leader, even when nodes
        start, until it is moved, elected or assigned anew. Raises ValueError for a node that does not run, and
        UnknownTopicOrPartitionError.
        """
        self._cluster.set_leader(topic, partition, node_id)

    @_watched
    def stop_node(self, node_id: int) -> None:
        """Close a node's port and connections; other running nodes lead its partitions then, with a higher epoch, and
        the next one coordinates its groups and transactional ids. Does nothing when it is stopped. The port is kept for
        ``start_node``. Raises ValueError for an unknown node.
        """
        self._cluster.stop_node(node_id)

    @_watched
    def start_node(self, node_id: int) -> None:
        """Open a stopped node again on the same port; others keep the partitions and groups that they have taken over.

        Does nothing when it runs. Raises ValueError for an unknown node, and OSError if another process has taken
        the port.
        """
        self._cluster.start_node(node_id)

    # schedules

    def apply(self, call: ControlCall) -> object:
        """Make a call that is data, of a file or of a page; returns the result of its method, and raises its errors."""
        return getattr(self, call.control)(**call.python_arguments())

    def play(self, schedule: FaultSchedule, *, speed: float = 1.0) -> Playback:
        """Call the controls as the schedule says, from now on; ``await controls.play(schedule).wait()`` waits for its
        end, and raises the first error of a call.

        ``speed`` 10 plays a minute in six seconds. A schedule that is still played is stopped first. Needs the
        broker's loop; when the broker stops, so does the schedule.
        """
        from .faults.playback import Playback

        if self.playback is not None:
            self.playback.stop()
        self.playback = Playback(schedule, self.apply, speed=speed)
        return self.playback

    # counting and clearing

    def request_count(self, api: int, node_id: int | None = None) -> int:
        """Requests of this API that reached a handler since the start or the last ``clear``, on all nodes or on one."""
        return sum(
            count
            for (api_key, node), count in self.faults.counts.items()
            if api_key == int(api) and node_id in (None, node)
        )

    @_watched
    def clear(self) -> None:
        """Remove every fault, delay, throttle, function and count, and end stalls, refusals and the holding of
        transactions.
        """
        self.faults.clear()
        self._cluster.hold_transactions(False)
        self._cluster.refuse_authentication(False)
        self._cluster.stall_connections(False, None)
