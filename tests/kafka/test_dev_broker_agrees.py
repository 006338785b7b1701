"""The dev broker and real Kafka on batches, offsets, topics and classic groups agree in all that clients act upon."""

from __future__ import annotations

import pytest

from aiokafkapy.testing import ApacheKafka
from tests.kafka.agreement import Scenario, answers_of_both
from tests.kafka.scenarios import SCENARIOS


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_dev_broker_answers_as_kafka_does(kafka: ApacheKafka, topic: str, scenario: Scenario) -> None:
    ours, kafkas = await answers_of_both(kafka, topic, scenario)
    assert ours == kafkas
