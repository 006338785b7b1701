"""The part of a ``FaultProxy`` that its gates and links use: each node's settings, and the decision on each message."""

from __future__ import annotations

import asyncio
import enum
from typing import Generic, Protocol, TypeVar

from ..recording import ConnectionRecorder
from ..tls import Handshake, ServerTls
from .requests import Answer, Request

__all__ = ["Mode", "PerNode", "Traffic"]

T = TypeVar("T")


class Mode(enum.Enum):
    """The modes of a node's connections."""

    PASS = "pass"
    STALL = "stall"  # read and write nothing
    SWALLOW = "swallow"  # read and drop: the peer has vanished


class PerNode(Generic[T]):
    """A setting for all nodes, with exceptions for single nodes."""

    def __init__(self, value: T) -> None:
        self._value = value
        self._by_node: dict[int, T] = {}

    def set(self, *, value: T, node_id: int | None) -> None:
        """Set it for one node, or with None for all, which removes the exceptions."""
        if node_id is None:
            self._value = value
            self._by_node.clear()
        else:
            self._by_node[node_id] = value

    def of(self, node_id: int | None) -> T:
        """The setting of a node; ``node_id`` None is a node that is not known yet."""
        return self._value if node_id is None else self._by_node.get(node_id, self._value)


class Traffic(Protocol):
    """The part of the proxy that gates and links use."""

    modes: PerNode[Mode]
    rates: PerNode[float | None]
    refusals: PerNode[bool]
    client_tls: ServerTls

    def next_connection(self) -> int:
        """A new connection's number, from 1."""

    def decide(self, request: Request) -> Answer:
        """Record a request, and decide on its ``Answer``."""

    def answer_received(self, request: Request | None, frame: bytes) -> bytes:
        """A broker's response with the proxy's addresses in place of the real ones."""

    def answer_sent(self) -> None:
        """A response, or its replacement, was sent to a client."""

    def met_stranger(self) -> None:
        """A client's bytes are not frames."""

    def greet_broker(self, connection: asyncio.Protocol, host: str) -> Handshake | None:
        """The handshake of a new connection to a broker; None without TLS."""

    def broker_refused(self, address: tuple[str, int], error: OSError) -> None:
        """A handshake with a broker failed."""

    def recorder_of(self, connection: int, address: tuple[str, int], node_id: int | None) -> ConnectionRecorder | None:
        """The recorder of a new connection to a broker's address; None without a recording."""

    def as_sent(self, request: Request | None, data: bytes) -> bytes:
        """The recorded form of a response, with the brokers' own addresses."""

    def changed(self) -> None:
        """An event happened for which an ``until`` may wait."""
