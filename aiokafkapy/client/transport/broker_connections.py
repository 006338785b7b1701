"""The open connections and the attempts at new ones: one connection or attempt per node.

Owns sockets and connect tasks, so that closing can wait for the last of them. Knows neither requests nor states; it
reports to the network client. Kafka's counterpart is the part of ``Selector`` that keeps channels.

Rules:

- A connection is current from ``adopt`` until ``drop``; its events after that are ignored.
- Every socket reaches ``connection_lost`` and every task its end; ``wait_closed`` returns after the last of them.
- A connect task never raises; it calls ``on_connect_failed``. Nobody awaits it, so asyncio would log its error,
  in which a library may have put the credentials.
"""

from __future__ import annotations

import asyncio
import math
import traceback
from collections.abc import Callable
from functools import partial

from ...common import Node, format_address
from ...errors import AuthenticationFailedError, KafkaConnectionError, KafkaError
from ..nodes.connection_states import NodeConnectionState
from .change_signal import ChangeSignal
from .connection import BrokerConnection, ConnectionOwner
from .connection_counts import ConnectionCounts
from .connector import AddressFailure, ConnectorProtocol

__all__ = ["BrokerConnections"]


class BrokerConnections:
    """Connections by node id (``current``), attempts, and all sockets and tasks that have not ended yet. ``counts`` has
    their numbers so far.
    """

    def __init__(
        self,
        connector: ConnectorProtocol,
        owner: ConnectionOwner,
        loop: asyncio.AbstractEventLoop,
        *,
        current: dict[int, BrokerConnection],
        on_connect_failed: Callable[[int, KafkaError], None],
        on_address_failure: AddressFailure,
        max_response_size: int,
        is_authenticated_by_tls: bool = False,
    ) -> None:
        """``is_authenticated_by_tls``: there is no SASL, so a connection is authenticated as soon as it is made."""
        self._connector = connector
        self._owner = owner
        self._loop = loop
        self._on_connect_failed = on_connect_failed
        self._on_address_failure = on_address_failure
        self._max_response_size = max_response_size
        self.current = current
        self._attempts: dict[int, _Attempt] = {}
        # wait_closed waits for these.
        self._open: set[BrokerConnection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._closed_one = ChangeSignal(loop)
        self._is_authenticated_by_tls = is_authenticated_by_tls
        self.counts = ConnectionCounts(loop.time())

    def node_ids(self) -> set[int]:
        """Ids of the nodes with a connection or an attempt."""
        return {*self.current, *self._attempts}

    def is_current(self, connection: BrokerConnection) -> bool:
        """True when this is its node's connection; False for one that was dropped."""
        return self.current.get(connection.node_id) is connection

    def connect(self, node: Node, state: NodeConnectionState) -> None:
        """Begin an attempt, as a task."""
        attempt = self._attempts[node.node_id] = _Attempt()
        name = f"aiokafkapy connect to {node.address}"
        attempt.task = self._loop.create_task(self._connect(node.node_id, state, attempt), name=name)
        self._tasks.add(attempt.task)
        attempt.task.add_done_callback(partial(self._on_task_done, node.node_id, attempt))

    def adopt(self, connection: BrokerConnection) -> bool:
        """Make a new connection its node's current one; if its attempt was given up, abort it and return False."""
        attempt = self._attempts.get(connection.node_id)
        if attempt is None or attempt.connection is not connection:
            # Not to be waited for: uvloop never calls connection_lost for a transport that is aborted in
            # connection_made.
            connection.abort()
            return False
        self._open.add(connection)
        now = self._loop.time()
        self.counts.created.record(now)
        if self._is_authenticated_by_tls:
            self.counts.record_authentication(now)
        del self._attempts[connection.node_id]
        self.current[connection.node_id] = connection
        return True

    def drop(self, node_id: int) -> BrokerConnection | None:
        """Close the node's connection and return it, or give up the attempt at one."""
        attempt = self._attempts.pop(node_id, None)
        if attempt is not None and attempt.task is not None and not self._loop.is_closed():
            attempt.task.cancel()
        connection = self.current.pop(node_id, None)
        if connection is not None:
            connection.abort()
        return connection

    def idle_connections(self, now: float, max_idle: float) -> list[BrokerConnection]:
        """The connections that were not used for ``max_idle`` seconds."""
        # The same sum as the timer's: with another, rounded differently, the timer could fire just too early.
        return [connection for connection in self.current.values() if connection.last_active + max_idle <= now]

    def idle_since(self, busy: frozenset[int], now: float) -> float:
        """The last use of the connection that has been idle for longest; infinite if there is none.

        Connections of ``busy`` nodes count as used ``now``: their last response arms no timer, so they are checked
        again when they could have become idle.
        """
        return min(
            (now if node_id in busy else connection.last_active for node_id, connection in self.current.items()),
            default=math.inf,
        )

    def lost(self, connection: BrokerConnection) -> None:
        """Note that the connection's socket is closed."""
        if connection in self._open:
            self._open.discard(connection)
            self.counts.closed.record(self._loop.time())
        self._closed_one.notify()

    async def wait_closed(self) -> None:
        """Return when no task and no socket is left; all must have been dropped before."""
        while self._tasks or self._open:
            if self._tasks:
                await asyncio.wait(tuple(self._tasks))
            else:
                await self._closed_one.wait()

    # asyncio callbacks

    def _on_task_done(self, node_id: int, attempt: _Attempt, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled():
            # Cancelled by other code that cancels all tasks, maybe before it began. If we gave the attempt up, this
            # does nothing.
            self._fail(node_id, attempt, KafkaConnectionError("the attempt to connect was cancelled"))

    # internals

    async def _connect(self, node_id: int, state: NodeConnectionState, attempt: _Attempt) -> None:
        def make_connection(address: str) -> asyncio.Protocol:
            now = self._loop.time()
            attempt.connection = BrokerConnection(
                node_id, self._owner, now, address, max_response_size=self._max_response_size
            )
            return attempt.connection.protocol

        try:
            await self._connector.connect(state, make_connection, self._on_address_failure)
        except OSError as error:  # KafkaConnectionError is one; the connector has reported its address
            self._fail(node_id, attempt, error)
        except Exception as error:
            # A file of TLS that cannot be read, a library's error or a bug.
            address = format_address(state.host, state.port)
            failure = error if isinstance(error, KafkaError) else KafkaConnectionError(_without_values(address, error))
            self._on_address_failure(address, failure)
            self._fail(node_id, attempt, failure)

    def _fail(self, node_id: int, attempt: _Attempt, error: Exception) -> None:
        if self._attempts.get(node_id) is attempt:
            del self._attempts[node_id]
            failure = error if isinstance(error, KafkaError) else KafkaConnectionError(str(error))
            if isinstance(failure, AuthenticationFailedError):  # by TLS: SASL comes after a connection is made
                self.counts.record_refusal(self._loop.time())
            self._on_connect_failed(node_id, failure)


def _without_values(address: str, error: Exception) -> str:
    """The failure and its place, without the error's own text."""
    frames = traceback.extract_tb(error.__traceback__)
    place = f" (line {frames[-1].lineno} of {frames[-1].filename})" if frames else ""
    return f"cannot connect to {address}: {type(error).__name__}{place}"


class _Attempt:
    """One attempt to connect: its task, and the connection once there is a socket."""

    __slots__ = ("connection", "task")

    def __init__(self) -> None:
        self.connection: BrokerConnection | None = None
        self.task: asyncio.Task[None] | None = None
