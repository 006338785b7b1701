"""The topic admin: its requests, their nodes, and its results; the client is a list of answers."""

from __future__ import annotations

import asyncio
import datetime
import math
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafkapy.admin import ConfigEntry, ConfigSource, TopicAdmin
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import (
    ClusterAuthorizationFailedError,
    DisconnectedError,
    IllegalStateError,
    InvalidConfigError,
    InvalidPartitionsError,
    InvalidTopicError,
    KafkaError,
    KafkaTimeoutError,
    NotControllerError,
    SaslAuthenticationFailedError,
    TopicAlreadyExistsError,
    UnknownTopicOrPartitionError,
    UnsupportedVersionError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.messages import build_response
from tests.unit.virtual_time import on_virtual_time

from .fakes import Answer, admin_with, led


def created(code: int = 0) -> Answer:
    topics = [{"name": "t", "error_code": code, "error_message": "because" if code else None}]
    return lambda version: build_response(ApiKey.CREATE_TOPICS, version, topics=topics)


def deleted(code: int = 0) -> Answer:
    return lambda version: build_response(
        ApiKey.DELETE_TOPICS, version, responses=[{"name": "t", "topic_id": None, "error_code": code}]
    )


def added(code: int = 0) -> Answer:
    return lambda version: build_response(
        ApiKey.CREATE_PARTITIONS, version, results=[{"name": "t", "error_code": code}]
    )


def described(*leaders: int, code: int = 0, name: str = "t", **fields: Any) -> Answer:
    partitions = [
        {"partition_index": number, "leader_id": leader, "replica_nodes": [1, 2], "isr_nodes": [1]}
        for number, leader in enumerate(leaders)
    ]
    topics = [{"name": name, "error_code": code, "partitions": partitions[::-1], **fields}]
    return lambda version: build_response(ApiKey.METADATA, version, topics=topics)


async def test_creating_repeats_the_request_and_waits_for_the_leaders() -> None:
    admin, client = admin_with(created(), described(code=3), described(1, -1), described(1, 2))
    found = await admin.create("t", partitions=2, replication_factor=3, configs={"retention.ms": "-1"})
    assert [one.leader for one in found.partitions] == [1, 2]
    keys = [api_key for api_key, _, _ in client.requests]
    assert keys == [ApiKey.CREATE_TOPICS, ApiKey.METADATA, ApiKey.METADATA, ApiKey.METADATA]
    (topic,) = client.requests[0][1].topics
    assert (topic.name, topic.num_partitions, topic.replication_factor) == ("t", 2, 3)
    assert [(one.name, one.value) for one in topic.configs] == [("retention.ms", "-1")]


CONTROLLER = Node(2, "h", 2)


def know_controller(admin: TopicAdmin) -> None:
    answer = build_response(ApiKey.METADATA, 12, brokers=[{"node_id": 2, "host": "h", "port": 2}], controller_id=2)
    admin.metadata.bootstrap([("h", 1)])
    admin.metadata.update(admin.metadata.request_version, MetadataAnswer(answer), 0.0, is_partial=False)


async def test_changes_go_to_the_controller_and_questions_to_anybody() -> None:
    admin, client = admin_with(deleted(), described(1))
    know_controller(admin)
    await admin.delete("t")
    await admin.describe("t")
    assert [node for _, _, node in client.requests] == [CONTROLLER, None]


async def test_an_error_is_raised_as_it_is_with_the_brokers_words() -> None:
    admin, _ = admin_with(created(36))
    with pytest.raises(TopicAlreadyExistsError, match="t: because"):
        await admin.create("t")
    admin, _ = admin_with(described(1), added(37))
    with pytest.raises(InvalidPartitionsError):
        await admin.create_partitions("t", 1)
    admin, client = admin_with(deleted(3))
    with pytest.raises(UnknownTopicOrPartitionError):
        await admin.delete("t")
    assert len(client.requests) == 1


async def test_a_passing_failure_is_tried_again() -> None:
    admin, client = admin_with(
        created(NotControllerError.code or 0), DisconnectedError("gone"), created(), described(1)
    )
    await admin.create("t", partitions=1)
    assert [api_key for api_key, _, _ in client.requests].count(ApiKey.CREATE_TOPICS) == 3
    assert admin.metadata.is_update_requested


async def test_a_refusal_ends_a_call_although_it_fails_the_answer_too() -> None:
    admin, client = admin_with()

    def refused(version: int) -> Any:
        admin.metadata.set_fatal_error(SaslAuthenticationFailedError("wrong password"))
        client.has_changed.set()
        raise DisconnectedError("no connection to node 1")

    client.answers = [refused]
    with pytest.raises(SaslAuthenticationFailedError, match="wrong password"):
        await admin.create("t")


async def test_trying_again_ends_with_the_time_and_the_cause() -> None:
    admin, _ = admin_with(created(NotControllerError.code or 0))
    with pytest.raises(KafkaTimeoutError, match=r"no answer within 0.2 s: t: because"):
        await admin.create("t", timeout=0.2)  # of which the first answer needs a turn of the loop


@on_virtual_time
async def test_creating_and_waiting_for_leaders_have_one_time_out() -> None:
    admin, client = admin_with(created(), described(-1))
    client.delays = [1.5]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    with pytest.raises(
        KafkaTimeoutError, match=r"no answer within 2 s: t: some of its 1 partitions have no leader yet"
    ):
        await admin.create("t", timeout=2)
    assert loop.time() - begun == pytest.approx(2)


@pytest.mark.parametrize(("timeout", "attempt"), [(30, 10), (300, 30)])
@on_virtual_time
async def test_a_broker_that_hangs_leaves_time_to_ask_another(timeout: float, attempt: float) -> None:
    """A third of the time-out, but no more than a request may take."""
    admin, client = admin_with(described(1))
    client.delays = [math.inf]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await admin.describe("t", timeout=timeout)
    assert loop.time() - begun == pytest.approx(attempt)
    assert len(client.requests) == 2


@on_virtual_time
async def test_a_change_that_the_controller_does_not_answer_goes_to_any_broker() -> None:
    admin, client = admin_with(created(), described(1))
    know_controller(admin)
    client.delays = [math.inf]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    await admin.create("t", timeout=30)
    assert loop.time() - begun == pytest.approx(15)
    assert [node for _, _, node in client.requests] == [CONTROLLER, None, None]


@pytest.mark.parametrize("timeout", [30 * 86_400, math.inf])
async def test_a_time_out_of_a_month_is_the_longest_that_a_request_has(timeout: float) -> None:
    admin, client = admin_with(created(), described(1))
    await admin.create("t", timeout=timeout)
    assert client.requests[0][1].timeout == datetime.timedelta(milliseconds=2**31 - 1)


async def test_more_partitions_are_asked_for_by_their_total() -> None:
    admin, client = admin_with(described(1), added(), described(1, 1, 1))
    found = await admin.create_partitions("t", 3)
    assert len(found.partitions) == 3
    (topic,) = client.requests[1][1].topics
    assert (topic.name, topic.count, topic.assignments) == ("t", 3, None)


async def test_only_new_partitions_are_waited_for() -> None:
    admin, client = admin_with(described(1, -1), added(), described(1, -1, -1), described(1, -1, 2))
    found = await admin.create_partitions("t", 3)
    assert [one.leader for one in found.partitions] == [1, -1, 2]
    assert len(client.requests) == 4


@on_virtual_time
async def test_all_steps_of_adding_partitions_have_one_time_out() -> None:
    admin, client = admin_with(described(1), added(), described(1))
    client.delays = [1, 0.5]
    begun = asyncio.get_running_loop().time()
    with pytest.raises(KafkaTimeoutError):
        await admin.create_partitions("t", 2, timeout=2)
    assert asyncio.get_running_loop().time() - begun == pytest.approx(2)


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda admin: admin.create("t", partitions="3"), TypeError, "partitions is a str, not an int"),
        (lambda admin: admin.create("t", partitions=True), TypeError, "partitions is a bool, not an int"),
        (lambda admin: admin.create("t", partitions=2**31), ValueError, "partitions=2147483648: write a number up to"),
        (lambda admin: admin.create("t", replication_factor=2**15), ValueError, "replication_factor=32768: write"),
        (lambda admin: admin.create_partitions("t", 1.5), TypeError, "total is a float, not an int"),
        (lambda admin: admin.describe_existing("orders"), TypeError, "names='orders': give a list of names"),
        (lambda admin: admin.describe("t", timeout=float("nan")), ValueError, "timeout is nan"),
        (lambda admin: admin.delete("t", timeout="1"), TypeError, "timeout is a str, not a number of seconds"),
    ],
)
async def test_a_wrong_argument_is_named_and_nothing_is_sent(
    call: Callable[[TopicAdmin], Awaitable[object]], kind: type[Exception], words: str
) -> None:
    admin, client = admin_with()
    with pytest.raises(kind, match=words):
        await call(admin)
    assert client.requests == []


