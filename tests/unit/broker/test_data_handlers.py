"""The APIs that write and read partitions, in every version and without sockets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokafkapy.broker.handlers import CLOSE_CONNECTION, NO_RESPONSE
from aiokafkapy.errors import NotLeaderOrFollowerError, UnknownServerError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.batch import iter_batches
from aiokafkapy.record.compression import Compression

from .support import Harness, make_batch

Open = Callable[..., Harness]


@pytest.fixture
async def open_harness() -> Any:
    opened: list[Harness] = []

    def open_harness(*args: Any, **options: Any) -> Harness:
        opened.append(Harness(*args, **options))
        return opened[-1]

    yield open_harness
    for harness in opened:
        harness.close()


@pytest.fixture
async def harness(open_harness: Open) -> Harness:
    harness = open_harness()
    harness.topics.create("t", 2)  # led by 1 and 2
    return harness


def place(harness: Harness, version: int, by_id_from: int, name: str = "t", key: str = "topic") -> dict[str, Any]:
    """How a version names a topic."""
    if version < by_id_from:
        return {key: name}
    topic = harness.topics.get(name)
    return {"topic_id": None if topic is None else topic.topic_id}


def produce(
    harness: Harness,
    *batches: bytes | None,
    version: int = 13,
    acks: int = -1,
    node_id: int = 1,
    first: int = 0,
    **fields: Any,
) -> Any:
    """Produce batches to partitions ``first``, ``first`` + 1 … and give what was answered for each."""
    data = [{"index": first + index, "records": batch} for index, batch in enumerate(batches)]
    topic_data = [{**place(harness, version, 13, key="name"), "partition_data": data}]
    fields = {"acks": acks, "timeout": 1_000, "topic_data": topic_data, **fields}
    body = harness.call(ApiKey.PRODUCE, version, node_id=node_id, **fields)
    if body in (NO_RESPONSE, CLOSE_CONNECTION):
        return body
    (topic,) = body.responses
    return topic.partition_responses


def fetch(
    harness: Harness,
    *offsets: int,
    version: int = 18,
    node_id: int = 1,
    partition_max_bytes: int = 10_000,
    leader_epoch: int = -1,
    **fields: Any,
) -> Any:
    """Fetch partitions 0, 1 … from these offsets."""
    partitions = [
        {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": partition_max_bytes,
            "current_leader_epoch": leader_epoch,
        }
        for index, offset in enumerate(offsets)
    ]
    topics = [{**place(harness, version, 13), "partitions": partitions}]
    fields = {"max_wait": 0, "min_bytes": 1, "max_bytes": 100_000, "topics": topics, **fields}
    return harness.call(ApiKey.FETCH, version, node_id=node_id, **fields)


def fetched(body: Any) -> list[Any]:
    """The partitions of a Fetch response."""
    return [partition for topic in body.responses for partition in topic.partitions]


def base_offsets(partition: Any) -> list[int]:
    return [batch.base_offset for batch in iter_batches(partition.records, allow_partial=False)]


# Produce


@pytest.mark.parametrize("version", range(3, 14))
async def test_produce_in_every_version(harness: Harness, version: int) -> None:
    answers = [produce(harness, make_batch([b"a", b"b"]), version=version)[0] for _ in range(2)]
    assert [(each.error_code, each.base_offset, each.log_append_time) for each in answers] == [
        (0, 0, None),
        (0, 2, None),
    ]
    assert getattr(answers[1], "log_start_offset", 0) == 0
    assert harness.topics.partition("t", 0).log.end_offset == 4  # type: ignore[union-attr]


@pytest.mark.parametrize("version", range(3, 14))
async def test_one_partition_that_fails_does_not_stop_the_others(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 1, 1)
    broken = bytearray(make_batch())
    broken[-1] ^= 1
    first, second, third = produce(harness, bytes(broken), make_batch(), make_batch(), version=version)
    assert [each.error_code for each in (first, second, third)] == [2, 0, 3]
    assert (first.base_offset, second.base_offset) == (-1, 0)
    if version >= 8:
        assert "CRC" in first.error_message


@pytest.mark.parametrize("version", range(3, 14))
async def test_produce_to_the_wrong_node_says_who_leads(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 0, 3)
    batch = {"index": 0, "records": make_batch()}
    topic_data = [{**place(harness, version, 13, key="name"), "partition_data": [batch]}]
    body = harness.call(ApiKey.PRODUCE, version, acks=1, topic_data=topic_data)
    ((answer,),) = [topic.partition_responses for topic in body.responses]
    assert answer.error_code == 6
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
        assert [(node.node_id, node.host, node.port) for node in body.node_endpoints] == [(3, "localhost", 9094)]


async def test_produce_while_nobody_leads_has_no_hint(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, None)
    (answer,) = produce(harness, make_batch())
    assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (6, -1, 1)


async def test_an_unknown_topic_id_is_said(harness: Harness) -> None:
    topic_data = [{"topic_id": None, "partition_data": [{"index": 0, "records": make_batch()}]}]
    body = harness.call(ApiKey.PRODUCE, 13, acks=1, topic_data=topic_data)
    assert body.responses[0].partition_responses[0].error_code == 100


async def test_acks_0_is_not_answered_and_an_error_closes_the_connection(harness: Harness) -> None:
    assert produce(harness, make_batch(), acks=0) is NO_RESPONSE
    assert produce(harness, make_batch(), acks=0, node_id=2) is CLOSE_CONNECTION
    assert harness.fail(ApiKey.PRODUCE, 9, UnknownServerError(), acks=0) is CLOSE_CONNECTION


async def test_other_acks_are_refused(harness: Harness) -> None:
    assert [each.error_code for each in produce(harness, make_batch(), make_batch(), acks=2)] == [21, 21]
    assert harness.topics.partition("t", 0).log.end_offset == 0  # type: ignore[union-attr]


async def test_acks_all_asks_for_enough_replicas_and_acks_1_does_not(harness: Harness) -> None:
    harness.topics.alter_config("t", {"min.insync.replicas": "3"})
    del harness.state.running_nodes[3]
    (refused,) = produce(harness, make_batch())
    assert refused.error_code == 19
    assert "2 is insufficient to satisfy the min.isr requirement of 3" in refused.error_message
    assert produce(harness, make_batch(), acks=1)[0].error_code == 0


async def test_a_repeated_batch_is_acknowledged_with_its_first_offset(harness: Harness) -> None:
    batches = [make_batch(producer=(1, 0, sequence)) for sequence in range(3)]
    assert [produce(harness, batch)[0].base_offset for batch in (*batches, batches[1])] == [0, 1, 2, 1]
    assert produce(harness, make_batch(producer=(1, 0, 9)))[0].error_code == 45


async def test_a_batch_over_the_limit_is_too_large(harness: Harness) -> None:
    harness.topics.alter_config("t", {"max.message.bytes": "100"})
    (answer,) = produce(harness, make_batch([b"x" * 100]))
    assert answer.error_code == 10
    assert "maximum configured value of 100" in answer.error_message


@pytest.mark.parametrize("records", [None, b""])
async def test_no_batch_is_an_invalid_record(harness: Harness, records: bytes | None) -> None:
    assert produce(harness, records)[0].error_code == 87


@pytest.mark.parametrize("version", [8, 13])
async def test_refused_records_are_named(harness: Harness, version: int) -> None:
    harness.topics.alter_config("t", {"cleanup.policy": "compact"})
    (answer,) = produce(harness, make_batch([b"a", b"b"], key=None), version=version)
    assert (answer.error_code, [each.batch_index for each in answer.record_errors]) == (87, [0, 1])
    assert "without key" in answer.record_errors[0].batch_index_error_message


async def test_log_append_time_is_told(harness: Harness) -> None:
    harness.topics.alter_config("t", {"message.timestamp.type": "LogAppendTime"})
    (answer,) = produce(harness, make_batch())
    (record,) = harness.topics.partition("t", 0).log.records()  # type: ignore[union-attr]
    assert round(answer.log_append_time.timestamp() * 1000) == record.timestamp_ms


async def test_transactions_are_refused_with_a_message(harness: Harness) -> None:
    (answer,) = produce(harness, make_batch(), transactional_id="tx")
    assert (answer.error_code, answer.error_message) == (48, "This broker has no transactions yet.")
    transactional = bytearray(make_batch(producer=(1, 0, 0)))
    transactional[22] |= 0x10
    assert produce(harness, bytes(transactional))[0].error_code == 48


async def test_zstd_needs_version_7(harness: Harness) -> None:
    batch = make_batch(compression=Compression.ZSTD)
    assert produce(harness, batch, version=6)[0].error_code == 76
    assert produce(harness, batch, version=7)[0].error_code == 0


async def test_an_injected_error_hits_its_partition_only(harness: Harness) -> None:
    harness.topics.set_leader("t", 1, 1)
    harness.controls.fail_next(ApiKey.PRODUCE, NotLeaderOrFollowerError, "t", 1)
    assert [each.error_code for each in produce(harness, make_batch(), make_batch())] == [0, 6]
    assert [each.error_code for each in produce(harness, make_batch(), make_batch())] == [0, 0]


async def test_an_error_injected_after_the_append_leaves_the_record_there(harness: Harness) -> None:
    harness.controls.fail_next(ApiKey.PRODUCE, 7, "t", 0, after_append=True)
    batch = make_batch(producer=(1, 0, 0))
    assert produce(harness, batch)[0].error_code == 7
    (again,) = produce(harness, batch)
    assert (again.error_code, again.base_offset) == (0, 0)


# Fetch


@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch_in_every_version(harness: Harness, version: int) -> None:
    for value in (b"a", b"b"):
        produce(harness, make_batch([value, value]))
    body = fetch(harness, 2, version=version)
    (partition,) = fetched(body)
    assert (partition.error_code, partition.high_watermark, partition.last_stable_offset) == (0, 4, 4)
    assert base_offsets(partition) == [2]
    assert partition.aborted_transactions is None
    assert getattr(body, "session_id", 0) == 0
    if version >= 13:
        assert body.responses[0].topic_id == harness.topics.get("t").topic_id  # type: ignore[union-attr]
    else:
        assert body.responses[0].topic == "t"


@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch_errors_in_every_version(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 0, 3)
    body = fetch(harness, 0, 0, 0, version=version, node_id=2, max_wait=60_000)
    wrong_node, empty, unknown = fetched(body)
    assert [each.error_code for each in (wrong_node, empty, unknown)] == [6, 0, 3]
    assert (wrong_node.high_watermark, wrong_node.records) == (-1, b"")
    if version >= 12:
        assert (wrong_node.current_leader.leader_id, wrong_node.current_leader.leader_epoch) == (3, 1)
    if version >= 16:
        assert [node.node_id for node in body.node_endpoints] == [3]


@pytest.mark.parametrize("version", range(4, 19))
async def test_fetch_error_response_in_every_version(harness: Harness, version: int) -> None:
    partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1}]
    topics = [{**place(harness, version, 13), "partitions": partitions}]
    body = harness.fail(ApiKey.FETCH, version, UnknownServerError(), topics=topics, max_wait=0, min_bytes=1)
    code = body.error_code if version >= 7 else fetched(body)[0].error_code
    assert code == -1


async def test_an_offset_out_of_range_is_said_at_once(harness: Harness) -> None:
    produce(harness, make_batch([b"a"] * 4))
    harness.topics.partition("t", 0).log.delete_records(2)  # type: ignore[union-attr]
    for offset in (1, 5):
        assert fetched(fetch(harness, offset, max_wait=60_000))[0].error_code == 1


async def test_leader_epochs_are_compared(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, 1)
    body = fetch(harness, 0, leader_epoch=0)
    (fenced,) = fetched(body)
    assert (fenced.error_code, fenced.current_leader.leader_id) == (74, 1)
    assert fetched(fetch(harness, 0, leader_epoch=2))[0].error_code == 75
    assert fetched(fetch(harness, 0, leader_epoch=1))[0].error_code == 0


async def test_limits_hold_but_for_the_first_batch(harness: Harness) -> None:
    harness.topics.set_leader("t", 1, 1)
    batch = make_batch([b"x" * 100])
    for _ in range(3):
        produce(harness, batch, batch)
    size = len(batch)

    def counts(**limits: int) -> list[int]:
        return [len(base_offsets(each)) for each in fetched(fetch(harness, 0, 0, **limits))]

    assert counts(max_bytes=1) == [1, 0]
    assert counts(max_bytes=4 * size) == [3, 1]
    assert counts(partition_max_bytes=1) == [1, 0]
    assert counts(partition_max_bytes=2 * size) == [2, 2]


async def test_the_brokers_own_limit_holds_too(open_harness: Open) -> None:
    harness = open_harness(fetch_max_bytes=1024)
    harness.topics.create("t", 1)
    for _ in range(3):
        produce(harness, make_batch([b"x" * 500]))
    assert len(base_offsets(fetched(fetch(harness, 0))[0])) == 1


async def test_a_fetch_waits_for_bytes_and_gets_them_in_the_same_turn(harness: Harness) -> None:
    batch = make_batch([b"x" * 50])
    waiting = fetch(harness, 0, max_wait=500, min_bytes=len(batch) + 1)
    assert isinstance(waiting, asyncio.Future)
    produce(harness, batch)
    assert not waiting.done()
    produce(harness, batch)
    assert base_offsets(fetched(waiting.result())[0]) == [0, 1]


async def test_a_fetch_answers_with_what_there_is_when_its_time_is_over(harness: Harness) -> None:
    produce(harness, make_batch())
    waiting = fetch(harness, 0, max_wait=500, min_bytes=10_000)
    harness.scheduler.advance(0.5)
    assert base_offsets(fetched(waiting.result())[0]) == [0]


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda harness: harness.topics.set_leader("t", 0, 2), 6),
        (lambda harness: harness.topics.delete("t"), 6),
        (lambda harness: harness.topics.node_stopped(1), 6),
    ],
)
async def test_a_waiting_fetch_hears_of_changes(
    harness: Harness, change: Callable[[Harness], object], code: int
) -> None:
    waiting = fetch(harness, 0, max_wait=60_000)
    change(harness)
    assert fetched(waiting.result())[0].error_code == code


async def test_a_session_is_never_opened_and_one_from_elsewhere_is_unknown(harness: Harness) -> None:
    assert fetch(harness, 0, session_id=0, session_epoch=0).session_id == 0
    assert fetch(harness, 0, session_id=77, session_epoch=5).error_code == 70
    assert fetch(harness, 0, session_id=77, session_epoch=-1).error_code == 0


async def test_read_committed_has_an_empty_list_of_aborted_transactions(harness: Harness) -> None:
    assert fetched(fetch(harness, 0, isolation_level=1))[0].aborted_transactions == ()


async def test_fetching_nothing_is_answered_at_once(harness: Harness) -> None:
    assert harness.call(ApiKey.FETCH, 12, topics=[], max_wait=60_000, min_bytes=1).responses == ()


async def test_an_injected_fetch_error_hits_its_partition(harness: Harness) -> None:
    harness.controls.fail_next(ApiKey.FETCH, 56, "t", 0)
    assert fetched(fetch(harness, 0))[0].error_code == 56
    assert fetched(fetch(harness, 0))[0].error_code == 0


# ListOffsets


def list_offset(
    harness: Harness, timestamp: int, *, version: int = 10, partition: int = 0, times: int = 1, **fields: Any
) -> Any:
    wanted = {"partition_index": partition, "timestamp": timestamp, **fields}
    topics = [{"name": "t", "partitions": [wanted] * times}]
    body = harness.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=0, timeout=1_000, topics=topics)
    return body.topics[0].partitions[0]


@pytest.mark.parametrize("version", range(1, 11))
async def test_list_offsets_in_every_version(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a", b"b"], timestamps=[100, 200]))
    harness.topics.partition("t", 0).log.delete_records(1)  # type: ignore[union-attr]
    found = {time: list_offset(harness, time, version=version) for time in (-1, -2, 150, 201)}
    assert {time: (each.error_code, each.offset, each.timestamp) for time, each in found.items()} == {
        -1: (0, 2, -1),
        -2: (0, 1, -1),
        150: (0, 1, 200),
        201: (0, -1, -1),
    }
    assert list_offset(harness, -1, version=version, partition=1).error_code == 6
    assert list_offset(harness, -1, version=version, partition=2).error_code == 3


@pytest.mark.parametrize(("time", "since", "offset"), [(-3, 7, 1), (-4, 8, 0), (-5, 9, -1)])
async def test_special_times_have_their_first_version(harness: Harness, time: int, since: int, offset: int) -> None:
    produce(harness, make_batch([b"a", b"b"], timestamps=[100, 200]))
    answer = list_offset(harness, time, version=since)
    assert (answer.error_code, answer.offset) == (0, offset)
    assert list_offset(harness, time, version=since - 1).error_code == 35
    assert list_offset(harness, -6).error_code == 35


async def test_an_empty_log_starts_in_the_present_epoch(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, 1)
    assert (list_offset(harness, -2).offset, list_offset(harness, -2).leader_epoch) == (0, 1)


async def test_an_empty_log_has_no_max_timestamp(harness: Harness) -> None:
    answer = list_offset(harness, -3)
    assert (answer.error_code, answer.offset, answer.timestamp) == (0, -1, -1)


async def test_list_offsets_compares_epochs_and_refuses_to_be_asked_twice(harness: Harness) -> None:
    assert list_offset(harness, -1, current_leader_epoch=4).error_code == 75
    assert list_offset(harness, -1, times=2).error_code == 42
    harness.controls.fail_next(ApiKey.LIST_OFFSETS, 78, "t", 0)
    assert list_offset(harness, -1).error_code == 78


# OffsetForLeaderEpoch, InitProducerId, DeleteRecords


@pytest.mark.parametrize("version", [2, 3, 4])
async def test_offset_for_leader_epoch(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a", b"b"]))
    harness.topics.set_leader("t", 0, 1)
    produce(harness, make_batch())

    def end_offset(leader_epoch: int, current: int = 1, partition: int = 0) -> tuple[int, int, int]:
        wanted = {"partition": partition, "current_leader_epoch": current, "leader_epoch": leader_epoch}
        topics = [{"topic": "t", "partitions": [wanted]}]
        body = harness.call(ApiKey.OFFSET_FOR_LEADER_EPOCH, version, topics=topics)
        (answer,) = body.topics[0].partitions
        return answer.error_code, answer.leader_epoch, answer.end_offset

    assert end_offset(0) == (0, 0, 2)
    assert end_offset(1) == (0, 1, 3)
    assert end_offset(2) == (0, -1, -1)
    assert end_offset(0, current=0) == (74, -1, -1)
    assert end_offset(0, partition=5) == (3, -1, -1)


@pytest.mark.parametrize("version", range(6))
async def test_init_producer_id(harness: Harness, version: int) -> None:
    ids = [
        harness.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id=None, transaction_timeout=1) for _ in range(2)
    ]
    assert [(each.error_code, each.producer_id, each.producer_epoch) for each in ids] == [(0, 0, 0), (0, 1, 0)]
    refused = harness.call(ApiKey.INIT_PRODUCER_ID, version, transactional_id="tx", transaction_timeout=1)
    assert (refused.error_code, refused.producer_id, refused.producer_epoch) == (42, -1, -1)


async def test_a_producer_that_names_its_id_gets_a_new_one(harness: Harness) -> None:
    """As Kafka does without a transactional id."""
    harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None)
    again = harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=0, producer_epoch=3)
    assert (again.error_code, again.producer_id, again.producer_epoch) == (0, 1, 0)
    assert harness.call(ApiKey.INIT_PRODUCER_ID, 5, transactional_id=None, producer_id=0).error_code == 42


@pytest.mark.parametrize("version", range(3))
async def test_delete_records(harness: Harness, version: int) -> None:
    produce(harness, make_batch([b"a"] * 5))

    def delete(offset: int, partition: int = 0) -> tuple[int, int]:
        topics = [{"name": "t", "partitions": [{"partition_index": partition, "offset": offset}]}]
        body = harness.call(ApiKey.DELETE_RECORDS, version, topics=topics, timeout=1)
        (answer,) = body.topics[0].partitions
        return answer.error_code, answer.low_watermark

    waiting = fetch(harness, 0, max_wait=60_000, min_bytes=10_000)
    assert delete(2) == (0, 2)
    assert fetched(waiting.result())[0].error_code == 1
    assert delete(-1) == (0, 5)
    assert delete(6) == (1, -1)
    assert delete(0, partition=1) == (6, -1)


def every_version() -> Iterator[tuple[ApiKey, int]]:
    from aiokafkapy.broker.handlers import dispatch_table

    for api in (ApiKey.PRODUCE, ApiKey.LIST_OFFSETS, ApiKey.OFFSET_FOR_LEADER_EPOCH, ApiKey.DELETE_RECORDS):
        handler = dispatch_table()[api]
        for version in range(handler.min_version, handler.max_version + 1):
            yield api, version


@pytest.mark.parametrize(("api", "version"), list(every_version()))
async def test_the_error_response_can_be_written_in_every_version(harness: Harness, api: ApiKey, version: int) -> None:
    partitions: dict[ApiKey, dict[str, Any]] = {
        ApiKey.PRODUCE: {"acks": 1, "topic_data": [{"name": "t", "partition_data": [{"index": 3}]}]},
        ApiKey.LIST_OFFSETS: {"topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
        ApiKey.OFFSET_FOR_LEADER_EPOCH: {"topics": [{"topic": "t", "partitions": [{"partition": 3}]}]},
        ApiKey.DELETE_RECORDS: {"topics": [{"name": "t", "partitions": [{"partition_index": 3}]}]},
    }
    body = harness.fail(api, version, UnknownServerError(), **partitions[api])
    topics = body.responses if api is ApiKey.PRODUCE else body.topics
    (partition,) = topics[0].partition_responses if api is ApiKey.PRODUCE else topics[0].partitions
    assert partition.error_code == -1
