"""The pause between two transactions: it grows where a broker keeps records back, and shrinks again."""

from __future__ import annotations

import random

from aiokafkapy.common import TopicPartition
from aiokafkapy.producer.identity.marker_pause import LONGEST, SHORTEST, MarkerPause
from aiokafkapy.producer.identity.transaction import Transaction

A = TopicPartition("t", 0)


def after(markers: float, *, quickest: float = 0.001, transactions: int = 2_000) -> tuple[float, float]:
    """The pause, and the share of records kept back, with a broker whose markers need about so long."""
    pause, chance, kept = MarkerPause(), random.Random(5), 0
    for _ in range(transactions):
        is_kept = chance.uniform(0.7, 1.3) * markers > pause.seconds
        kept += is_kept
        pause.observe(quickest * chance.uniform(1, 1.5) + 0.02 * is_kept)
    return pause.seconds, kept / transactions


def test_it_is_about_as_long_as_the_markers_need() -> None:
    for markers in (0.001, 0.002, 0.005):
        pause, kept = after(markers)
        assert markers * 0.7 < pause < markers * 2
        assert kept < 0.05
    assert after(0.001, transactions=100)[0] < 0.002


def test_it_has_bounds() -> None:
    assert after(0.0)[0] == SHORTEST
    pause = MarkerPause()
    pause.observe(0.001)
    for _ in range(20):
        pause.observe(0.021)
    assert pause.seconds == LONGEST


def test_a_slow_broker_is_none_that_keeps_records() -> None:
    assert after(0.0, quickest=0.03)[0] == SHORTEST


def test_brokers_that_become_slower_are_learned() -> None:
    pause = MarkerPause()
    for _ in range(100):
        pause.observe(0.001)
    for _ in range(1_000):
        pause.observe(0.04)
    assert pause.seconds < 0.002


def test_only_version_2_waits_and_only_until_it_is_released() -> None:
    asked: list[bool] = []
    transaction = Transaction("name", lambda: asked.append(True))
    transaction.initialize()
    transaction.initialized()
    transaction.version, transaction.is_held = 2, True
    transaction.begin()
    assert transaction.must_wait(A)
    transaction.is_held = False
    assert not transaction.must_wait(A)
    transaction.is_held = True
    assert not transaction.must_wait(A)  # the broker has taken it already
    assert asked == []
