"""The options of single groups, as administrators set them while the broker runs (KIP-848).

Owns them and their checks; the broker's own options are the defaults. Kafka's counterparts are ``GroupConfig`` and
``GroupConfigManager``. They are forgotten in a restart.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ...errors import InvalidConfigError, InvalidRequestError
from ..config import BrokerConfig

__all__ = ["GROUP_OPTIONS", "GroupConfigs"]

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
GROUP_OPTIONS: Final[Mapping[str, str]] = {
    HEARTBEAT_INTERVAL: "group_consumer_heartbeat_interval_ms",
    SESSION_TIMEOUT: "group_consumer_session_timeout_ms",
}
"""The broker's option that is the default of each."""


class GroupConfigs:
    """All groups' options; iterating gives the groups that have any."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._overrides: dict[str, dict[str, int]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._overrides)

    def value(self, group_id: str, name: str) -> int:
        """An option of a group, its own or the broker's."""
        default: int = getattr(self._broker, GROUP_OPTIONS[name])
        return self._overrides.get(group_id, {}).get(name, default)

    def overrides(self, group_id: str) -> Mapping[str, int]:
        """The options that were set for the group."""
        return self._overrides.get(group_id, {})

    def alter(self, group_id: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set options of a group, None for back to the default.

        Raises InvalidConfigError, or InvalidRequestError without a group's name, and has changed nothing.
        """
        if not group_id:
            raise InvalidRequestError("Default group resources are not allowed.")
        merged = dict(self._overrides.get(group_id, {}))
        for name, value in changes.items():
            if name not in GROUP_OPTIONS:
                raise InvalidConfigError(f"Unknown group config name: {name}")
            merged.pop(name, None)
            if value is not None:
                merged[name] = _positive(name, value)
        session = merged.get(SESSION_TIMEOUT, self._broker.group_consumer_session_timeout_ms)
        if session <= merged.get(HEARTBEAT_INTERVAL, self._broker.group_consumer_heartbeat_interval_ms):
            raise InvalidConfigError(f"{SESSION_TIMEOUT} must be greater than {HEARTBEAT_INTERVAL}")
        if validate_only:
            return
        self._overrides[group_id] = merged
        if not merged:
            del self._overrides[group_id]

    def session_timeout(self, group_id: str) -> float:
        """Seconds after which a member that is not heard of is removed."""
        return self.value(group_id, SESSION_TIMEOUT) / 1000

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Milliseconds between a member's heartbeats."""
        return self.value(group_id, HEARTBEAT_INTERVAL)


def _positive(name: str, value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1 or int(value) > 2**31 - 1:
        raise InvalidConfigError(f"Invalid value {value} for configuration {name}: Value must be at least 1")
    return int(value)
