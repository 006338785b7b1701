"""The right that each API needs, and its answer without it, which harms no other topic or group."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.broker.security.authorizer import Authorizer
from aiokafkapy.protocol.api import ApiKey

from ..support import make_batch, topic_of
from .harness import Harness

TOPIC, GROUP, CLUSTER, TX = 29, 30, 31, 53
INVALID_REQUEST = 42
O, R = Operation, ResourceType  # noqa: E741
Right = tuple[Operation, ResourceType, str]


@pytest.fixture
def guarded(harness: Harness) -> Harness:
    """Two topics, ``t`` and ``u``, and User:alice, without any right."""
    harness.topics.create("u", 1)
    harness.connection = dataclasses.replace(harness.connection, principal="User:alice")
    allow(harness)
    return harness


def allow(harness: Harness, *rights: Right) -> None:
    """User:alice has these rights and no others."""
    harness.state.authorizer = Authorizer(
        bindings=[
            AclBinding(kind, name, PatternType.LITERAL, "User:alice", "127.0.0.1", operation, Permission.ALLOW)
            for operation, kind, name in rights
        ]
    )


def produce(harness: Harness) -> list[int]:
    data = [{"name": name, "partition_data": [{"index": 0, "records": make_batch()}]} for name in ("t", "u", "no")]
    body = harness.call(ApiKey.PRODUCE, 9, acks=1, topic_data=data)
    return [each.partition_responses[0].error_code for each in body.responses]


def fetch(harness: Harness) -> list[int]:
    partitions = [{"partition": 0, "partition_max_bytes": 100}]
    topics = [{"topic": name, "partitions": partitions} for name in ("t", "u", "no")]
    body = harness.call(ApiKey.FETCH, 11, max_bytes=1_000, min_bytes=0, topics=topics)
    return [each.partitions[0].error_code for each in body.responses]


def list_offsets(harness: Harness) -> list[int]:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "timestamp": -1}]} for name in ("t", "u", "no")]
    return [each.partitions[0].error_code for each in harness.call(ApiKey.LIST_OFFSETS, 7, topics=topics).topics]


def leader_epochs(harness: Harness) -> list[int]:
    topics = [{"topic": name, "partitions": [{"partition": 0}]} for name in ("t", "u", "no")]
    body = harness.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, 4, topics=topics)
    return [each.partitions[0].error_code for each in body.topics]


def delete_records(harness: Harness) -> list[int]:
    topics = [{"name": name, "partitions": [{"partition_index": 0, "offset": 0}]} for name in ("t", "u", "no")]
    return [each.partitions[0].error_code for each in harness.call(ApiKey.DELETE_RECORDS, 2, topics=topics).topics]


def metadata(harness: Harness) -> list[int]:
    topics = [{"name": name} for name in ("t", "u", "no")]
    body = harness.call(ApiKey.METADATA, 12, topics=topics, allow_auto_topic_creation=False)
    return [each.error_code for each in body.topics]


def topic_partitions(harness: Harness) -> list[int]:
    topics = [{"name": name} for name in ("no", "t", "u")]
    body = harness.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=topics, response_partition_limit=100)
    codes = {each.name: each.error_code for each in body.topics}
    return [codes[name] for name in ("t", "u", "no")]


def describe_configs(harness: Harness) -> list[int]:
    resources = [{"resource_type": 2, "resource_name": name, "configuration_keys": None} for name in ("t", "u", "no")]
    return [each.error_code for each in harness.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results]


def alter_configs(harness: Harness) -> list[int]:
    changes = [{"name": "retention.ms", "config_operation": 0, "value": "1000"}]
    resources = [{"resource_type": 2, "resource_name": name, "configs": changes} for name in ("t", "u", "no")]
    return [
        each.error_code for each in harness.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=resources).responses
    ]


def create_partitions(harness: Harness) -> list[int]:
    topics = [{"name": name, "count": 5, "assignments": None} for name in ("t", "u", "no")]
    return [each.error_code for each in harness.call(ApiKey.CREATE_PARTITIONS, 3, topics=topics).results]


def delete_topics(harness: Harness) -> list[int]:
    topics = [{"name": name} for name in ("t", "u", "no")]
    return [each.error_code for each in harness.call(ApiKey.DELETE_TOPICS, 6, topics=topics).responses]


@pytest.mark.parametrize(
    ("call", "right", "unknown"),
    [
        (produce, O.WRITE, 3),
        (fetch, O.READ, 3),
        (list_offsets, O.DESCRIBE, 3),
        (leader_epochs, O.DESCRIBE, 3),
        (delete_records, O.DELETE, 3),
        (metadata, O.DESCRIBE, 3),
        (topic_partitions, O.DESCRIBE, 3),
        (describe_configs, O.DESCRIBE_CONFIGS, 3),
        (alter_configs, O.ALTER_CONFIGS, 3),
        (create_partitions, O.ALTER, 3),
        (delete_topics, O.DELETE, 3),
    ],
)
async def test_a_topic_without_the_right_is_refused_and_no_other(
    guarded: Harness, call: Callable[[Harness], list[int]], right: Operation, unknown: int
) -> None:
    assert call(guarded) == [TOPIC, TOPIC, TOPIC], "an unknown topic is not told from one that is forbidden"
    others = [each for each in (O.READ, O.CREATE, O.WRITE, O.ALTER_CONFIGS) if each is not right]
    if right not in (O.DESCRIBE, O.DESCRIBE_CONFIGS):
        allow(guarded, *((other, R.TOPIC, "t") for other in others))
        assert call(guarded)[0] == TOPIC
    allow(guarded, (right, R.TOPIC, "t"), (right, R.TOPIC, "no"))
    assert call(guarded) == [0, TOPIC, unknown]


async def test_the_right_of_brokers_shows_the_epochs_of_every_topic(guarded: Harness) -> None:
    allow(guarded, (O.CLUSTER_ACTION, R.CLUSTER, "kafka-cluster"))
    assert leader_epochs(guarded) == [0, 0, 3]


@pytest.mark.parametrize(
    ("resource_type", "refusal", "right", "answer"),
    [
        (8, CLUSTER, (O.DESCRIBE_CONFIGS, R.CLUSTER, "kafka-cluster"), INVALID_REQUEST),
        (16, CLUSTER, (O.DESCRIBE_CONFIGS, R.CLUSTER, "kafka-cluster"), 0),
        (32, GROUP, (O.DESCRIBE_CONFIGS, R.GROUP, "1"), 0),
    ],
    ids=["broker logger", "client metrics", "group"],
)
async def test_options_need_the_right_to_see_them_even_if_the_resource_does_not_exist(
    guarded: Harness, resource_type: int, refusal: int, right: Right, answer: int
) -> None:
    def code() -> int:
        resources = [{"resource_type": resource_type, "resource_name": "1", "configuration_keys": None}]
        (result,) = guarded.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
        return int(result.error_code)

    assert code() == refusal
    allow(guarded, right)
    assert code() == answer


GROUP_CALLS: list[tuple[ApiKey, int, dict[str, Any], Operation]] = [
    (ApiKey.JOIN_GROUP, 5, {"group_id": "g", "member_id": "", "session_timeout": 10_000}, O.READ),
    (ApiKey.SYNC_GROUP, 3, {"group_id": "g", "member_id": "m"}, O.READ),
    (ApiKey.HEARTBEAT, 4, {"group_id": "g", "member_id": "m"}, O.READ),
    (ApiKey.LEAVE_GROUP, 2, {"group_id": "g", "member_id": "m"}, O.READ),
    (ApiKey.OFFSET_FETCH, 7, {"group_id": "g", "topics": None}, O.DESCRIBE),
    (ApiKey.OFFSET_DELETE, 0, {"group_id": "g"}, O.DELETE),
]


@pytest.mark.parametrize(("api", "version", "fields", "right"), GROUP_CALLS)
async def test_a_group_without_the_right_is_refused(
    guarded: Harness, api: ApiKey, version: int, fields: dict[str, Any], right: Operation
) -> None:
    node_id = guarded.coordinator_id("g")
    assert guarded.call(api, version, node_id=node_id, **fields).error_code == GROUP
    assert guarded.call(api, version, node_id=node_id % 3 + 1, **fields).error_code == GROUP, "before NOT_COORDINATOR"
    allow(guarded, (right, R.GROUP, "g"))
    answer = guarded.call(api, version, node_id=node_id, **fields)
    assert getattr(answer, "error_code", 0) != GROUP


async def test_groups_are_refused_one_by_one(guarded: Harness) -> None:
    groups = ["g", "h"]
    for group in groups:
        guarded.state.groups.offsets.commit(group, {})
    calls: list[tuple[ApiKey, int, dict[str, Any], str, Operation]] = [
        (ApiKey.DESCRIBE_GROUPS, 5, {"groups": groups}, "groups", O.DESCRIBE),
        (ApiKey.DELETE_GROUPS, 2, {"groups_names": groups}, "results", O.DELETE),
        (ApiKey.FIND_COORDINATOR, 4, {"coordinator_keys": groups, "key_type": 0}, "coordinators", O.DESCRIBE),
        (
            ApiKey.OFFSET_FETCH,
            8,
            {"groups": [{"group_id": group, "topics": None} for group in groups]},
            "groups",
            O.DESCRIBE,
        ),
    ]
    node_id = guarded.coordinator_id("g")
    for api, version, fields, results, right in calls:
        allow(guarded, (right, R.GROUP, "g"))
        body = guarded.call(api, version, node_id=node_id, **fields)
        codes = [int(each.error_code) for each in getattr(body, results)]
        assert codes[0] != GROUP
        assert codes[1] == GROUP


async def test_offsets_need_the_group_and_the_topic(guarded: Harness) -> None:
    node_id = guarded.coordinator_id("g")
    partitions = [{"partition_index": 0, "committed_offset": 4}]
    commit: dict[str, Any] = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "topics": [{"name": name, "partitions": partitions} for name in ("t", "u")],
    }

    def committed() -> list[int]:
        body = guarded.call(ApiKey.OFFSET_COMMIT, 8, node_id=node_id, **commit)
        return [each.partitions[0].error_code for each in body.topics]

    def fetched(topics: Any) -> list[tuple[str, int, int]]:
        body = guarded.call(ApiKey.OFFSET_FETCH, 7, node_id=node_id, group_id="g", topics=topics)
        found = [(each.name, each.partitions[0]) for each in body.topics]
        return [(name, int(each.error_code), each.committed_offset) for name, each in found]

    assert committed() == [GROUP, GROUP]
    allow(guarded, (O.READ, R.GROUP, "g"), (O.READ, R.TOPIC, "t"), (O.READ, R.TOPIC, "u"))
    assert committed() == [0, 0]
    allow(guarded, (O.READ, R.GROUP, "g"), (O.READ, R.TOPIC, "t"))
    assert committed() == [0, TOPIC]
    named = [{"name": name, "partition_indexes": [0]} for name in ("t", "u")]
    assert fetched(named) == [("t", 0, 4), ("u", TOPIC, -1)]
    assert fetched(None) == [("t", 0, 4)]


async def test_all_topics_are_those_that_may_be_seen(guarded: Harness) -> None:
    allow(guarded, (O.READ, R.TOPIC, "u"))
    assert [each.name for each in guarded.call(ApiKey.METADATA, 12, topics=None).topics] == ["u"]
    body = guarded.call(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, topics=[], response_partition_limit=100)
    assert [each.name for each in body.topics] == ["u"]


async def test_a_forbidden_topic_gives_no_id_for_its_name_and_no_name_for_its_id(guarded: Harness) -> None:
    topic_id = topic_of(guarded.topics).topic_id
    (by_name,) = guarded.call(ApiKey.METADATA, 12, topics=[{"name": "t"}]).topics
    assert (by_name.error_code, by_name.name, by_name.topic_id, by_name.partitions) == (TOPIC, "t", None, ())
    (by_id,) = guarded.call(ApiKey.METADATA, 12, topics=[{"name": None, "topic_id": topic_id}]).topics
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (TOPIC, None, topic_id)
    (deleted,) = guarded.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": topic_id}]).responses
    assert (deleted.error_code, deleted.name) == (TOPIC, None)
    allow(guarded, (O.DESCRIBE, R.TOPIC, "t"))
    (deleted,) = guarded.call(ApiKey.DELETE_TOPICS, 6, topics=[{"name": None, "topic_id": topic_id}]).responses
    assert (deleted.error_code, deleted.name) == (TOPIC, "t")


async def test_topics_are_made_with_the_right_on_the_cluster_or_on_their_name(guarded: Harness) -> None:
    def create(name: str) -> Any:
        return guarded.call(
            ApiKey.CREATE_TOPICS, 7, topics=[{"name": name, "num_partitions": 1, "replication_factor": 1}]
        ).topics[0]

    def create_by_metadata(name: str) -> int:
        return int(guarded.call(ApiKey.METADATA, 12, topics=[{"name": name}]).topics[0].error_code)

    assert create("a").error_code == TOPIC
    allow(guarded, (O.DESCRIBE, R.TOPIC, "*"))
    assert create_by_metadata("a") == TOPIC
    assert guarded.topics.get("a") is None
    allow(guarded, (O.CREATE, R.TOPIC, "a"))
    made = create("a")
    assert (made.error_code, made.num_partitions, made.configs) == (0, -1, None)
    assert create("b").error_code == TOPIC
    allow(guarded, (O.CREATE, R.CLUSTER, "kafka-cluster"), (O.DESCRIBE, R.TOPIC, "*"))
    assert create("b").error_code == 0
    assert create_by_metadata("c") == 0
    allow(guarded, (O.CREATE, R.TOPIC, "d"), (O.DESCRIBE_CONFIGS, R.TOPIC, "d"))
    made = create("d")
    assert (made.error_code, made.num_partitions) == (0, 1)
    assert made.configs


async def test_a_producer_id_needs_idempotent_write_or_any_topic_to_write(guarded: Harness) -> None:
    def code(transactional_id: str | None = None) -> int:
        return int(guarded.call(ApiKey.INIT_PRODUCER_ID, 4, transactional_id=transactional_id).error_code)

    assert code() == CLUSTER
    assert code("tx") == TX
    allow(guarded, (O.WRITE, R.TOPIC, "whatever"))
    assert code() == 0
    allow(guarded, (O.IDEMPOTENT_WRITE, R.CLUSTER, "kafka-cluster"))
    assert code() == 0
    allow(guarded, (O.WRITE, R.TRANSACTIONAL_ID, "tx"))
    assert code("tx") not in (0, TX)


async def test_a_transactional_id_needs_its_right(guarded: Harness) -> None:
    data = [{"name": "t", "partition_data": [{"index": 0, "records": make_batch()}]}]
    body = guarded.call(ApiKey.PRODUCE, 9, acks=-1, transactional_id="tx", topic_data=data)
    assert body.responses[0].partition_responses[0].error_code == TX
    for key_type, words in ((1, "DESCRIBE TRANSACTIONAL_ID 'tx'"), (2, "CLUSTER_ACTION CLUSTER 'kafka-cluster'")):
        (found,) = guarded.call(ApiKey.FIND_COORDINATOR, 6, coordinator_keys=["tx"], key_type=key_type).coordinators
        assert found.error_message == f"User:alice may not {words}"
    (found,) = guarded.call(ApiKey.FIND_COORDINATOR, 4, coordinator_keys=["tx"], key_type=1).coordinators
    assert (found.error_code, found.error_message) == (TX, "User:alice may not DESCRIBE TRANSACTIONAL_ID 'tx'")


async def test_partitions_of_a_transaction_need_rights_and_batches_of_them_those_of_a_broker(guarded: Harness) -> None:
    topics = [{"name": "t", "partitions": [0]}]
    node_id = guarded.coordinator_id("tx")
    own = {
        f"v3_and_below_{name}": value
        for name, value in {"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0, "topics": topics}.items()
    }
    batch = [{"transactional_id": "tx", "producer_id": 0, "producer_epoch": 0, "verify_only": True, "topics": topics}]

    def code() -> int:
        body = guarded.call(ApiKey.ADD_PARTITIONS_TO_TXN, 3, node_id=node_id, **own)
        return int(body.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

    def code_of_batch() -> int:
        body = guarded.call(ApiKey.ADD_PARTITIONS_TO_TXN, 5, node_id=node_id, transactions=batch)
        return int(body.error_code)

    assert (code(), code_of_batch()) == (TX, CLUSTER)
    allow(guarded, (O.WRITE, R.TRANSACTIONAL_ID, "tx"))
    assert code() == TOPIC
    allow(guarded, (O.WRITE, R.TRANSACTIONAL_ID, "tx"), (O.WRITE, R.TOPIC, "t"))
    assert (code() not in (0, TX, TOPIC), code_of_batch()) == (True, CLUSTER)  # nobody has the id yet
    allow(guarded, (O.CLUSTER_ACTION, R.CLUSTER, "kafka-cluster"))
    assert code_of_batch() == 0


async def test_a_brokers_options_need_a_right_on_the_cluster(guarded: Harness) -> None:
    resources = [{"resource_type": 4, "resource_name": "1", "configuration_keys": None}]
    (answer,) = guarded.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
    assert answer.error_code == CLUSTER
    changes = [{"resource_type": 4, "resource_name": "1"}]
    (answer,) = guarded.call(ApiKey.INCREMENTAL_ALTER_CONFIGS, 1, resources=changes).responses
    assert answer.error_code == CLUSTER
    allow(guarded, (O.DESCRIBE_CONFIGS, R.CLUSTER, "kafka-cluster"))
    (answer,) = guarded.call(ApiKey.DESCRIBE_CONFIGS, 4, resources=resources).results
    assert answer.error_code == 0


async def test_groups_are_listed_by_right(guarded: Harness) -> None:
    group = guarded.state.groups
    for name in ("g", "h"):
        node_id = guarded.coordinator_id(name)
        allow(guarded, (O.READ, R.GROUP, name))
        guarded.call(
            ApiKey.JOIN_GROUP,
            3,
            node_id=node_id,
            group_id=name,
            session_timeout=10_000,
            rebalance_timeout=10_000,
            protocol_type="consumer",
            protocols=[{"name": "range", "metadata": b""}],
        )
    assert {each.group_id for each in group} == {"g", "h"}

    def listed() -> set[str]:
        answers = [guarded.call(ApiKey.LIST_GROUPS, 4, node_id=node_id) for node_id in (1, 2, 3)]
        return {each.group_id for answer in answers for each in answer.groups}

    allow(guarded)
    assert listed() == set()
    allow(guarded, (O.DESCRIBE, R.GROUP, "h"))
    assert listed() == {"h"}
    allow(guarded, (O.DESCRIBE, R.CLUSTER, "kafka-cluster"))
    assert listed() == {"g", "h"}


async def test_authorized_operations_are_returned_on_request(guarded: Harness) -> None:
    allow(guarded, (O.WRITE, R.TOPIC, "t"), (O.DESCRIBE, R.CLUSTER, "kafka-cluster"), (O.ALL, R.GROUP, "g"))
    bits = 1 << O.WRITE | 1 << O.DESCRIBE
    asked: dict[str, Any] = {"topics": [{"name": "t"}], "include_topic_authorized_operations": True}
    body = guarded.call(ApiKey.METADATA, 10, **asked, include_cluster_authorized_operations=True)
    assert body.topics[0].topic_authorized_operations == bits
    assert body.cluster_authorized_operations == 1 << O.DESCRIBE
    body = guarded.call(ApiKey.METADATA, 10, topics=[{"name": "t"}])
    assert body.topics[0].topic_authorized_operations == body.cluster_authorized_operations == -(2**31)
    body = guarded.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    assert body.cluster_authorized_operations == 1 << O.DESCRIBE
    node_id = guarded.coordinator_id("g")
    allow(guarded)
    body = guarded.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    assert body.cluster_authorized_operations == 0
    guarded.state.authorizer = None
    body = guarded.call(ApiKey.DESCRIBE_CLUSTER, 1, include_cluster_authorized_operations=True)
    every = (O.CREATE, O.ALTER, O.DESCRIBE, O.CLUSTER_ACTION, O.DESCRIBE_CONFIGS, O.ALTER_CONFIGS, O.IDEMPOTENT_WRITE)
    assert body.cluster_authorized_operations == sum(1 << each for each in every)
    body = guarded.call(ApiKey.DESCRIBE_GROUPS, 5, node_id=node_id, groups=["g"], include_authorized_operations=True)
    assert body.groups[0].error_code == 0
