"""Quotas by the arithmetic of Kafka's Rate: windows of samples, throttle times that bring the average back."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.broker.network.client_quotas import ClientQuotaManager, ClientQuotas, SampledRate


def test_a_rate_is_averaged_over_all_windows_but_one_from_the_start() -> None:
    rate = SampledRate(11, 1.0)
    rate.record(1000, now=50.0)
    assert rate.rate(now=50.0) == 100.0


def test_a_rate_forgets_samples_older_than_its_windows() -> None:
    rate = SampledRate(3, 1.0)
    rate.record(10, now=0.0)
    rate.record(20, now=1.5)
    assert rate.rate(now=2.0) == 15.0
    assert rate.rate(now=3.0) == pytest.approx(10.0)
    assert rate.is_resting(now=4.5)
    assert rate.rate(now=4.5) == 0.0


def test_waiting_the_throttle_time_brings_the_rate_back_to_the_limit() -> None:
    rate = SampledRate(11, 1.0)
    rate.record(2000, now=0.0)
    throttle = rate.throttle_time(limit=190.0, now=0.0)
    assert throttle == pytest.approx((200 - 190) / 190 * 10)
    assert rate.throttle_time(limit=200.0, now=0.0) == 0.0
    assert rate.rate(now=10.0 + throttle) == pytest.approx(190.0)


def test_a_manager_without_a_limit_measures_nothing() -> None:
    manager = ClientQuotaManager(None, 11, 1.0)
    assert manager.record("a", 1e12, now=0.0) == 0.0
    assert not manager._rates


def test_clients_are_measured_one_by_one() -> None:
    manager = ClientQuotaManager(100.0, 11, 1.0)
    assert manager.record("greedy", 2000, now=0.0) == pytest.approx(10.0)
    assert manager.record("modest", 500, now=0.0) == 0.0


def test_a_client_that_rests_for_all_windows_is_forgotten() -> None:
    manager = ClientQuotaManager(100.0, 11, 1.0)
    for number in range(100):
        manager.record(f"client-{number}", 1, now=0.0)
    manager.record("late", 1, now=20.0)
    assert list(manager._rates) == ["late"]


def test_request_time_is_throttled_for_one_window_at_most() -> None:
    quotas = ClientQuotas(BrokerConfig.of(request_percentage=1, quota_window_size_seconds=1))
    assert quotas.request.record("slow", 60.0, now=0.0) == 1.0
    assert quotas.produce.record("slow", 1e12, now=0.0) == 0.0
    assert quotas.fetch.record("slow", 1e12, now=0.0) == 0.0
