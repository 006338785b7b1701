"""Features: levels go up, and down when that is agreed to."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.features import GROUP_VERSION, TRANSACTION_VERSION, Features, UpgradeType
from aiokafkapy.errors import InvalidUpdateVersionError

UP, DOWN = UpgradeType.UPGRADE, UpgradeType.SAFE_DOWNGRADE


def test_features_begin_where_the_options_say_and_change_together() -> None:
    features = Features(BrokerConfig.of(transaction_version=1))
    assert (features[GROUP_VERSION], features[TRANSACTION_VERSION], features.epoch) == (1, 1, 0)
    features.update({TRANSACTION_VERSION: (2, UP), GROUP_VERSION: (0, DOWN)}, validate_only=True)
    assert features.epoch == 0
    features.update({TRANSACTION_VERSION: (2, UP), GROUP_VERSION: (0, DOWN)})
    assert (features[GROUP_VERSION], features[TRANSACTION_VERSION], features.epoch) == (0, 2, 1)
    features.update({GROUP_VERSION: (0, UP)})
    assert features.epoch == 1


@pytest.mark.parametrize(
    "change", [(GROUP_VERSION, 2, UP), (GROUP_VERSION, -1, DOWN), (GROUP_VERSION, 0, UP), ("metadata.version", 1, UP)]
)
def test_an_invalid_level_changes_nothing(change: tuple[str, int, UpgradeType]) -> None:
    features = Features(BrokerConfig.of(transaction_version=1))
    name, level, upgrade_type = change
    with pytest.raises(InvalidUpdateVersionError):
        features.update({TRANSACTION_VERSION: (2, UP), name: (level, upgrade_type)})
    assert features[TRANSACTION_VERSION] == 1
    with pytest.raises(InvalidUpdateVersionError):
        features.update({TRANSACTION_VERSION: (2, DOWN)})
