"""The assignors: everything is assigned once, evenly, and stays where it was."""

from __future__ import annotations

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.coordination.assignors import (
    ASSIGNORS,
    Assignment,
    TopicIdPartition,
    range_assignor,
    uniform_assignor,
)

A, B, C = (UUID(int=number) for number in (1, 2, 3))


def of(topic_id: UUID, *partitions: int) -> Assignment:
    return frozenset(TopicIdPartition(topic_id, each) for each in partitions)


def test_uniform_gives_everybody_as_much() -> None:
    assigned = uniform_assignor({"m": {A, B}, "n": {A, B}, "o": {A, B}}, {A: 4, B: 3}, {})
    assert sorted(map(len, assigned.values())) == [2, 2, 3]


def test_range_gives_neighbours_and_the_same_numbers_of_each_topic() -> None:
    assigned = range_assignor({"m": {A, B}, "n": {A, B}}, {A: 5, B: 5}, {})
    assert assigned == {"m": of(A, 0, 1, 2) | of(B, 0, 1, 2), "n": of(A, 3, 4) | of(B, 3, 4)}


def test_range_gives_the_same_numbers_again_when_a_member_is_gone() -> None:
    subscriptions = {"m": {A, B}, "n": {A, B}, "o": {A, B}}
    before = range_assignor(subscriptions, {A: 7, B: 7}, {})
    del subscriptions["m"]
    for partitions in range_assignor(subscriptions, {A: 7, B: 7}, before).values():
        assert {each.partition for each in partitions if each.topic_id == A} == {
            each.partition for each in partitions if each.topic_id == B
        }


def test_a_new_member_takes_only_its_share() -> None:
    before = {"m": of(A, 0, 1, 2), "n": of(A, 3, 4, 5)}
    assigned = uniform_assignor({"m": {A}, "n": {A}, "o": {A}}, {A: 6}, before)
    assert assigned["m"] < before["m"]
    assert assigned["n"] < before["n"]
    assert len(assigned["o"]) == 2


def test_members_with_one_more_keep_it() -> None:
    before = {"m": of(A, 0), "n": of(A, 1, 2)}
    assert uniform_assignor({"m": {A}, "n": {A}}, {A: 3}, before) == before


def test_members_of_other_topics_are_levelled_where_they_can_be() -> None:
    subscriptions = {"m": {A}, "n": {A, B}, "o": {B}}
    assigned = uniform_assignor(subscriptions, {A: 4, B: 2}, {"n": of(A, 0, 1, 2, 3) | of(B, 0, 1)})
    assert {member: len(partitions) for member, partitions in assigned.items()} == {"m": 2, "n": 2, "o": 2}


def test_a_topic_that_is_gone_or_unwanted_is_taken_away() -> None:
    before = {"m": of(A, 0, 1) | of(B, 0) | of(C, 0)}
    for assignor in ASSIGNORS.values():
        assert assignor({"m": {A, C}}, {A: 1}, before) == {"m": of(A, 0)}
        assert assignor({}, {A: 1}, before) == {}


TOPICS = st.dictionaries(st.sampled_from([A, B, C]), st.integers(1, 6), min_size=1)
MEMBERS = st.dictionaries(st.sampled_from("mnopq"), st.frozensets(st.sampled_from([A, B, C])), min_size=1)


@pytest.mark.parametrize("name", list(ASSIGNORS))
@given(counts=TOPICS, first=MEMBERS, second=MEMBERS)
def test_every_partition_has_one_subscriber_and_a_second_time_changes_nothing(
    name: str, counts: dict[UUID, int], first: dict[str, frozenset[UUID]], second: dict[str, frozenset[UUID]]
) -> None:
    assignor = ASSIGNORS[name]
    before: dict[str, Assignment] = {}
    for members in (first, second, second):
        subscriptions = {member: frozenset(topics & counts.keys()) for member, topics in members.items()}
        wanted = set().union(*subscriptions.values())
        assigned = assignor(subscriptions, {topic: counts[topic] for topic in counts if topic in wanted}, before)
        everything = [each for partitions in assigned.values() for each in partitions]
        assert sorted(everything) == sorted(TopicIdPartition(t, p) for t in wanted for p in range(counts[t]))
        assert assigned.keys() == members.keys()
        assert all({each.topic_id for each in assigned[member]} <= subscriptions[member] for member in members)
        if len(set(subscriptions.values())) == 1 and name == "uniform":
            sizes = [len(partitions) for partitions in assigned.values()]
            assert max(sizes) - min(sizes) <= 1
        last, before = before, assigned
    assert last == before
