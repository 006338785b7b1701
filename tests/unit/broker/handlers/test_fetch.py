"""Fetch: answers at once, and answers to a fetch that waited."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.errors import UnknownServerError
from aiokafkapy.protocol.api import ApiKey

from ..support import log_of, make_batch, topic_of
from .harness import Harness, OpenHarness
from .partition_requests import base_offsets, fetch, fetched, place, produce


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
        assert body.responses[0].topic_id == topic_of(harness.topics).topic_id
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


async def test_an_offset_out_of_range_is_reported_at_once(harness: Harness) -> None:
    produce(harness, make_batch([b"a"] * 4))
    log_of(harness.topics).delete_records(2)
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


async def test_the_brokers_own_limit_holds_too(open_harness: OpenHarness) -> None:
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


async def test_a_fetch_waits_for_no_more_bytes_than_it_can_have(open_harness: OpenHarness) -> None:
    harness = open_harness(fetch_max_bytes=1024)
    harness.topics.create("t", 1)
    produce(harness, make_batch([b"x" * 600]))
    assert base_offsets(fetched(fetch(harness, 0, max_wait=500, min_bytes=501, max_bytes=500))[0]) == [0]
    assert base_offsets(fetched(fetch(harness, 0, max_wait=500, min_bytes=10_000, max_bytes=500))[0]) == [0]
    waiting = fetch(harness, 0, max_wait=500, min_bytes=10_000)
    produce(harness, make_batch([b"x" * 600]))
    assert base_offsets(fetched(waiting.result())[0]) == [0]


async def test_an_answer_has_no_more_than_a_quota_has_for_its_window(open_harness: OpenHarness) -> None:
    batch = make_batch([b"x" * 1_000])
    harness = open_harness(consumer_byte_rate=2 * len(batch) / 10)
    harness.topics.create("t", 1)
    for _ in range(6):
        produce(harness, batch)

    def count() -> int:
        return len(base_offsets(fetched(fetch(harness, 0, max_wait=60_000, min_bytes=90_000))[0]))

    assert count() == 2
    harness.state.quotas.alter(frozenset({("client-id", "client")}), {"consumer_byte_rate": 4 * len(batch) / 10})
    assert count() == 4
    harness.state.quotas.alter(frozenset({("client-id", "client")}), {"consumer_byte_rate": float("inf")})
    harness.state.quotas.alter(frozenset({("user", "ANONYMOUS")}), {"consumer_byte_rate": 1.0})
    assert count() == 1


async def test_a_fetch_answers_with_fewer_bytes_when_its_time_is_over(harness: Harness) -> None:
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


@pytest.mark.parametrize("version", range(7, 19))
async def test_a_session_tells_only_news(harness: Harness, version: int) -> None:
    harness.topics.set_leader("t", 1, 1)
    first = fetch(harness, 0, 0, version=version, session_epoch=0)
    session_id = first.session_id
    assert session_id > 0
    assert len(fetched(first)) == 2

    def go_on(epoch: int, *offsets: int, **fields: Any) -> Any:
        return fetch(harness, *offsets, version=version, session_id=session_id, session_epoch=epoch, **fields)

    assert go_on(1).responses == ()
    produce(harness, make_batch([b"a"]))
    (news,) = fetched(go_on(2))
    assert (news.partition_index, base_offsets(news), news.high_watermark) == (0, [0], 1)
    assert go_on(3, 1).responses == ()
    forgotten = [{**place(harness, version, 13), "partitions": [1]}]
    produce(harness, make_batch([b"b"]), first=1)
    assert go_on(4, forgotten_topics_data=forgotten).responses == ()
    assert go_on(7).error_code == 71
    assert go_on(-1, 1).session_id == 0
    assert go_on(5).error_code == 70


async def test_an_error_is_reported_in_every_response(harness: Harness) -> None:
    session_id = fetch(harness, 0, session_epoch=0).session_id
    harness.topics.set_leader("t", 0, 2)
    for epoch in (1, 2):
        (answer,) = fetched(fetch(harness, session_id=session_id, session_epoch=epoch))
        assert answer.error_code == 6
    harness.topics.set_leader("t", 0, 1)
    (answer,) = fetched(fetch(harness, session_id=session_id, session_epoch=3))
    assert (answer.error_code, answer.high_watermark) == (0, 0)


async def test_a_fetch_that_waits_in_a_session_is_answered_with_its_news(harness: Harness) -> None:
    harness.topics.set_leader("t", 1, 1)
    session_id = fetch(harness, 0, 0, session_epoch=0).session_id
    waiting = fetch(harness, session_id=session_id, session_epoch=1, max_wait=60_000)
    assert isinstance(waiting, asyncio.Future)
    produce(harness, make_batch([b"a"]))
    harness.state.purgatory.check(topic_of(harness.topics).partitions[0])
    body = harness.decoded(ApiKey.FETCH, 18, waiting.result())
    assert [each.partition_index for each in fetched(body)] == [0]


async def test_sessions_are_a_nodes_own_and_of_names_or_of_ids(harness: Harness) -> None:
    session_id = fetch(harness, 0, session_epoch=0).session_id
    assert fetch(harness, session_id=session_id, session_epoch=1, node_id=2).error_code == 70
    assert fetch(harness, session_id=session_id, session_epoch=1, version=12).error_code == 106


async def test_a_consumer_is_sent_to_the_replica_in_its_rack(open_harness: OpenHarness) -> None:
    harness = open_harness(replica_selector_class="org.apache.kafka.common.replica.RackAwareReplicaSelector")
    for node_id, rack in enumerate("abc", 1):
        harness.state.all_nodes[node_id] = harness.state.all_nodes[node_id]._replace(rack=rack)
    harness.topics.create("t", 2)
    produce(harness, make_batch([b"a"]))

    def ask(node_id: int, rack: str, version: int = 18) -> tuple[int, int, int]:
        (answer,) = fetched(fetch(harness, 0, node_id=node_id, rack_id=rack, version=version))
        return int(answer.error_code), getattr(answer, "preferred_read_replica", -1), len(answer.records)

    size = len(make_batch([b"a"]))
    assert ask(1, "b") == (0, 2, 0)
    assert ask(2, "b") == (0, -1, size)
    assert ask(1, "a") == ask(1, "") == ask(1, "nowhere") == (0, -1, size)
    assert ask(2, "b", version=10) == (6, -1, 0)
    del harness.state.running_nodes[2]
    assert ask(1, "b") == (0, -1, size)


async def test_read_committed_has_an_empty_list_of_aborted_transactions(harness: Harness) -> None:
    assert fetched(fetch(harness, 0, isolation_level=1))[0].aborted_transactions == ()


async def test_fetching_nothing_is_answered_at_once(harness: Harness) -> None:
    assert harness.call(ApiKey.FETCH, 12, topics=[], max_wait=60_000, min_bytes=1).responses == ()


async def test_an_injected_fetch_error_hits_its_partition(harness: Harness) -> None:
    harness.controls.fail_next(ApiKey.FETCH, 56, "t", 0)
    assert fetched(fetch(harness, 0))[0].error_code == 56
    assert fetched(fetch(harness, 0))[0].error_code == 0