async def test_a_closed_admin_says_so() -> None:
    admin, _ = admin_with()
    await admin.close()
    with pytest.raises(IllegalStateError, match=r"^the admin is closed$"):
        await admin.ping()


async def test_a_description_has_partitions_in_order() -> None:
    admin, _ = admin_with(described(1, 2, -1, is_internal=True))
    found = await admin.describe("t")
    assert [(one.partition, one.leader) for one in found.partitions] == [(0, 1), (1, 2), (2, -1)]
    assert found.partitions[0].replicas == (1, 2)
    assert found.is_internal


async def test_a_name_that_no_topic_has_is_refused_before_it_is_sent() -> None:
    """The locale C turns the caf\u00e9 of a command line into a name that no request can hold."""
    admin, client = admin_with()
    calls: list[Callable[[str], Awaitable[object]]] = [
        admin.describe,
        admin.create,
        admin.delete,
        admin.alter_configs,
        lambda name: admin.create_partitions(name, 2),
        lambda name: admin.describe_configs([name]),
        lambda name: admin.delete_records({TopicPartition(name, 0): 1}),
    ]
    for call in calls:
        with pytest.raises(InvalidTopicError, match="not a valid name of a topic"):
            await call("caf\udcc3\udca9")
    assert client.requests == []


async def test_describing_or_listing_makes_no_topic() -> None:
    admin, client = admin_with(described(1))
    await admin.describe("t")
    await admin.list_topics()
    assert [body.allow_auto_topic_creation for _, body, _ in client.requests] == [False, False]
    assert client.requests[1][1].topics is None


