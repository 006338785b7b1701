"""The client's log lines about connections, rate-limited during outages.

Decides which event a disconnection is, at which level, and how often it is logged.

Rule: a broker that is down for an hour causes about ten lines a minute, with the number of suppressed ones, and one
when it is back.
"""

from __future__ import annotations

import logging

from ...observability import RateLimitedLogger, get_logger

__all__ = ["ConnectionLog"]

_logger = get_logger(__name__)


class ConnectionLog:
    """Logs the events of one client's connections; ``now`` is loop time."""

    __slots__ = ("_limited",)

    def __init__(self) -> None:
        self._limited = RateLimitedLogger(_logger)

    def ready(self, node_id: int, address: str) -> None:
        """The node can be used; at info level only if a failure of it was logged before."""
        outage = self._limited.settle(node_id)
        level = logging.DEBUG if outage is None else logging.INFO
        _logger.log(level, "connection.ready", {"node_id": node_id, "address": address, "suppressed": outage or 0})

    def lost(
        self, node_id: int, address: str, error: BaseException, *, was_connected: bool, in_flight: int, now: float
    ) -> None:
        """An attempt to connect failed, or a connection ended with requests in flight."""
        if was_connected:
            self._warn(node_id, now, "connection.lost", address=address, error=str(error), in_flight=in_flight)
        else:
            self._warn(node_id, now, "connection.failed", address=address, error=str(error))

    def closed(self, node_id: int, address: str, reason: object) -> None:
        """A connection ended with nothing in flight, or was closed by us."""
        _logger.debug("connection.closed", node_id=node_id, address=address, reason=str(reason))

    def timed_out(self, node_id: int, address: str, api: str, seconds: float, now: float) -> None:
        """A request got no answer in time."""
        self._warn(node_id, now, "request.timed_out", address=address, api=api, seconds=round(seconds, 3))

    def refused_api_versions(self, node_id: int, error: BaseException, now: float) -> None:
        """The broker refused or failed the request for its API versions."""
        self._warn(node_id, now, "connection.api_versions", error=str(error))

    def refused_authentication(self, node_id: int, error: BaseException, now: float) -> None:
        """The broker refused the credentials."""
        self._limited.log(node_id, now, logging.ERROR, "connection.authentication", node_id=node_id, error=str(error))

    def violated_protocol(self, node_id: int, address: str, error: BaseException, now: float) -> None:
        """The broker sent bytes that the protocol does not allow."""
        fields = {"node_id": node_id, "address": address, "error": str(error)}
        self._limited.log(node_id, now, logging.ERROR, "protocol.violation", **fields)

    def callback_failed(self, api: str) -> None:
        """A callback raised; call it in the ``except`` block."""
        _logger.error("request.callback_failed", api=api, exc_info=True)

    # internals

    def _warn(self, node_id: int, now: float, event: str, **fields: object) -> None:
        self._limited.log(node_id, now, logging.WARNING, event, node_id=node_id, **fields)
