"""The options of single groups, as administrators set them while the broker runs (KIP-848, KIP-932).

Owns them and their checks; the broker's own options are the defaults. Kafka's counterparts are ``GroupConfig`` and
``GroupConfigManager``. They are forgotten in a restart.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import Final

from ...errors import InvalidConfigError, InvalidRequestError, OffsetNotAvailableError
from ..config import BrokerConfig
from ..storage.log import PartitionLog

__all__ = ["GROUP_OPTIONS", "GroupConfigs"]

SESSION_TIMEOUT: Final = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL: Final = "consumer.heartbeat.interval.ms"
SHARE_SESSION_TIMEOUT: Final = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL: Final = "share.heartbeat.interval.ms"
SHARE_RECORD_LOCK: Final = "share.record.lock.duration.ms"
SHARE_AUTO_OFFSET_RESET: Final = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL: Final = "share.isolation.level"
GROUP_OPTIONS: Final[Mapping[str, str | None]] = {
    HEARTBEAT_INTERVAL: "group_consumer_heartbeat_interval_ms",
    SESSION_TIMEOUT: "group_consumer_session_timeout_ms",
    SHARE_AUTO_OFFSET_RESET: None,
    SHARE_HEARTBEAT_INTERVAL: "group_share_heartbeat_interval_ms",
    SHARE_ISOLATION_LEVEL: None,
    SHARE_RECORD_LOCK: "group_share_record_lock_duration_ms",
    SHARE_SESSION_TIMEOUT: "group_share_session_timeout_ms",
}
"""The broker's option that is the default of each, in milliseconds; None for an option with words as values."""

READ_COMMITTED: Final = "read_committed"
_WORDS: Final[Mapping[str, str]] = {SHARE_AUTO_OFFSET_RESET: "latest", SHARE_ISOLATION_LEVEL: "read_uncommitted"}
"""Defaults of the non-numeric options."""

_LONGER: Final = ((SESSION_TIMEOUT, HEARTBEAT_INTERVAL), (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL))

_DURATION: Final = re.compile(
    r"by_duration:P(?:(?P<days>\d+)D)?(?:T(?=\d)(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?"
    r"(?:(?P<seconds>\d+(?:\.\d{1,9})?)S)?)?",
    re.IGNORECASE,
)
"""ISO 8601, as ``java.time.Duration`` reads it, except for negative parts."""


class GroupConfigs:
    """All groups' options; iterating gives the groups that have any."""

    def __init__(self, broker: BrokerConfig) -> None:
        self._broker = broker
        self._overrides: dict[str, dict[str, int | str]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._overrides)

    def value(self, group_id: str, name: str) -> int | str:
        """An option of a group, its own or the broker's."""
        option = GROUP_OPTIONS[name]
        default: int | str = _WORDS[name] if option is None else getattr(self._broker, option)
        return self._overrides.get(group_id, {}).get(name, default)

    def overrides(self, group_id: str) -> Mapping[str, int | str]:
        """The options that were set for the group."""
        return self._overrides.get(group_id, {})

    def alter(self, group_id: str, changes: Mapping[str, str | None], *, validate_only: bool = False) -> None:
        """Set options of a group, None for back to the default.

        Raises InvalidConfigError, or InvalidRequestError without a group's name; then nothing has changed.
        """
        if not group_id:
            raise InvalidRequestError("Default group resources are not allowed.")
        merged = dict(self._overrides.get(group_id, {}))
        for name, value in changes.items():
            if name not in GROUP_OPTIONS:
                raise InvalidConfigError(f"Unknown group config name: {name}")
            merged.pop(name, None)
            if value is not None:
                merged[name] = _word(name, value) if name in _WORDS else _positive(name, value)
        for longer, shorter in _LONGER:
            if self._milliseconds(merged, longer) <= self._milliseconds(merged, shorter):
                raise InvalidConfigError(f"{longer} must be greater than {shorter}")
        if validate_only:
            return
        self._overrides[group_id] = merged
        if not merged:
            del self._overrides[group_id]

    # consumer groups

    def session_timeout(self, group_id: str) -> float:
        """Seconds after which a silent member is removed."""
        return self._milliseconds(self.overrides(group_id), SESSION_TIMEOUT) / 1000

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Milliseconds between a member's heartbeats."""
        return self._milliseconds(self.overrides(group_id), HEARTBEAT_INTERVAL)

    # share groups

    def share_session_timeout(self, group_id: str) -> float:
        """Seconds after which a silent member of a share group is removed."""
        return self._milliseconds(self.overrides(group_id), SHARE_SESSION_TIMEOUT) / 1000

    def share_heartbeat_interval_ms(self, group_id: str) -> int:
        """Milliseconds between the heartbeats of a member of a share group."""
        return self._milliseconds(self.overrides(group_id), SHARE_HEARTBEAT_INTERVAL)

    def share_record_lock_duration_ms(self, group_id: str) -> int:
        """Milliseconds that a record is with a member that does not acknowledge it."""
        return self._milliseconds(self.overrides(group_id), SHARE_RECORD_LOCK)

    def share_reads_committed(self, group_id: str) -> bool:
        """Whether a share group gets no records of transactions that are open or were aborted."""
        return self.value(group_id, SHARE_ISOLATION_LEVEL) == READ_COMMITTED

    def share_start_offset(self, group_id: str, log: PartitionLog, now_ms: int) -> int:
        """The offset at which a share group starts in a log that it has never read. OffsetNotAvailableError, as in
        Kafka, when all records are older than its ``by_duration``.
        """
        reset = str(self.value(group_id, SHARE_AUTO_OFFSET_RESET))
        if reset == "earliest":
            return log.start_offset
        duration = _duration(reset)
        if duration is None:
            return log.end_offset
        found = log.offset_for_time(now_ms - duration // timedelta(milliseconds=1))
        if found is None:
            raise OffsetNotAvailableError(f"There is no record of the last {duration} to begin at.")
        return found.offset

    # internals

    def _milliseconds(self, own: Mapping[str, int | str], name: str) -> int:
        return int(own.get(name, getattr(self._broker, GROUP_OPTIONS[name] or "")))


def _positive(name: str, value: str) -> int:
    if not value.strip().isdecimal() or int(value) < 1 or int(value) > 2**31 - 1:
        raise InvalidConfigError(f"Invalid value {value} for configuration {name}: Value must be at least 1")
    return int(value)


def _word(name: str, value: str) -> str:
    word = value.strip()
    if name == SHARE_ISOLATION_LEVEL and word.lower() in (READ_COMMITTED, _WORDS[name]):
        return word.lower()
    if name == SHARE_AUTO_OFFSET_RESET and (word in ("earliest", "latest") or _duration(word) is not None):
        return word
    raise InvalidConfigError(f"Invalid value {value} for configuration {name}")


def _duration(reset: str) -> timedelta | None:
    found = _DURATION.fullmatch(reset)
    parts = {} if found is None else {name: float(part) for name, part in found.groupdict().items() if part}
    try:
        return timedelta(**parts) if parts else None
    except OverflowError:  # Java's may be longer: any record is of the last three million years, too
        return timedelta.max
