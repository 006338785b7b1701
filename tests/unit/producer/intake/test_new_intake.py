"""The intake that a configuration gets."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy import ProducerConfig, json_serializer
from aiokafkapy.producer.intake.intercepted_intake import InterceptedIntake
from aiokafkapy.producer.intake.new_intake import new_intake, new_interceptors
from aiokafkapy.producer.intake.partitioners import DefaultPartitioner, RoundRobinPartitioner
from aiokafkapy.producer.intake.record_intake import RecordIntake

from ..intake_harness import not_started


def intake(interceptors: tuple[Any, ...] = (), **options: Any) -> RecordIntake:
    config = ProducerConfig(bootstrap_servers="h:1", interceptors=interceptors, **options)
    return new_intake(config, new_interceptors(config), not_started)


def test_interceptors_come_first_and_cost_nothing_where_there_are_none() -> None:
    assert type(intake()) is RecordIntake
    assert type(intake((object(),))) is InterceptedIntake


def test_values_are_plain_unless_a_serializer_or_a_partitioner_is_to_see_them() -> None:
    assert intake().takes_plain_values
    assert not intake(value_serializer=json_serializer).takes_plain_values
    assert not intake(partitioner=RoundRobinPartitioner()).takes_plain_values


@pytest.mark.parametrize(("name", "is_default"), [(None, True), ("murmur2_random", True), ("consistent", False)])
def test_a_partitioner_may_have_a_name(name: str | None, is_default: bool) -> None:
    assert (type(intake(partitioner=name).partitioner) is DefaultPartitioner) is is_default


def test_the_round_robin_of_java_has_a_name_too() -> None:
    assert type(intake(partitioner="round_robin").partitioner) is RoundRobinPartitioner
    assert not intake(partitioner="round_robin").takes_plain_values
