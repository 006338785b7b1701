"""One node of the dev broker: its network and the handlers of its requests.

Kafka's counterpart is ``BrokerServer``; all nodes share the cluster's ``BrokerState``.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence

from .context import BrokerState
from .listeners import Endpoint
from .network.acceptor import NewSession
from .network.request_channel import RequestChannel
from .network.request_handler import KafkaRequestHandlerPool
from .network.socket_server import SocketServer

__all__ = ["BrokerNode"]


class BrokerNode:
    """One node: a SocketServer and its request handlers around one RequestChannel."""

    __slots__ = ("channel", "handlers", "server")

    def __init__(
        self, node_id: int, state: BrokerState, endpoints: Sequence[Endpoint], new_session: NewSession
    ) -> None:
        self.channel = RequestChannel(state.config.queued_max_requests)
        self.server = SocketServer(state.config, self.channel, endpoints, new_session)
        self.handlers = KafkaRequestHandlerPool(node_id, state, self.channel)

    def start(self, ports: Mapping[str, int], sockets: Mapping[str, socket.socket]) -> dict[str, int]:
        """Listen on these ports (0: a free one) by listener, then take requests; returns the ports.

        Raises the errors of ``SocketServer.start``, and has left nothing behind then.
        """
        bound_ports = self.server.start(ports, sockets)
        self.handlers.start()
        return bound_ports

    def stop(self) -> None:
        """Close listeners and connections, and tell the tasks to end; ``wait_stopped`` waits for them."""
        self.server.stop()
        self.handlers.stop()

    @property
    def is_stopped(self) -> bool:
        """Whether every task has ended."""
        return self.server.is_stopped and self.handlers.is_stopped

    async def wait_stopped(self) -> None:
        """Return when every task has ended."""
        await self.server.wait_stopped()
        await self.handlers.wait_stopped()

    def metrics(self) -> dict[str, float]:
        """Counts since the start, and the numbers of the moment, by name."""
        connections, requests = self.server.metrics, self.channel.metrics.by_api.values()
        found: dict[str, float] = {
            "connections": len(self.server.connections),
            "connections_accepted": connections.accepted,
            "connections_refused": connections.refused,
            "connections_disconnected": connections.disconnected,
            "connections_expired": connections.expired,
            "connections_invalid": connections.invalid,
            "failed_authentications": connections.failed_authentications,
            "requests": sum(times.count for times in requests),
            "request_queue_size": len(self.channel),
        }
        for stage in ("queue", "local", "remote", "throttle", "response_queue", "send"):
            found[f"{stage}_time"] = sum(getattr(times, stage) for times in requests)
        return found
