"""The cluster's features and the levels they are finalized at, which administrators may change (KIP-584).

Owns the levels; the parts that a feature changes ask here. Knows no request. Kafka's counterpart is
``FeatureControlManager``. A broker that emulates a release has that release's features, which only administrators
look at; the features here have at most the levels of the release.

Rules: a level above 0 that is taken back must be taken back outright (``UpgradeType``); all changes of a request are
made, or none. A restart forgets the levels: the options give the initial ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from ..errors import ConfigurationError, InvalidUpdateVersionError
from .config import BrokerConfig
from .emulation.model import Emulation, FeatureLevels

__all__ = ["GROUP_VERSION", "SHARE_VERSION", "TRANSACTION_VERSION", "Features", "UpgradeType", "config_as"]

GROUP_VERSION: Final = "group.version"
SHARE_VERSION: Final = "share.version"
TRANSACTION_VERSION: Final = "transaction.version"
_OWN: Final[Mapping[str, FeatureLevels]] = {
    GROUP_VERSION: FeatureLevels(0, 1, 1),
    SHARE_VERSION: FeatureLevels(0, 1, 1),
    TRANSACTION_VERSION: FeatureLevels(0, 2, 2),
}
"""The features by name, without an emulation."""
_OPTIONS: Final[Mapping[str, str]] = {
    GROUP_VERSION: "group_version",
    SHARE_VERSION: "share_version",
    TRANSACTION_VERSION: "transaction_version",
}
"""The broker's options that give the initial levels."""


class UpgradeType(IntEnum):
    """The changes that an administrator agrees to."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


class Features:
    """``features[GROUP_VERSION]`` is the level that it is finalized at, 0 when it is not or is unknown."""

    def __init__(self, config: BrokerConfig, emulation: Emulation | None = None) -> None:
        self.supported: Mapping[str, FeatureLevels] = _OWN if emulation is None else emulation.features
        """The levels that this broker has, by name."""
        wanted: dict[str, int] = {name: getattr(config, option) for name, option in _OPTIONS.items()}
        self._levels = {name: wanted.get(name, levels.level) for name, levels in self.supported.items()}
        self.epoch = 0
        """Grows with each change."""

    def __getitem__(self, name: str) -> int:
        return self._levels.get(name, 0)

    def update(self, changes: Mapping[str, tuple[int, UpgradeType]], *, validate_only: bool = False) -> None:
        """Finalize features at other levels. InvalidUpdateVersionError; then nothing has changed."""
        for name, (level, upgrade_type) in changes.items():
            self._check(name, level, upgrade_type)
        levels = {name: level for name, (level, _) in changes.items()}
        if not validate_only and any(self._levels[name] != level for name, level in levels.items()):
            self._levels.update(levels)
            self.epoch += 1

    def _check(self, name: str, level: int, upgrade_type: UpgradeType) -> None:
        if name not in self.supported:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. "
                f"Controller does not support this feature: those that it has are {', '.join(self.supported)}."
            )
        lowest, highest, _ = self.supported[name]
        if not lowest <= level <= highest:
            raise InvalidUpdateVersionError(
                f"Invalid update version {level} for feature {name}. "
                f"Local controller only supports versions {lowest}-{highest}"
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


def config_as(emulation: Emulation, given: Mapping[str, object]) -> BrokerConfig:
    """The options, with the levels of features in a new cluster of the emulated broker; ConfigurationError for a level
    that it does not have.
    """
    has = {_OPTIONS[name]: emulation.features.get(name, FeatureLevels(0, 0, 0)) for name in _OPTIONS}
    if not has["transaction_version"].highest:  # without the feature, transactions are of version 1
        has["transaction_version"] = FeatureLevels(1, 1, 1)
    config = BrokerConfig.of(**{**{option: levels.level for option, levels in has.items()}, **given})
    for option, levels in has.items():
        level = getattr(config, option)
        if level > levels.highest:
            raise ConfigurationError(
                f"{option}={level}: {emulation.name}, which is emulated, has it up to {levels.highest}"
            )
    return config