async def test_only_the_topics_own_options_are_its_configs() -> None:
    def answer(version: int) -> Any:
        configs = [
            {"name": "retention.ms", "value": "-1", "config_source": 1},
            {"name": "segment.bytes", "value": "1", "config_source": 5},
            {"name": "secret", "value": "x", "config_source": 1, "is_sensitive": True},
        ]
        return build_response(
            ApiKey.DESCRIBE_CONFIGS, version, results=[{"resource_type": 2, "resource_name": "t", "configs": configs}]
        )

    admin, _ = admin_with(answer)
    assert await admin.configs("t") == {"retention.ms": "-1", "secret": None}


async def test_an_admin_is_used_in_async_with() -> None:
    with pytest.raises(IllegalStateError, match="async with"):
        await TopicAdmin("localhost:1").list_topics()


async def test_only_topics_that_exist_are_described() -> None:
    def answer(version: int) -> Any:
        partitions = [{"partition_index": number, "leader_id": 1} for number in (1, 0)]
        topics = [
            {"name": "t", "error_code": 0, "partitions": partitions},
            {"name": "gone", "error_code": UnknownTopicOrPartitionError.code, "partitions": []},
        ]
        return build_response(ApiKey.METADATA, version, topics=topics)

    admin, client = admin_with(answer)
    found = await admin.describe_existing(["t", "gone"])
    assert {name: [one.partition for one in topic.partitions] for name, topic in found.items()} == {"t": [0, 1]}
    (_, request, _) = client.requests[0]
    assert [topic.name for topic in request.topics] == ["t", "gone"]
    assert not request.allow_auto_topic_creation


# options


def configs_of(*topics: str, code: int = 0) -> Answer:
    configs = [{"name": "retention.ms", "value": "5", "config_source": 5}]
    results = [
        {"resource_type": 2, "resource_name": name, "error_code": code, "configs": [] if code else configs}
        for name in topics
    ]
    return lambda version: build_response(ApiKey.DESCRIBE_CONFIGS, version, results=results)


def altered(code: int = 0) -> Answer:
    responses = [{"error_code": code, "error_message": None, "resource_type": 2, "resource_name": "t"}]
    return lambda version: build_response(ApiKey.INCREMENTAL_ALTER_CONFIGS, version, responses=responses)


