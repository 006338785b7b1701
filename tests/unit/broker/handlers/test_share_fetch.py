"""The requests of share groups: heartbeat, fetch, acknowledge, describe, offsets; and the rights for them (KIP-932)."""

from __future__ import annotations

import asyncio
import uuid
from typing import Any

import pytest

from aiokafkapy.broker.security.acls import AclBinding, Operation, PatternType, Permission, ResourceType
from aiokafkapy.broker.security.authorizer import Authorizer
from aiokafkapy.broker.storage.producer_state import Marker
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import ControlType, iter_batches

from ..support import make_batch, topic_of
from .group_requests import call
from .harness import Harness, OpenHarness

TOPIC, GROUP, GROUP_ID_NOT_FOUND, UNSUPPORTED_VERSION = 29, 30, 69, 35
ACCEPT, RELEASE, REJECT = 1, 2, 3


def beat(harness: Harness, epoch: int = 0, **fields: Any) -> Any:
    whole: dict[str, Any] = {"group_id": "g", "member_id": "m", "member_epoch": epoch}
    if epoch == 0:
        whole["subscribed_topic_names"] = ["t"]
    return call(harness, ApiKey.SHARE_GROUP_HEARTBEAT, 1, **{**whole, **fields})


def configure(harness: Harness, **options: str) -> None:
    changes: dict[str, str | None] = {f"share.{name.replace('_', '.')}": value for name, value in options.items()}
    harness.state.groups.configs.alter("g", changes)


def append(harness: Harness, *values: bytes, partition: int = 0, **fields: Any) -> None:
    place = topic_of(harness.topics).partitions[partition]
    place.log.append(make_batch(values, **fields), place.leader_epoch, 0)
    harness.state.purgatory.check(place)


def topics_with(harness: Harness, *ranges: tuple[int, int, list[int]], partition: int = 0) -> list[dict[str, Any]]:
    batches = [{"first_offset": low, "last_offset": high, "acknowledge_types": types} for low, high, types in ranges]
    partitions = [{"partition_index": partition, "acknowledgement_batches": batches}]
    return [{"topic_id": topic_of(harness.topics).topic_id, "partitions": partitions}]


def fetch(
    harness: Harness,
    epoch: int,
    *ranges: tuple[int, int, list[int]],
    member: str = "m",
    partition: int = 0,
    node_id: int = 1,
    **fields: Any,
) -> Any:
    whole: dict[str, Any] = {"group_id": "g", "member_id": member, "share_session_epoch": epoch}
    whole |= {"max_wait": 0, "min_bytes": 1, "max_records": 100, "batch_size": 100}
    whole["topics"] = topics_with(harness, *ranges, partition=partition)
    return harness.call(ApiKey.SHARE_FETCH, 1, node_id=node_id, **{**whole, **fields})


def acknowledge(
    harness: Harness, epoch: int, *ranges: tuple[int, int, list[int]], member: str = "m", node_id: int = 1
) -> Any:
    topics = topics_with(harness, *ranges)
    fields = {"group_id": "g", "member_id": member, "share_session_epoch": epoch, "topics": topics}
    return harness.call(ApiKey.SHARE_ACKNOWLEDGE, 1, node_id=node_id, **fields)


def acquired(body: Any) -> list[tuple[int, int, int]]:
    """The ranges of the one partition that a fetch has an answer of."""
    (topic,) = body.responses
    (partition,) = topic.partitions
    assert partition.error_code == 0
    return [(each.first_offset, each.last_offset, each.delivery_count) for each in partition.acquired_records]


def codes(body: Any) -> list[int]:
    return [int(each.error_code) for topic in body.responses for each in topic.partitions]


def start_offsets(harness: Harness) -> list[tuple[int, int]]:
    body = call(harness, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, groups=[{"group_id": "g", "topics": None}])
    return [(each.partition_index, each.start_offset) for topic in body.groups[0].topics for each in topic.partitions]


@pytest.fixture
def shared(harness: Harness) -> Harness:
    """The group ``g`` reads ``t`` from its start; its member ``m`` has both partitions."""
    configure(harness, auto_offset_reset="earliest")
    assert beat(harness).error_code == 0
    return harness


