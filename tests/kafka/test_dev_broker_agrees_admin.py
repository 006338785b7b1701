"""The dev broker and real Kafka on the requests of administrators: the codes that tools act upon."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.testing import ApacheKafka
from tests.kafka.agreement import Scenario, all_is_heard, answers_of_both, batch, create, produce
from tests.raw_client import RawClient

SET, DELETE, APPEND = 0, 1, 2
TOPIC, CLIENT_METRICS, GROUP = 2, 16, 32


async def elections(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    told = []
    for election_type, name, index in (
        (0, topic, 0),
        (1, topic, 0),
        (0, topic, 9),
        (1, f"{topic}-none", 0),
        (5, topic, 0),
    ):
        wanted = [{"topic": name, "partitions": [index]}]
        fields = {"election_type": election_type, "topic_partitions": wanted, "timeout": 10_000}
        body = await client.call(ApiKey.ELECT_LEADERS, 2, **fields)
        results = [int(each.error_code) for found in body.replica_election_results for each in found.partition_result]
        told.append((int(body.error_code), results))
    return told


async def reassignments(client: RawClient, topic: str) -> Any:
    await create(client, topic)
    told: list[Any] = []
    for index, replicas in ((0, [1]), (0, []), (0, [1, 1]), (0, [77]), (9, [1]), (0, None)):
        wanted = [{"name": topic, "partitions": [{"partition_index": index, "replicas": replicas}]}]
        body = await client.call(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, timeout=10_000, topics=wanted)
        results = [int(each.error_code) for found in body.responses for each in found.partitions]
        told.append((int(body.error_code), results))
    body = await client.call(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, timeout=10_000, topics=None)
    told.append((int(body.error_code), len(body.topics)))
    return told


async def log_directories(client: RawClient, topic: str) -> Any:
    await create(client, topic, 2)
    await produce(client, topic, batch())
    body = await client.call(ApiKey.DESCRIBE_LOG_DIRS, 4, topics=[{"topic": topic, "partitions": [0, 1]}])
    (found,) = [found for result in body.results for found in result.topics]
    told: list[Any] = [int(body.error_code)]
    told.append(sorted((each.partition_index, each.partition_size, each.offset_lag) for each in found.partitions))
    (path,) = [result.log_dir for result in body.results]
    for directory, index in (("/no/such/directory", 0), (path, 0)):
        dirs = [{"path": directory, "topics": [{"name": topic, "partitions": [index]}]}]
        moved = await client.call(ApiKey.ALTER_REPLICA_LOG_DIRS, 2, dirs=dirs)
        told.append([int(each.error_code) for result in moved.results for each in result.partitions])
    return told


async def client_quotas(client: RawClient, topic: str) -> Any:
    async def alter(parts: list[tuple[str, str | None]], key: str, value: float | None) -> int:
        entity = [{"entity_type": kind, "entity_name": name} for kind, name in parts]
        ops = [{"key": key, "value": value or 0.0, "remove": value is None}]
        body = await client.call(ApiKey.ALTER_CLIENT_QUOTAS, 1, entries=[{"entity": entity, "ops": ops}])
        return int(body.entries[0].error_code)

    async def found(*filters: tuple[str, int, str | None], strict: bool = False) -> Any:
        components = [{"entity_type": kind, "match_type": match, "match": name} for kind, match, name in filters]
        body = await client.call(ApiKey.DESCRIBE_CLIENT_QUOTAS, 1, components=components, strict=strict)
        if body.error_code:
            return int(body.error_code)
        return sorted(
            (
                sorted((part.entity_type, part.entity_name or "") for part in entry.entity),
                sorted((value.key, value.value) for value in entry.values),
            )
            for entry in body.entries
        )

    user: tuple[str, str | None] = ("user", topic)
    told: list[Any] = [
        await alter([user], "producer_byte_rate", 5.0),
        await alter([user, ("client-id", "c")], "consumer_byte_rate", 6.0),
        await alter([user, ("client-id", None)], "request_percentage", 7.0),
        await alter([user], "no_such_rate", 5.0),
        await alter([user], "producer_byte_rate", 0.0),
        await alter([("planet", "mars")], "producer_byte_rate", 5.0),
        await alter([], "producer_byte_rate", 5.0),
        await alter([("user", "")], "producer_byte_rate", 5.0),
    ]
    await all_is_heard(client, topic)
    told += [
        await found(("user", 0, topic)),
        await found(("user", 0, topic), strict=True),
        await found(("user", 0, topic), ("client-id", 1, None)),
        await found(("user", 0, topic), ("client-id", 2, None)),
        await found(("user", 0, topic), ("user", 0, topic)),
    ]
    told += [
        await alter([user], "producer_byte_rate", None),
        await alter([user, ("client-id", "c")], "consumer_byte_rate", None),
        await alter([user, ("client-id", None)], "request_percentage", None),
    ]
    await all_is_heard(client, topic)
    told.append(await found(("user", 0, topic)))
    return told


async def features(client: RawClient, topic: str) -> Any:
    """Only refused requests: the real node serves other tests."""
    told: list[Any] = []
    for name, level, upgrade_type in (
        ("no.such.feature", 1, 1),
        ("group.version", 9, 1),
        ("group.version", 0, 1),
        ("transaction.version", 1, 1),
        ("group.version", 1, 1),
    ):
        updates = [{"feature": name, "max_version_level": level, "upgrade_type": upgrade_type}]
        fields = {"timeout": 10_000, "feature_updates": updates, "validate_only": True}
        told.append(int((await client.call(ApiKey.UPDATE_FEATURES, 2, **fields)).error_code))
    software = {"client_software_name": "a", "client_software_version": "1"}
    body = await client.call(ApiKey.API_VERSIONS, 4, **software)
    ours = ("group.version", "transaction.version")
    told.append(sorted((each.name, each.max_version_level) for each in body.finalized_features if each.name in ours))
    return told


async def options_of_groups_and_subscriptions(client: RawClient, topic: str) -> Any:
    async def alter(kind: int, name: str, option: str, value: str | None, operation: int = SET) -> int:
        configs = [{"name": option, "config_operation": operation, "value": value}]
        resources = [{"resource_type": kind, "resource_name": name, "configs": configs}]
        body = await client.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources)
        return int(body.responses[0].error_code)

    async def value(kind: int, option: str) -> Any:
        resource = {"resource_type": kind, "resource_name": topic, "configuration_keys": [option]}
        (result,) = (await client.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=[resource])).results
        return int(result.error_code), [(each.value, each.config_source) for each in result.configs]

    session = "consumer.session.timeout.ms"
    told: list[Any] = [
        await alter(GROUP, topic, session, "50000"),
        await alter(GROUP, topic, session, "many"),
        await alter(GROUP, topic, session, "-1"),
        await alter(GROUP, topic, "no.such.option", "1"),
        await alter(GROUP, "", session, "50000"),
        await alter(CLIENT_METRICS, topic, "interval.ms", "1000"),
        await alter(CLIENT_METRICS, topic, "interval.ms", "5"),
        await alter(CLIENT_METRICS, topic, "no.such.option", "5"),
        await alter(CLIENT_METRICS, topic, "metrics", "a,b"),
        await alter(CLIENT_METRICS, topic, "metrics", "c", APPEND),
        await alter(99, topic, "metrics", "c"),
    ]
    await all_is_heard(client, topic)
    body = await client.call(ApiKey.LIST_CONFIG_RESOURCES, 1, resource_types=[GROUP, CLIENT_METRICS])
    told.append(sorted((each.resource_type, each.resource_name) for each in body.config_resources))
    told += [
        await value(GROUP, session),
        await value(CLIENT_METRICS, "interval.ms"),
        await value(CLIENT_METRICS, "metrics"),
    ]
    told.append(await alter(GROUP, topic, session, None, DELETE))
    for option in ("interval.ms", "metrics"):
        told.append(await alter(CLIENT_METRICS, topic, option, None, DELETE))
    await all_is_heard(client, topic)
    told.append(await value(GROUP, session))
    return told


async def the_quorum(client: RawClient, topic: str) -> Any:
    told = []
    for name, index in (("__cluster_metadata", 0), (topic, 0), ("__cluster_metadata", 5)):
        topics = [{"topic_name": name, "partitions": [{"partition_index": index}]}]
        body = await client.call(ApiKey.DESCRIBE_QUORUM, 2, topics=topics)
        codes = [int(each.error_code) for found in body.topics for each in found.partitions]
        voters = [len(each.current_voters) for found in body.topics for each in found.partitions]
        told.append((int(body.error_code), codes, voters))
    return told


SCENARIOS: list[Scenario] = [
    elections,
    reassignments,
    log_directories,
    client_quotas,
    features,
    options_of_groups_and_subscriptions,
    the_quorum,
]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.__name__)
async def test_the_dev_broker_answers_as_kafka_does(kafka: ApacheKafka, topic: str, scenario: Scenario) -> None:
    ours, kafkas = await answers_of_both(kafka, topic, scenario)
    assert ours == kafkas
