"""The same odd calls on real Kafka and on the dev broker: each is accepted by both, or ends with the same error."""

from __future__ import annotations

from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import ApacheKafka
from tests.fuzz.calls import TOPICS, class_of, made

PLANS = [b"%d" % seed for seed in range(150)]
"""Some 375 calls."""
TOLD_BY_A_BROKER = {"RecordTooLargeError", "InvalidRecordError", "InvalidTimestampError"}


async def outcomes(bootstrap_servers: str) -> dict[bytes, list[str]]:
    return {plan: await made(plan, bootstrap_servers, class_of) for plan in PLANS}


async def test_odd_calls_end_alike_on_kafka_and_on_the_dev_broker(kafka: ApacheKafka) -> None:
    for name, config in TOPICS.items():
        await kafka.create_topic(name, 2, config={option.replace("_", "."): value for option, value in config.items()})
    try:
        expected = await outcomes(kafka.bootstrap_servers)
    finally:
        for name in TOPICS:
            await kafka.delete_topic(name)
    async with DevBroker(auto_create_topics_enable=False) as broker:
        for name, config in TOPICS.items():
            broker.create_topic(name, partitions=2, **config)
        found = await outcomes(broker.bootstrap_servers)
    assert {plan: (found[plan], expected[plan]) for plan in PLANS if found[plan] != expected[plan]} == {}
    told = [outcome for plan in expected.values() for outcome in plan]
    assert len(told) > 300
    assert set(told) >= TOLD_BY_A_BROKER | {"RecordMetadata", "MetadataTimeoutError", "TypeError", "ValueError"}
