"""Quotas of users and client ids: the most special one counts."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.entity_quotas import Entity, EntityQuotas, FoundQuota
from aiokafkapy.errors import InvalidRequestError

RATE = "producer_byte_rate"


def entity(**parts: str | None) -> Entity:
    return frozenset((name.replace("_", "-"), value) for name, value in parts.items())


def test_the_most_special_entity_counts() -> None:
    quotas = EntityQuotas()
    by_rank = [
        entity(client_id=None),
        entity(client_id="c"),
        entity(user=None),
        entity(user=None, client_id=None),
        entity(user=None, client_id="c"),
        entity(user="u"),
        entity(user="u", client_id=None),
        entity(user="u", client_id="c"),
    ]
    assert quotas.find(RATE, "u", "c") is None
    for limit, each in enumerate(by_rank, 1):
        quotas.alter(each, {RATE: limit})
        found = quotas.find(RATE, "u", "c")
        assert found is not None
        assert found.limit == limit
    assert quotas.find(RATE, "other", "c") == FoundQuota(5, entity(user="other", client_id="c"))
    assert quotas.find(RATE, "other", "d") == FoundQuota(4, entity(user="other", client_id="d"))
    assert quotas.find("consumer_byte_rate", "u", "c") is None


def test_a_quota_is_taken_away_and_with_its_last_one_the_entity() -> None:
    quotas = EntityQuotas()
    quotas.alter(entity(user="u"), {RATE: 5.0, "request_percentage": 10.0})
    quotas.alter(entity(user="u"), {RATE: None})
    assert list(quotas) == [(entity(user="u"), {"request_percentage": 10.0})]
    quotas.alter(entity(user="u"), {"request_percentage": None}, validate_only=True)
    assert len(list(quotas)) == 1
    quotas.alter(entity(user="u"), {"request_percentage": None})
    assert list(quotas) == []


@pytest.mark.parametrize(
    ("wrong", "changes"),
    [
        (entity(ip="::1"), {RATE: 1.0}),
        (entity(), {RATE: 1.0}),
        (entity(user=""), {RATE: 1.0}),
        (entity(user="u"), {"controller_mutation_rate": 1.0}),
        (entity(user="u"), {RATE: 0.0}),
        (entity(user="u"), {RATE: float("nan")}),
    ],
)
def test_an_invalid_quota_is_refused(wrong: Entity, changes: dict[str, float | None]) -> None:
    quotas = EntityQuotas()
    with pytest.raises(InvalidRequestError):
        quotas.alter(wrong, changes)
    assert list(quotas) == []
