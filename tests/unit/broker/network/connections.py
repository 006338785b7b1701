"""A server that does not listen, and connections to its Processors on transports that a test looks at."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.context import ConnectionInfo
from aiokafkapy.broker.listeners import Listeners, endpoints_of
from aiokafkapy.broker.network.client_connection import ClientConnection
from aiokafkapy.broker.network.request_channel import RequestChannel
from aiokafkapy.broker.network.socket_server import SocketServer

__all__ = ["FakeSocket", "FakeTransport", "connected", "frame", "info", "server"]


class FakeSocket:
    """Counts how it was closed."""

    def __init__(self) -> None:
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


class FakeTransport(asyncio.Transport):
    """Takes everything at once."""

    def __init__(self) -> None:
        self.written = b""
        self.is_aborted = False
        self._is_reading = True

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.written += data

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_reading = True

    def abort(self) -> None:
        self.is_aborted = True


def info(number: int = 1) -> ConnectionInfo:
    return ConnectionInfo(f"a:{number}", "PLAINTEXT", "a")


def server(listeners: Listeners | None = None, **config: Any) -> SocketServer:
    settings = BrokerConfig.of(**config)
    endpoints = endpoints_of(listeners or {"PLAINTEXT": "127.0.0.1:0"}, settings, nodes=1)
    return SocketServer(
        settings, RequestChannel(settings.queued_max_requests), list(endpoints.values()), lambda _: None
    )


def connected(node: SocketServer, number: int = 1) -> tuple[ClientConnection, FakeTransport]:
    """A connection to the first Processor of a server, which counts it."""
    node.quotas.increase("PLAINTEXT", "a", now=0.0)
    connection = ClientConnection(node.processors[0], info(number), max_request_size=100)
    transport = FakeTransport()
    connection.connection_made(transport)
    return connection, transport


def frame(payload: bytes) -> bytes:
    return len(payload).to_bytes(4, "big") + payload
