"""Produce: batches appended and batches refused, with the responses to either."""

from __future__ import annotations

import pytest

from aiokafkapy.broker.emulation.releases import release
from aiokafkapy.broker.handlers.registry import CLOSE_CONNECTION, NO_RESPONSE
from aiokafkapy.errors import NotLeaderOrFollowerError, UnknownServerError
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.record.compression import Compression

from ..support import log_of, make_batch
from .harness import Harness
from .partition_requests import place, produce


@pytest.mark.parametrize("version", range(3, 14))
async def test_produce_in_every_version(harness: Harness, version: int) -> None:
    answers = [produce(harness, make_batch([b"a", b"b"]), version=version)[0] for _ in range(2)]
    assert [(each.error_code, each.base_offset, each.log_append_time) for each in answers] == [
        (0, 0, None),
        (0, 2, None),
    ]
    assert getattr(answers[1], "log_start_offset", 0) == 0
    assert log_of(harness.topics).end_offset == 4


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
async def test_produce_to_the_wrong_node_names_the_leader(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 0, 3)
    batch = {"index": 0, "records": make_batch()}
    topic_data = [{**place(harness, version, 13, key="name"), "partition_data": [batch]}]
    body = harness.call(ApiKey.PRODUCE, version, acks=1, topic_data=topic_data)
    ((answer,),) = [topic.partition_responses for topic in body.responses]
    assert answer.error_code == 6
    if version >= 10:
        assert (answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (3, 1)
        assert [(node.node_id, node.host, node.port) for node in body.node_endpoints] == [(3, "localhost", 9094)]


async def test_produce_without_a_leader_has_no_hint(harness: Harness) -> None:
    harness.topics.set_leader("t", 0, None)
    (answer,) = produce(harness, make_batch())
    assert (answer.error_code, answer.current_leader.leader_id, answer.current_leader.leader_epoch) == (6, -1, 1)


async def test_an_unknown_topic_id_is_reported(harness: Harness) -> None:
    topic_data = [{"topic_id": None, "partition_data": [{"index": 0, "records": make_batch()}]}]
    body = harness.call(ApiKey.PRODUCE, 13, acks=1, topic_data=topic_data)
    assert body.responses[0].partition_responses[0].error_code == 100


async def test_acks_0_is_not_answered_and_an_error_closes_the_connection(harness: Harness) -> None:
    assert produce(harness, make_batch(), acks=0) is NO_RESPONSE
    assert produce(harness, make_batch(), acks=0, node_id=2) is CLOSE_CONNECTION
    assert harness.fail(ApiKey.PRODUCE, 9, UnknownServerError(), acks=0) is CLOSE_CONNECTION


async def test_other_acks_are_refused(harness: Harness) -> None:
    assert [each.error_code for each in produce(harness, make_batch(), make_batch(), acks=2)] == [21, 21]
    assert log_of(harness.topics).end_offset == 0


async def test_acks_all_asks_for_enough_replicas_and_acks_1_does_not(harness: Harness) -> None:
    harness.topics.alter_config("t", {"min.insync.replicas": "3"})
    del harness.state.running_nodes[3]
    (refused,) = produce(harness, make_batch())
    assert refused.error_code == 19
    assert "2 is insufficient to satisfy the min.isr requirement of 3" in refused.error_message
    assert produce(harness, make_batch(), acks=1)[0].error_code == 0


async def test_acks_all_asks_for_no_more_replicas_than_there_are_but_of_a_broker_before_3_7(harness: Harness) -> None:
    harness.topics.delete("t")
    harness.topics.create("t", 1, {"min.insync.replicas": "2"}, replication_factor=1)
    for version, code in ((None, 0), ("3.7", 0), ("3.6", 19)):
        harness.state.emulation = None if version is None else release(version)
        assert produce(harness, make_batch(), version=9)[0].error_code == code


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


async def test_log_append_time_is_returned(harness: Harness) -> None:
    harness.topics.alter_config("t", {"message.timestamp.type": "LogAppendTime"})
    (answer,) = produce(harness, make_batch())
    (record,) = log_of(harness.topics).records()
    assert round(answer.log_append_time.timestamp() * 1000) == record.timestamp_ms


async def test_a_transactional_batch_needs_its_transactional_id(harness: Harness) -> None:
    transactional = bytearray(make_batch(producer=(1, 0, 0)))
    transactional[22] |= 0x10
    assert produce(harness, bytes(transactional))[0].error_code == 53
    assert produce(harness, make_batch(), transactional_id="tx")[0].error_code == 0, "no record of it is transactional"


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