async def test_the_options_of_several_topics_are_asked_for_at_once_and_each_once() -> None:
    admin, client = admin_with(configs_of("t", "u"))
    found = await admin.describe_configs(["t", "u", "t"])
    entry = ConfigEntry("retention.ms", "5", ConfigSource.DEFAULT_CONFIG)
    assert found == {"t": {"retention.ms": entry}, "u": {"retention.ms": entry}}
    ((_, body, _),) = client.requests
    assert [one.resource_name for one in body.resources] == ["t", "u"]
    assert await admin.describe_configs([]) == {}
    with pytest.raises(TypeError, match="list of names"):
        await admin.describe_configs("topic")


async def test_a_topic_whose_options_cannot_be_told_is_named() -> None:
    admin, client = admin_with(configs_of("gone", code=3))
    with pytest.raises(UnknownTopicOrPartitionError, match="gone"):
        await admin.describe_configs(["gone"])
    assert len(client.requests) == 1


async def test_options_are_changed_by_one_request() -> None:
    admin, client = admin_with(NotControllerError("moved"), altered())
    changes: dict[str, Any] = {"set": {"retention.ms": 1_000}, "delete": ["max.message.bytes"]}
    await admin.alter_configs("t", **changes, append={"cleanup.policy": ["compact"]}, validate_only=True)
    assert len(client.requests) == 2  # the first failed
    body = client.requests[1][1]
    assert body.validate_only
    (resource,) = body.resources
    assert [(one.name, one.config_operation, one.value) for one in resource.configs] == [
        ("retention.ms", 0, "1000"),
        ("cleanup.policy", 2, "compact"),
        ("max.message.bytes", 1, None),
    ]


async def test_a_refused_change_is_the_brokers_error() -> None:
    admin, client = admin_with(altered(InvalidConfigError.code or 0))
    with pytest.raises(InvalidConfigError, match="t: "):
        await admin.alter_configs("t", set={"nonsense": "1"})
    assert len(client.requests) == 1


async def test_a_broker_that_is_too_old_is_told_with_the_release_that_is_needed() -> None:
    admin, _ = admin_with(UnsupportedVersionError("the broker does not have INCREMENTAL_ALTER_CONFIGS"))
    with pytest.raises(UnsupportedVersionError, match=r"needs Kafka 2.3 \(KIP-339\) or later"):
        await admin.alter_configs("t", set={"retention.ms": 1})


async def test_options_of_a_new_topic_may_be_numbers() -> None:
    admin, client = admin_with(created(), described(1))
    await admin.create("t", configs={"retention.ms": -1, "preallocate": False})
    (topic,) = client.requests[0][1].topics
    assert [one.value for one in topic.configs] == ["-1", "false"]


# the cluster


def quorum(leader: int) -> Answer:
    topics = [{"topic_name": "__cluster_metadata", "partitions": [{"partition_index": 0, "leader_id": leader}]}]
    return lambda version: build_response(ApiKey.DESCRIBE_QUORUM, version, topics=topics)


async def test_a_cluster_is_described_with_its_nodes_in_order() -> None:
    admin, client = admin_with(led(), quorum(1))
    found = await admin.describe_cluster()
    assert found == ("c", Node(1, "h", 1), (Node(1, "h", 1), Node(2, "h", 2, "r2")))
    assert client.requests[0][1].topics == ()


@pytest.mark.parametrize("failure", [ClusterAuthorizationFailedError("no"), DisconnectedError("gone")])
async def test_a_cluster_is_described_without_a_controller_where_nobody_tells_it(failure: KafkaError) -> None:
    admin, client = admin_with(led(), failure)
    found = await admin.describe_cluster()
    assert (found.controller, len(found.nodes)) == (None, 2)
    assert len(client.requests) == 2


@on_virtual_time
async def test_a_controller_that_is_away_leaves_the_rest_in_time() -> None:
    admin, client = admin_with(led(), quorum(1))
    client.delays = [math.inf, math.inf, 4, math.inf]
    loop = asyncio.get_running_loop()
    begun = loop.time()
    assert (await admin.describe_cluster(15)).controller is None
    assert loop.time() - begun == pytest.approx(15)
