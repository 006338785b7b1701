from __future__ import annotations

import math

import pytest

from aiokafkapy.cluster.isolated_topics import IsolatedTopics
from aiokafkapy.common import ExponentialBackoff


@pytest.fixture
def apart() -> IsolatedTopics:
    return IsolatedTopics(ExponentialBackoff(0.1, 1.0, jitter=0))


def test_without_suspects_nothing_is_asked_for(apart: IsolatedTopics) -> None:
    assert not apart
    assert apart.names == set()
    assert apart.next_at == math.inf
    assert not apart.next_group(0)


def test_several_topics_are_halved_until_each_is_alone(apart: IsolatedTopics) -> None:
    apart.suspect({"a", "b", "c", "d"}, 0)
    assert apart.next_group(0) == {"a", "b"}
    apart.suspect({"a", "b"}, 0)
    assert apart.next_group(0) == {"c", "d"}
    apart.settle(["c", "d"])
    assert [apart.next_group(0), apart.names] == [{"a"}, {"a", "b"}]
    apart.suspect({"a"}, 0)
    assert apart.next_group(0) == {"b"}


def test_a_topic_that_is_alone_is_asked_for_more_and_more_seldom(apart: IsolatedTopics) -> None:
    now = 0.0
    for delay in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0):
        apart.suspect({"a"}, now)
        assert apart.next_at == now + delay
        assert not apart.next_group(now + delay - 0.01)
        now += delay
        assert apart.next_group(now) == {"a"}
    assert apart.attempts("a") == 6
    assert apart.attempts("b") == 0


def test_a_topic_that_was_named_is_a_suspect_no_longer(apart: IsolatedTopics) -> None:
    apart.suspect({"a", "b"}, 0)
    apart.settle(["a", "x"])
    assert apart.names == {"b"}
    apart.settle(["b"])
    assert not apart


def test_a_cut_request_for_others_makes_new_groups_beside_the_old(apart: IsolatedTopics) -> None:
    apart.suspect({"a"}, 0)
    apart.suspect({"a", "b"}, 0)
    assert not apart.next_group(0)
    assert apart.next_at == 0.1
    assert apart.names == {"a", "b"}
    assert apart.attempts("a") == 1
