"""``SenderClient``: the part of the network client that the Sender uses.

Owns nothing: ``NetworkClient`` extends it. A class and not a protocol, so that compiled code calls it without a
look-up, twice for each request. In Java it is the ``KafkaClient`` interface.
"""

from __future__ import annotations

from collections.abc import Callable

from ...common import Node
from .client_request import ClientRequest

__all__ = ["SenderClient"]


class SenderClient:
    """The part of ``NetworkClient`` that the Sender uses. ``wakeup`` is called when the Sender may have work."""

    __slots__ = ("wakeup",)

    def __init__(self, wakeup: Callable[[], object] | None = None) -> None:
        self.wakeup = wakeup

    @property
    def is_active(self) -> bool:
        """True until the client is closed."""
        raise NotImplementedError

    def ready(self, node: Node, now: float) -> bool:
        """True when a request can be sent to ``node``; connects otherwise."""
        raise NotImplementedError

    def post(self, request: ClientRequest, now: float) -> None:
        """Send; the request's callback gets the response, always."""
        raise NotImplementedError

    def least_loaded_node(self, now: float) -> Node | None:
        """The node for a request that any node can answer."""
        raise NotImplementedError

    def connection_delay(self, node: Node, now: float) -> float:
        """Seconds until it makes sense to ask ``ready`` again, unless woken before."""
        raise NotImplementedError
