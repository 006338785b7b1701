from __future__ import annotations

import math

import pytest

from aiokafkapy.cluster.update_times import UpdateTimes


def times(**fields: float) -> UpdateTimes:
    made = UpdateTimes()
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def test_an_update_is_due_at_the_beginning() -> None:
    assert UpdateTimes().is_due(0.0)
    assert not UpdateTimes().is_requested


@pytest.mark.parametrize(
    ("fields", "delay"),
    [
        ({"expires_at": 10.0}, 5.0),
        ({"expires_at": 5.0}, 0.0),
        ({"expires_at": 10.0, "need_full_update": True}, 0.0),
        ({"expires_at": 10.0, "need_partial_update": True}, 0.0),
        ({"expires_at": 10.0, "need_full_update": True, "allowed_at": 6.5}, 1.5),
        ({"expires_at": 5.0, "allowed_at": 7.0}, 2.0),
        ({"expires_at": 8.0, "allowed_at": 7.0}, 3.0),
        ({"expires_at": math.inf}, math.inf),
    ],
)
def test_an_update_is_due_when_it_is_wanted_or_stale_and_the_back_off_is_over(
    fields: dict[str, float], delay: float
) -> None:
    assert times(**fields).time_to_next(5.0) == delay
    assert times(**fields).is_due(5.0) == (delay == 0)
