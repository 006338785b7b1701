"""Quotas of clients: the rates at which they may produce, fetch and use the broker, and their throttle times.

``ClientQuotaManager`` measures one kind of use, per client id or per entity that has a quota of its own, with
``SampledRate``, Kafka's sliding window of samples; ``ClientQuotas`` holds the three kinds a broker has. Pure: now is
passed in, nothing waits here. A client over the limit gets its answer at once with the throttle time in it, and its
connection is muted for that long (KIP-219): that is the Processor's work, not this module's.

Kafka's counterparts are ``ClientQuotaManager``, ``ClientRequestQuotaManager`` and ``Rate``.

Rules:

- the throttle time brings the average over the window back to the limit: (rate - limit) / limit * window;
- a client that rests for a whole window is forgotten, so memory is bounded by the clients active in one window.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable

from ..config import BrokerConfig

__all__ = ["ClientQuotaManager", "ClientQuotas", "SampledRate"]


class ClientQuotas:
    """The three quotas of a broker; None as a limit means that kind is not measured at all."""

    __slots__ = ("fetch", "has_limits", "produce", "request")

    def __init__(self, config: BrokerConfig) -> None:
        windows = (config.quota_window_num, float(config.quota_window_size_seconds))
        percentage = config.request_percentage
        self.produce = ClientQuotaManager(config.producer_byte_rate, *windows)
        self.fetch = ClientQuotaManager(config.consumer_byte_rate, *windows)
        # Request time is throttled for one window size at most, as in ClientRequestQuotaManager: a single slow request
        # must not shut its client out for minutes.
        self.request = ClientQuotaManager(
            None if percentage is None else percentage / 100, *windows, maximum_throttle=windows[1]
        )
        self.has_limits = any(
            limit is not None for limit in (config.producer_byte_rate, config.consumer_byte_rate, percentage)
        )


class ClientQuotaManager:
    """One kind of use, measured for each group of clients that share a limit."""

    __slots__ = ("_limit", "_maximum_throttle", "_rates", "_window_num", "_window_size")

    def __init__(
        self, limit: float | None, window_num: int, window_size: float, maximum_throttle: float = float("inf")
    ) -> None:
        self._limit = limit
        self._window_num = window_num
        self._window_size = window_size
        self._maximum_throttle = maximum_throttle
        self._rates: dict[Hashable, SampledRate] = {}

    def record(self, client: Hashable, amount: float, now: float, limit: float | None = None) -> float:
        """Add use (bytes, or seconds of work); returns the seconds to hold the client back, 0.0 when within bounds.

        ``client`` is a client id, or the name of several that share a quota; ``limit`` replaces the broker's own.
        """
        limit = self._limit if limit is None else limit
        if limit is None:
            return 0.0
        rate = self._rates.get(client)
        if rate is None:
            self._forget_resting(now)
            rate = self._rates[client] = SampledRate(self._window_num, self._window_size)
        rate.record(amount, now)
        return min(rate.throttle_time(limit, now), self._maximum_throttle)

    def _forget_resting(self, now: float) -> None:
        for client in [each for each, rate in self._rates.items() if rate.is_resting(now)]:
            del self._rates[client]


class SampledRate:
    """A rate per second over the last ``window_num`` windows of ``window_size`` seconds (Kafka's ``Rate``)."""

    __slots__ = ("_samples", "_window_num", "_window_size")

    def __init__(self, window_num: int, window_size: float) -> None:
        self._window_num = window_num
        self._window_size = window_size
        self._samples: deque[list[float]] = deque()  # [start of the window, amount in it], oldest first

    def record(self, amount: float, now: float) -> None:
        """Add to the current window."""
        self._expire(now)
        if not self._samples or now - self._samples[-1][0] >= self._window_size:
            self._samples.append([now, 0.0])
        self._samples[-1][1] += amount

    def rate(self, now: float) -> float:
        """Amount per second."""
        self._expire(now)
        return sum(amount for _, amount in self._samples) / self._span(now)

    def throttle_time(self, limit: float, now: float) -> float:
        """Seconds without use after which the rate is the limit again; 0.0 when it is not over it."""
        rate = self.rate(now)
        return (rate - limit) / limit * self._span(now) if rate > limit else 0.0

    def is_resting(self, now: float) -> bool:
        """Whether nothing was recorded in the whole span."""
        self._expire(now)
        return not self._samples

    def _span(self, now: float) -> float:
        # As Kafka's Rate: never less than all windows but one, so that a first burst is averaged and not punished.
        floor = (self._window_num - 1) * self._window_size
        return max(floor, now - self._samples[0][0]) if self._samples else floor

    def _expire(self, now: float) -> None:
        oldest = now - self._window_num * self._window_size
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()