async def test_a_member_joins_lives_and_leaves(harness: Harness) -> None:
    answer = beat(harness)
    assert (answer.error_code, answer.member_epoch, answer.heartbeat_interval.total_seconds()) == (0, 1, 0.5)
    assert answer.assignment.topic_partitions[0].partitions == (0, 1)
    described = call(harness, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"], include_authorized_operations=True)
    (group,) = described.groups
    assert (group.group_state, group.assignor_name, group.authorized_operations > 0) == ("Stable", "simple", True)
    assert group.members[0].assignment.topic_partitions[0].topic_name == "t"
    assert beat(harness, -1).member_epoch == -1
    listed = call(harness, ApiKey.LIST_GROUPS, 5, types_filter=["share"]).groups
    assert [(each.group_id, each.protocol_type, each.group_state) for each in listed] == [("g", "share", "Empty")]


async def test_records_are_fetched_acknowledged_and_not_fetched_again(shared: Harness) -> None:
    append(shared, b"0", b"1", b"2")
    body = fetch(shared, 0)
    assert acquired(body) == [(0, 2, 1)]
    assert body.acquisition_lock_timeout.total_seconds() == 30
    (partition,) = body.responses[0].partitions
    (batch,) = iter_batches(partition.records)
    assert [record.value for record in batch.records("t", 0)] == [b"0", b"1", b"2"]
    assert codes(acknowledge(shared, 1, (0, 1, [ACCEPT]))) == [0]
    assert start_offsets(shared) == [(0, 2), (1, -1)]
    again = fetch(shared, 2, (2, 2, [RELEASE]))
    assert acquired(again) == [(2, 2, 2)]
    assert again.responses[0].partitions[0].acknowledge_error_code == 0


async def test_a_fetch_waits_for_records_and_for_those_that_come_back(shared: Harness) -> None:
    waiting = fetch(shared, 0, max_wait=10_000)
    assert isinstance(waiting, asyncio.Future)
    append(shared, b"0")
    assert acquired(await waiting) == [(0, 0, 1)]
    fetch(shared, 0, member="n")
    waiting = fetch(shared, 1, member="n", max_wait=10_000)
    assert not waiting.done()
    acknowledge(shared, 1, (0, 0, [RELEASE]))
    assert acquired(await waiting) == [(0, 0, 2)]
    waiting = fetch(shared, 2, max_wait=1_000)
    shared.scheduler.advance(1)
    assert (await waiting).responses == ()


async def test_a_fetch_waits_for_min_bytes_but_not_for_records_that_came_back(shared: Harness) -> None:
    append(shared, b"0")
    waiting = fetch(shared, 0, max_wait=1_000, min_bytes=10_000)
    assert not waiting.done()
    append(shared, b"x" * 20_000)
    assert acquired(await waiting) == [(0, 1, 1)]
    acknowledge(shared, 1, (0, 0, [RELEASE]))
    assert acquired(fetch(shared, 2, max_wait=1_000, min_bytes=10_000)) == [(0, 0, 2)]


async def test_a_fetch_waits_for_no_more_bytes_than_it_can_have(shared: Harness) -> None:
    append(shared, b"x" * 100)
    assert acquired(fetch(shared, 0, max_wait=1_000, min_bytes=10_000, max_bytes=100)) == [(0, 0, 1)]


async def test_batches_without_a_record_for_the_member_are_left_out(shared: Harness) -> None:
    for value in (b"0", b"1", b"2"):
        append(shared, value)
    fetch(shared, 0)
    acknowledge(shared, 1, (0, 2, [RELEASE, ACCEPT, RELEASE]))
    body = fetch(shared, 2)
    assert acquired(body) == [(0, 0, 2), (2, 2, 2)]
    assert [batch.base_offset for batch in iter_batches(body.responses[0].partitions[0].records)] == [0, 2]


async def test_max_bytes_and_max_records_limit_an_answer(shared: Harness) -> None:
    for value in (b"0", b"1", b"2", b"3"):
        append(shared, value)
    assert acquired(fetch(shared, 0, max_bytes=1)) == [(0, 0, 1)]
    assert acquired(fetch(shared, 1, max_records=2)) == [(1, 2, 1)]
    assert fetch(shared, 2, max_records=0, max_wait=10_000).responses == ()


async def test_a_connection_that_closes_gives_its_records_back(shared: Harness) -> None:
    append(shared, b"0")
    fetch(shared, 0)
    mine = shared.connection.on_closed
    assert len(mine) == 1
    fetch(shared, 1)
    assert len(mine) == 1
    (callback,) = mine.values()
    callback()
    assert fetch(shared, 2).error_code == 122
    assert acquired(fetch(shared, 0, member="n")) == [(0, 0, 1)]


async def test_the_last_request_of_a_session_gives_the_others_back(shared: Harness) -> None:
    append(shared, b"0", b"1")
    fetch(shared, 0)
    assert codes(acknowledge(shared, -1, (0, 0, [ACCEPT]))) == [0]
    assert acknowledge(shared, 1).error_code == 122
    assert acquired(fetch(shared, 0, member="n")) == [(1, 1, 1)]
    last = fetch(shared, -1, (1, 1, [ACCEPT]), member="n")
    assert last.responses[0].partitions[0].acknowledge_error_code == 0
    assert fetch(shared, 1, member="n").error_code == 122


async def test_a_session_that_ends_at_the_former_leader_gives_nothing_of_the_new_one_back(shared: Harness) -> None:
    append(shared, b"0")
    fetch(shared, 0, max_records=0)
    shared.topics.set_leader("t", 0, 2)
    assert acquired(fetch(shared, 0, node_id=2)) == [(0, 0, 1)]
    fetch(shared, -1)
    assert acquired(fetch(shared, 0, member="n", node_id=2)) == []
    assert codes(acknowledge(shared, 1, (0, 0, [ACCEPT]), node_id=2)) == [0]


async def test_invalid_acknowledgements_are_refused(shared: Harness) -> None:
    append(shared, b"0", b"1")
    fetch(shared, 0)
    wrong: list[tuple[int, int, list[int]]] = [(1, 0, [1]), (0, 1, []), (0, 1, [1, 1, 1]), (0, 1, [4])]
    for epoch, each in enumerate(wrong, 1):
        assert codes(acknowledge(shared, epoch, each)) == [42]
    answer = acknowledge(shared, 5, (0, 1, [ACCEPT]), member="m")
    assert codes(answer) == [0]
    again = acknowledge(shared, 6, (2, 5, [ACCEPT]))
    assert again.responses[0].partitions[0].error_message == (
        "Batch record not found. The first offset in request is past acquired records."
    )


async def test_only_the_leader_answers_and_it_says_where_it_is(shared: Harness) -> None:
    append(shared, b"0", partition=1)
    body = fetch(shared, 0, partition=1)
    (partition,) = body.responses[0].partitions
    assert (partition.error_code, partition.current_leader.leader_id) == (6, 2)
    assert [each.node_id for each in body.node_endpoints] == [2]
    assert acquired(fetch(shared, 0, partition=1, node_id=2)) == [(0, 0, 1)]
    topic = topics_with(shared, (0, 0, [ACCEPT]), partition=1)
    fields: dict[str, Any] = {"group_id": "g", "member_id": "m", "share_session_epoch": 1, "topics": topic}
    refused = shared.call(ApiKey.SHARE_ACKNOWLEDGE, 1, **fields)
    assert codes(refused) == [6]
    assert [each.node_id for each in refused.node_endpoints] == [2]


async def test_an_unknown_topic_id_and_an_unknown_partition_have_their_errors(shared: Harness) -> None:
    unknown = [{"topic_id": uuid.uuid4(), "partitions": [{"partition_index": 0}]}]
    assert codes(fetch(shared, 0, topics=unknown)) == [100]
    assert codes(fetch(shared, 0, partition=7)) == [3]
    append(shared, b"0")
    assert codes(fetch(shared, 1)) in ([3, 0], [0, 3])


async def test_a_partition_whose_answer_was_an_error_is_reported_once_it_has_recovered(shared: Harness) -> None:
    place = topic_of(shared.topics).partitions[0]
    place.leader = 2
    assert codes(fetch(shared, 0)) == [6]
    place.leader = 1
    assert codes(fetch(shared, 1)) == [0]
    assert codes(fetch(shared, 2)) == []


async def test_a_partition_is_reported_once_and_then_with_records_only(shared: Harness) -> None:
    shared.topics.add_partitions("t", 4)
    topic = topic_of(shared.topics)
    for partition in topic.partitions:
        partition.leader = 1
    assert codes(fetch(shared, 0)) == [0]
    assert codes(fetch(shared, 1)) == []
    assert [each.partition_index for each in fetch(shared, 2, partition=2).responses[0].partitions] == [2]
    assert codes(fetch(shared, 3, partition=2)) == []
    append(shared, b"0", partition=2)
    assert codes(fetch(shared, 4, topics=[])) == [0]
    forgotten = [{"topic_id": topic.topic_id, "partitions": [2]}]
    append(shared, b"1", partition=2)
    assert codes(fetch(shared, 5, topics=[], forgotten_topics_data=forgotten)) == []


async def test_read_committed_gives_no_record_of_an_open_or_aborted_transaction(shared: Harness) -> None:
    configure(shared, isolation_level="read_committed")
    log = topic_of(shared.topics).partitions[0].log
    append(shared, b"plain")
    append(shared, b"aborted", producer=(7, 0, 0), is_transactional=True)
    assert acquired(fetch(shared, 0)) == [(0, 0, 1)]
    log.append_marker(Marker(ControlType.ABORT, 7, 0, 0), 0, 0)
    append(shared, b"last")
    body = fetch(shared, 1)
    assert acquired(body) == [(2, 3, 1)]
    configure(shared, isolation_level="read_uncommitted")
    assert codes(acknowledge(shared, 2, (0, 0, [ACCEPT]), (2, 3, [0, ACCEPT]))) == [0]
    assert start_offsets(shared)[0] == (0, 4)


async def test_the_clock_of_the_controls_ends_locks(shared: Harness) -> None:
    append(shared, b"0")
    fetch(shared, 0)
    shared.state.clock.advance(31)
    shared.state.groups.share_partitions.expire()
    assert acquired(fetch(shared, 0, member="n")) == [(0, 0, 2)]


async def test_offsets_are_set_and_forgotten_while_the_group_is_empty(shared: Harness) -> None:
    def alter(*starts: tuple[int, int], topic: str = "t", group: str = "g") -> Any:
        partitions = [{"partition_index": index, "start_offset": offset} for index, offset in starts]
        topics = [{"topic_name": topic, "partitions": partitions}]
        return call(shared, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group, group_id=group, topics=topics)

    def delete(topic: str = "t") -> Any:
        return call(shared, ApiKey.DELETE_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=[{"topic_name": topic}])

    assert (alter((0, 1)).error_code, delete().error_code) == (68, 68)
    beat(shared, -1)
    append(shared, b"0", b"1", b"2")
    assert codes(alter((0, 1), (1, 0), (7, 0))) == [0, 0, 3]
    assert codes(alter((0, 1), topic="no")) == [3]
    assert alter((0, 1), group="h").error_code == GROUP_ID_NOT_FOUND
    assert start_offsets(shared) == [(0, 1), (1, 0)]
    assert acquired(fetch(shared, 0)) == [(1, 2, 1)]
    assert [each.error_code for each in delete().responses] == [0]
    assert [each.error_code for each in delete("no").responses] == [3]
    assert [each.error_message for each in delete().responses] == ["There is no offset information to delete."]
    assert start_offsets(shared) == []


async def test_unknown_offsets_are_not_an_error(shared: Harness) -> None:
    topics = [{"topic_name": "t", "partitions": [0, 7]}, {"topic_name": "no", "partitions": [0]}]
    groups = [{"group_id": "g", "topics": topics}, {"group_id": "no", "topics": None}]
    body = shared.call(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, node_id=shared.coordinator_id("g"), groups=groups[:1])
    (group,) = body.groups
    assert [(p.partition_index, p.start_offset, p.error_code) for t in group.topics for p in t.partitions] == [
        (0, -1, 0),
        (7, -1, 0),
        (0, -1, 0),
    ]
    none = call(shared, ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, 0, "no", groups=groups[1:]).groups[0]
    assert (none.error_code, none.topics) == (0, ())


async def test_share_groups_can_be_taken_away(open_harness: OpenHarness) -> None:
    harness = open_harness(share_version=0)
    harness.topics.create("t", 2)
    assert beat(harness).error_code == UNSUPPORTED_VERSION
    assert fetch(harness, 0).error_code == UNSUPPORTED_VERSION
    assert acknowledge(harness, 1).error_code == UNSUPPORTED_VERSION
    assert call(harness, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"]).groups[0].error_code == UNSUPPORTED_VERSION


async def test_each_request_needs_its_right(shared: Harness) -> None:
    def allow(*rights: tuple[Operation, ResourceType, str]) -> None:
        shared.state.authorizer = Authorizer(
            bindings=[
                AclBinding(
                    kind, name, PatternType.LITERAL, shared.connection.principal, "*", operation, Permission.ALLOW
                )
                for operation, kind, name in rights
            ]
        )

    group, topic = ResourceType.GROUP, ResourceType.TOPIC
    allow()
    assert (beat(shared, 1).error_code, fetch(shared, 0).error_code) == (GROUP, GROUP)
    assert acknowledge(shared, 1).error_code == GROUP
    described = call(shared, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"]).groups[0]
    assert described.error_code == GROUP
    allow((Operation.READ, group, "g"), (Operation.DESCRIBE, group, "g"), (Operation.DELETE, group, "g"))
    assert beat(shared, 0).error_code == TOPIC
    assert codes(fetch(shared, 0)) == [TOPIC]
    assert call(shared, ApiKey.SHARE_GROUP_DESCRIBE, 1, group_ids=["g"]).groups[0].error_code == TOPIC
    assert start_offsets(shared) == []
    beat(shared, -1)
    change = [{"topic_name": "t", "partitions": [{"partition_index": 0, "start_offset": 1}]}]
    assert codes(call(shared, ApiKey.ALTER_SHARE_GROUP_OFFSETS, 0, group_id="g", topics=change)) == [TOPIC]
    allow((Operation.READ, group, "g"), (Operation.READ, topic, "t"))
    assert codes(fetch(shared, 0)) == [0]
