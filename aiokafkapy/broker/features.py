"""The cluster's features and the levels they are finalized at, which administrators may change (KIP-584).

Owns the levels; those who act upon a feature ask here. Knows no request. Kafka's counterpart is
``FeatureControlManager``.

Rules: a level above 0 that is taken back must be taken back outright (``UpgradeType``); all changes of a request are
made, or none. Levels are forgotten in a restart: the options say what they begin with.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from ..errors import InvalidUpdateVersionError
from .config import BrokerConfig

__all__ = ["GROUP_VERSION", "HIGHEST", "SHARE_VERSION", "TRANSACTION_VERSION", "Features", "UpgradeType"]

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
TRANSACTION_VERSION: Final = "transaction.version"
HIGHEST: Final[Mapping[str, int]] = {GROUP_VERSION: 1, SHARE_VERSION: 1, TRANSACTION_VERSION: 2}
"""The features by name, with the highest level that this broker has."""


class UpgradeType(IntEnum):
    """The changes that an administrator agrees to."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Features:
    """``features[GROUP_VERSION]`` is the level that it is finalized at."""

    def __init__(self, config: BrokerConfig) -> None:
        self._levels: dict[str, int] = {
            GROUP_VERSION: config.group_version,
            SHARE_VERSION: config.share_version,
            TRANSACTION_VERSION: config.transaction_version,
        }
        self.epoch = 0
        """Grows with each change."""

    def __getitem__(self, name: str) -> int:
        return self._levels[name]

    def update(self, changes: Mapping[str, tuple[int, UpgradeType]], *, validate_only: bool = False) -> None:
        """Finalize features at other levels. InvalidUpdateVersionError, and nothing has changed."""
        for name, (level, upgrade_type) in changes.items():
            self._check(name, level, upgrade_type)
        levels = {name: level for name, (level, _) in changes.items()}
        if not validate_only and any(self._levels[name] != level for name, level in levels.items()):
            self._levels.update(levels)
            self.epoch += 1

    def _check(self, name: str, level: int, upgrade_type: UpgradeType) -> None:
        if name not in HIGHEST:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. "
                f"Controller does not support this feature: those that it has are {', '.join(HIGHEST)}."
            )
        if not 0 <= level <= HIGHEST[name]:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. "
                f"Local controller only supports versions 0-{HIGHEST[name]}"
            )
        if level < self._levels[name] and upgrade_type is UpgradeType.UPGRADE:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. Can't downgrade the version of this feature "
                "without setting the upgrade type to either safe or unsafe downgrade."
            )
        if level > self._levels[name] and upgrade_type is not UpgradeType.UPGRADE:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. Can't downgrade to a newer version."
            )
