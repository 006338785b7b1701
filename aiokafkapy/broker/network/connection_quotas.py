"""Limits on the number of connections and on the rate at which they are made.

Counts connections of one node, in total, per listener and per remote address, and the rate at which they are created.
Pure: ``now`` is passed in, no socket is seen. Kafka's counterpart is ``ConnectionQuotas`` in ``SocketServer.scala``.

Rules, as there:
- total or listener full, or made too fast: the Acceptor waits (connections queue in the kernel's backlog);
- one address has too many: that connection is closed at once, ``TooManyConnectionsError``;
- an override for an address replaces the general per-address limit, in either direction.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping

from ..config import BrokerConfig
from .client_quotas import SampledRate

__all__ = ["ConnectionQuotas", "TooManyConnectionsError"]


class TooManyConnectionsError(Exception):
    """A remote address has reached its limit of connections. Never leaves the broker."""

    def __init__(self, address: str, limit: int) -> None:
        super().__init__(f"too many connections from {address} (maximum {limit})")
        self.address = address
        self.limit = limit


class ConnectionQuotas:
    """The counts; every ``increase`` has exactly one ``decrease``."""

    __slots__ = ("_by_address", "_by_listener", "_config", "_creation_rate", "_limits", "_slot_waiters", "total")

    def __init__(self, config: BrokerConfig, listener_limits: Mapping[str, int]) -> None:
        """``listener_limits`` has the limits of listeners whose own options set one."""
        self._config = config
        self._limits = listener_limits
        self.total = 0
        self._by_listener: Counter[str] = Counter()
        self._by_address: Counter[str] = Counter()
        self._creation_rate = SampledRate(config.quota_window_num, float(config.quota_window_size_seconds))
        self._slot_waiters: list[Callable[[], None]] = []

    def accept_delay(self, listener: str, now: float) -> float:
        """Seconds the listener's Acceptor must wait before it accepts: 0.0 now, inf until
        ``when_slot_is_free`` calls.
        """
        if self.total >= self._config.max_connections:
            return math.inf
        if self._by_listener[listener] >= self._limits.get(listener, self._config.listener_max_connections):
            return math.inf
        return self._creation_rate.throttle_time(self._config.max_connection_creation_rate, now)

    def increase(self, listener: str, address: str, now: float) -> None:
        """Count a connection just accepted; TooManyConnectionsError, and only its creation counted, if refused."""
        self._creation_rate.record(1, now)
        limit = self._config.max_connections_per_ip_overrides.get(address, self._config.max_connections_per_ip)
        if self._by_address[address] >= limit:
            raise TooManyConnectionsError(address, limit)
        self.total += 1
        self._by_listener[listener] += 1
        self._by_address[address] += 1

    def decrease(self, listener: str, address: str) -> None:
        """Count a connection out, and wake every Acceptor that waits for a slot."""
        self.total -= 1
        for counter, key in ((self._by_listener, listener), (self._by_address, address)):
            counter[key] -= 1
            if not counter[key]:
                del counter[key]
        waiters, self._slot_waiters = self._slot_waiters, []
        for waiter in waiters:
            waiter()

    def when_slot_is_free(self, callback: Callable[[], None]) -> None:
        """Call once, as soon as any connection is gone."""
        self._slot_waiters.append(callback)
