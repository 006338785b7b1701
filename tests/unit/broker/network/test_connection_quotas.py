"""Limits on the number of connections and their rate."""

from __future__ import annotations

import math

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.network.connection_quotas import ConnectionQuotas, TooManyConnectionsError


def test_without_limits_everybody_may_connect_at_once() -> None:
    quotas = ConnectionQuotas(BrokerConfig(), {})
    for _ in range(1000):
        assert quotas.accept_delay("L", now=0.0) == 0.0
        quotas.increase("L", "10.0.0.1", now=0.0)
    assert quotas.total == quotas._by_address["10.0.0.1"] == 1000


def test_one_address_has_its_limit_and_others_are_not_touched() -> None:
    quotas = ConnectionQuotas(BrokerConfig.of(max_connections_per_ip=2), {})
    quotas.increase("L", "a", now=0.0)
    quotas.increase("L", "a", now=0.0)
    with pytest.raises(TooManyConnectionsError, match=r"from a \(maximum 2\)"):
        quotas.increase("L", "a", now=0.0)
    quotas.increase("L", "b", now=0.0)
    assert (quotas.total, quotas._by_address["a"]) == (3, 2)
    quotas.decrease("L", "a")
    quotas.increase("L", "a", now=0.0)


@pytest.mark.parametrize("override", [0, 5])
def test_an_override_replaces_the_limit_in_either_direction(override: int) -> None:
    quotas = ConnectionQuotas(
        BrokerConfig.of(max_connections_per_ip=2, max_connections_per_ip_overrides={"special": override}), {}
    )
    for _ in range(override):
        quotas.increase("L", "special", now=0.0)
    with pytest.raises(TooManyConnectionsError):
        quotas.increase("L", "special", now=0.0)


@pytest.mark.parametrize("option", ["max_connections", "listener_max_connections"])
def test_a_full_listener_waits_until_a_connection_is_gone(option: str) -> None:
    quotas = ConnectionQuotas(BrokerConfig.of(**{option: 1}), {})
    freed: list[str] = []
    quotas.increase("L", "a", now=0.0)
    assert math.isinf(quotas.accept_delay("L", now=0.0))
    quotas.when_slot_is_free(lambda: freed.append("free"))
    quotas.decrease("L", "a")
    assert freed == ["free"]
    assert quotas.accept_delay("L", now=0.0) == 0.0
    quotas.increase("L", "a", now=0.0)
    quotas.decrease("L", "a")
    assert freed == ["free"]  # called once


def test_a_listener_limit_is_that_listeners_only() -> None:
    quotas = ConnectionQuotas(BrokerConfig.of(listener_max_connections=1), {})
    quotas.increase("L", "a", now=0.0)
    assert quotas.accept_delay("M", now=0.0) == 0.0


def test_connections_made_too_fast_are_delayed_until_the_rate_is_kept() -> None:
    quotas = ConnectionQuotas(BrokerConfig.of(max_connection_creation_rate=2), {})
    for _ in range(20):
        assert quotas.accept_delay("L", now=0.0) == 0.0
        quotas.increase("L", "a", now=0.0)
    quotas.increase("L", "a", now=0.0)
    delay = quotas.accept_delay("L", now=0.0)
    assert delay == pytest.approx(0.5)
    assert quotas.accept_delay("L", now=10.0 + delay) == 0.0


def test_counts_return_to_nothing() -> None:
    quotas = ConnectionQuotas(BrokerConfig(), {})
    quotas.increase("L", "a", now=0.0)
    quotas.decrease("L", "a")
    assert quotas.total == 0
    assert not quotas._by_address
    assert not quotas._by_listener
