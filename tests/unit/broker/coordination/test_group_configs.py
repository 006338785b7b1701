"""Options of single groups."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.coordination.group_configs import GroupConfigs
from aiokafkapy.errors import InvalidConfigError, InvalidRequestError

from .consumer_groups import ConsumerGroups

SESSION, INTERVAL = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"


def test_a_group_has_its_own_options_or_the_brokers() -> None:
    configs = GroupConfigs(BrokerConfig())
    configs.alter("g", {SESSION: "5000", INTERVAL: "100"}, validate_only=True)
    assert list(configs) == []
    configs.alter("g", {SESSION: "5000", INTERVAL: "100"})
    assert (configs.session_timeout("g"), configs.heartbeat_interval_ms("g")) == (5.0, 100)
    assert (configs.session_timeout("h"), configs.heartbeat_interval_ms("h")) == (45.0, 500)
    configs.alter("g", {SESSION: None, INTERVAL: None})
    assert list(configs) == []


@pytest.mark.parametrize(
    ("group", "changes"),
    [
        ("g", {"no.such": "1"}),
        ("g", {INTERVAL: "0"}),
        ("g", {INTERVAL: "many"}),
        ("g", {INTERVAL: "45000"}),
        ("g", {SESSION: "500"}),
    ],
)
def test_an_invalid_option_is_refused(group: str, changes: dict[str, str | None]) -> None:
    configs = GroupConfigs(BrokerConfig())
    with pytest.raises(InvalidConfigError):
        configs.alter(group, changes)
    assert list(configs) == []


def test_a_group_has_a_name() -> None:
    with pytest.raises(InvalidRequestError):
        GroupConfigs(BrokerConfig()).alter("", {INTERVAL: "100"})


def test_members_are_told_of_them_and_held_to_them() -> None:
    groups = ConsumerGroups()
    groups.coordinator.configs.alter("g", {SESSION: "5000", INTERVAL: "100"})
    assert groups.join_new("m").heartbeat_interval_ms == 100
    groups.scheduler.advance(5)
    assert groups.group.is_empty
