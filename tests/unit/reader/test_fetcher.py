"""The fetcher's requests by node, and its handling of responses, without sockets, on a virtual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID, uuid4

import pytest

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import (
    CorruptMessageError,
    DisconnectedError,
    IllegalStateError,
    KafkaTimeoutError,
    NotLeaderOrFollowerError,
    OffsetOutOfRangeError,
    TopicAuthorizationFailedError,
)
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.protocol.codec import decode_response, encode_response
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.reader.config import ReaderConfig
from aiokafkapy.reader.fetcher import Fetcher, FetchPlan
from aiokafkapy.reader.offsets import EARLIEST, LATEST, OffsetAndTimestamp
from aiokafkapy.record.batch import assign_offset
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.record_columns import RecordColumns
from tests.unit.metadata_options import METADATA_OPTIONS

VERSION = 17
TOPIC_ID = uuid4()
T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def metadata_with(leaders: dict[int, int], topic_id: UUID | None = TOPIC_ID) -> Metadata:
    metadata = Metadata(**METADATA_OPTIONS)
    metadata.bootstrap([("localhost", 1)])
    answer = build_response(
        ApiKey.METADATA,
        12,
        brokers=[{"node_id": node, "host": "h", "port": node} for node in (1, 2)],
        topics=[
            {
                "error_code": 0,
                "name": "t",
                "topic_id": topic_id,
                "partitions": [
                    {"partition_index": number, "leader_id": leader, "leader_epoch": 5}
                    for number, leader in leaders.items()
                ],
            }
        ],
    )
    metadata.update(metadata.request_version, MetadataAnswer(answer), 0.0, is_partial=False)
    metadata.need_full_update = False
    return metadata


def fetcher_with(leaders: dict[int, int] | None = None, **options: Any) -> Fetcher:
    config = ReaderConfig(bootstrap_servers="localhost:1", **options)
    fetcher = Fetcher(config, metadata_with(leaders or {0: 1, 1: 1, 2: 2}))
    fetcher.assign([T0, T1, T2])
    for tp in (T0, T1, T2):
        fetcher.seek(tp, 0)
    return fetcher


def batch(base_offset: int, count: int) -> bytes:
    builder = RecordBatchBuilder(1 << 20)
    for number in range(count):
        builder.try_append(1, None, b"%d" % (base_offset + number), None)
    builder.seal(0)
    builder.stamp(-1, -1, -1)
    data = bytearray().join(builder.buffers())
    assign_offset(data, base_offset, 0)
    return bytes(data)


def answer(*partitions: dict[str, Any], version: int = VERSION, **fields: Any) -> Any:
    topic = {"topic": "t", "topic_id": TOPIC_ID, "partitions": list(partitions)}
    body = build_response(ApiKey.FETCH, version, responses=[topic], **fields)
    return decode_response(ApiKey.FETCH, version, encode_response(body, 1)[4:])[1]


def partition(number: int, records: bytes | None = None, **fields: Any) -> dict[str, Any]:
    return {"partition_index": number, "high_watermark": 100, "records": records, **fields}


def always(node: Node) -> bool:
    return True


def plan_of(fetcher: Fetcher, node_id: int, now: float = 0.0) -> FetchPlan:
    (plan,) = [plan for plan in fetcher.plans(now, always) if plan.node.node_id == node_id]
    return plan


def offsets_of(fetcher: Fetcher) -> list[int]:
    found = fetcher.take()
    return [] if found is None else [record.offset for record in found.records]


def rows_of(fetcher: Fetcher) -> list[int]:
    found = fetcher.take_columns(RecordColumns(False))
    return [] if found is None else list(memoryview(found.columns.offsets).cast("B").cast("q"))


def test_there_is_one_request_per_leader_with_all_its_partitions() -> None:
    fetcher = fetcher_with()
    plans = {plan.node.node_id: dict(plan.partitions) for plan in fetcher.plans(0.0, always)}
    assert plans == {1: {T0: (0, 5), T1: (0, 5)}, 2: {T2: (0, 5)}}
    assert fetcher.plans(0.0, always) == []


def test_a_node_that_is_not_ready_is_left_for_later_and_does_not_delay_the_others() -> None:
    fetcher = fetcher_with()
    assert [plan.node.node_id for plan in fetcher.plans(0.0, lambda node: node.node_id == 2)] == [2]
    assert [plan.node.node_id for plan in fetcher.plans(0.0, always)] == [1]


def test_the_request_names_topics_by_id_from_version_13_and_by_name_before() -> None:
    plan = plan_of(fetcher_with(fetch_max_bytes=7, isolation_level="read_committed"), 1)
    new: Any = plan.build(VERSION)
    old: Any = plan.build(11)
    assert plan.max_version is None
    assert new.topics[0].topic_id == TOPIC_ID
    assert old.topics[0].topic == "t"
    assert [(one.partition, one.fetch_offset, one.current_leader_epoch) for one in new.topics[0].partitions] == [
        (0, 0, 5),
        (1, 0, 5),
    ]
    assert (new.max_bytes, new.isolation_level, new.session_epoch) == (7, 1, -1)


def test_without_topic_ids_the_version_stays_below_13() -> None:
    fetcher = Fetcher(ReaderConfig(bootstrap_servers="localhost:1"), metadata_with({0: 1}, topic_id=None))
    fetcher.assign([T0])
    fetcher.seek(T0, 0)
    plan = plan_of(fetcher, 1)
    assert plan.max_version == 12
    fetcher.handle_response(plan, answer(partition(0, batch(0, 1)), version=12), 0.0)
    found = fetcher.take()
    assert found is not None
    assert [record.value for record in found.records] == [b"0"]


def test_fetched_records_are_handed_out_and_move_the_position() -> None:
    fetcher = fetcher_with()
    plan = plan_of(fetcher, 1)
    fetcher.handle_response(plan, answer(partition(0, batch(0, 2)), partition(1)), 0.0)
    found = fetcher.take()
    assert found is not None
    assert found.topic_partition == T0
    assert [record.offset for record in found.records] == [0, 1]
    assert found.end_offset == 100
    assert fetcher.state(T0).position == 2
    assert fetcher.take() is None


def test_reading_that_stopped_inside_a_batch_goes_on_with_the_next_record() -> None:
    fetcher = fetcher_with()
    fetcher.state(T0).stop_at = 2
    fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, batch(0, 5))), 0.0)
    assert offsets_of(fetcher) == [0, 1]
    assert (fetcher.state(T0).position, fetcher.state(T0).is_finished) == (2, True)
    fetcher.state(T0).stop_at = 4
    plan = plan_of(fetcher, 1)
    assert plan.partitions[T0] == (2, 5)
    fetcher.handle_response(plan, answer(partition(0, batch(0, 5))), 0.0)
    assert offsets_of(fetcher) == [2, 3]


def test_a_node_is_not_asked_again_before_its_records_are_handed_out() -> None:
    fetcher = fetcher_with()
    plan = plan_of(fetcher, 1)
    fetcher.handle_response(plan, answer(partition(0, batch(0, 2)), partition(1)), 0.0)
    assert fetcher.plans(0.0, always) == []
    fetcher.take()
    assert dict(plan_of(fetcher, 1).partitions) == {T0: (2, 5), T1: (0, 5)}


def test_an_answer_for_a_position_that_was_left_is_dropped() -> None:
    fetcher = fetcher_with()
    plan = plan_of(fetcher, 1)
    fetcher.seek(T0, 50)
    fetcher.handle_response(plan, answer(partition(0, batch(0, 2))), 0.0)
    assert fetcher.take() is None
    assert fetcher.state(T0).position == 50


def test_fetched_records_are_dropped_when_their_partition_is_sought_or_given_up() -> None:
    ways: list[Callable[[Any], object]] = [lambda it: it.seek(T0, 1), lambda it: it.assign([T1, T2])]
    for give_up in ways:
        fetcher = fetcher_with()
        fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, batch(0, 2))), 0.0)
        give_up(fetcher)
        assert fetcher.take() is None


def test_assigning_again_keeps_positions() -> None:
    fetcher = fetcher_with()
    fetcher.seek(T1, 7)
    fetcher.assign([T1])
    assert fetcher.state(T1).position == 7
    with pytest.raises(IllegalStateError, match="t-0 is not assigned"):
        fetcher.state(T0)


def test_a_leader_that_moved_is_asked_for_and_its_partition_backs_off() -> None:
    fetcher = fetcher_with(retry_backoff_ms=100)
    fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, error_code=6), partition(1)), 0.0)
    assert fetcher.metadata.is_update_requested
    assert fetcher.take() is None
    assert T0 not in plan_of(fetcher, 1, 0.01).partitions
    assert 0 < (fetcher.next_retry(0.01) or 0) < 0.13


def test_a_leader_hint_is_taken_at_once() -> None:
    fetcher = fetcher_with()
    moved = partition(0, error_code=6, current_leader={"leader_id": 2, "leader_epoch": 6})
    endpoints = [{"node_id": 2, "host": "h", "port": 2, "rack": None}]
    plan = plan_of(fetcher, 1)
    fetcher.busy_nodes.clear()
    fetcher.state(T2).is_fetching = False
    fetcher.handle_response(plan, answer(moved, node_endpoints=endpoints), 0.0)
    assert plan_of(fetcher, 2).partitions[T0] == (0, 6)


def test_a_leader_hint_for_a_partition_that_was_assigned_away_leaves_the_answer_whole() -> None:
    fetcher = fetcher_with()
    hint = {"leader_id": 2, "leader_epoch": 6}
    plan = plan_of(fetcher, 1)
    fetcher.busy_nodes.clear()
    fetcher.assign([T1])
    moved = [partition(number, error_code=6, current_leader=hint) for number in (0, 1)]
    fetcher.handle_response(plan, answer(*moved), 0.0)
    assert dict(plan_of(fetcher, 2).partitions) == {T1: (0, 6)}


def test_a_partition_without_leader_waits_and_asks_for_metadata() -> None:
    fetcher = fetcher_with({0: -1, 1: 1, 2: 2})
    assert T0 not in {tp for plan in fetcher.plans(0.0, always) for tp in plan.partitions}
    assert fetcher.metadata.is_update_requested
    assert fetcher.next_retry(0.0) is not None


def test_an_offset_out_of_range_is_looked_up_again_as_the_policy_says() -> None:
    for policy, reset_to in (("earliest", EARLIEST), ("latest", LATEST)):
        fetcher = fetcher_with(auto_offset_reset=policy)
        fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, error_code=1)), 0.0)
        assert fetcher.partitions_to_reset(0.0) == {T0: reset_to}
        fetcher.handle_offset(T0, reset_to, OffsetAndTimestamp(40), 0.0)
        assert fetcher.state(T0).position == 40


def test_without_a_policy_an_offset_out_of_range_is_an_error_raised_once() -> None:
    fetcher = fetcher_with(auto_offset_reset="none")
    fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, error_code=1)), 0.0)
    with pytest.raises(OffsetOutOfRangeError, match="t-0: offset 0 is not in the log"):
        fetcher.take()
    assert fetcher.take() is None


def looking_up(*reset_to: int, **options: Any) -> Fetcher:
    """A fetcher that looks up T0, T1, … and has asked for them."""
    fetcher = fetcher_with(**options)
    for tp, time in zip((T0, T1, T2), reset_to, strict=False):
        fetcher.seek(tp, None, time)
    fetcher.note_asked(fetcher.partitions_to_reset(0.0))
    return fetcher


def test_without_a_policy_a_partition_that_was_never_sought_is_an_error_until_it_is() -> None:
    fetcher = fetcher_with(auto_offset_reset="none")
    fetcher.assign([])
    fetcher.assign([T0])
    for now in (0.0, 10.0):
        assert fetcher.partitions_to_reset(now) == {}
        with pytest.raises(OffsetOutOfRangeError, match=r"t-0 has no position, .*: seek\(\)"):
            fetcher.take()
        assert fetcher.partitions_to_reset(now) == {}
        assert fetcher.take() is None  # others have their turn
        assert fetcher.next_retry(now)
    fetcher.seek(T0, 3)
    assert fetcher.partitions_to_reset(20.0) == {}
    assert fetcher.take() is None
    assert dict(plan_of(fetcher, 1, 20.0).partitions) == {T0: (3, 5)}


def test_a_lookup_that_comes_after_a_seek_does_not_move_the_position() -> None:
    fetcher = looking_up(LATEST)
    fetcher.seek(T0, 3)
    fetcher.handle_offset(T0, LATEST, OffsetAndTimestamp(99), 0.0)
    assert fetcher.state(T0).position == 3


def test_a_position_is_not_asked_for_again_while_it_is_looked_up_but_another_one_is() -> None:
    fetcher = looking_up(LATEST, EARLIEST)
    assert fetcher.partitions_to_reset(0.0) == {}
    fetcher.seek(T0, None, 1_000)
    assert fetcher.partitions_to_reset(0.0) == {T0: 1_000}
    fetcher.note_asked({T0: 1_000})
    fetcher.handle_offset(T0, LATEST, OffsetAndTimestamp(99), 0.0)
    assert fetcher.state(T0).position is None
    fetcher.handle_offset(T0, 1_000, OffsetAndTimestamp(5), 0.0)
    assert fetcher.state(T0).position == 5


def test_the_time_for_a_lookup_starts_over_after_a_long_pause_of_the_caller() -> None:
    """Nothing is asked meanwhile: a caller that worked for a minute got a time-out from a healthy broker."""
    fetcher = fetcher_with(default_api_timeout_ms=1_000)
    fetcher.seek(T0, None, EARLIEST)
    fetcher.resume(0.0)
    assert fetcher.partitions_to_reset(0.0) == {T0: EARLIEST}
    fetcher.pause(0.1)
    fetcher.resume(2.0)
    assert fetcher.partitions_to_reset(2.0) == {T0: EARLIEST}
    fetcher.pause(2.6)
    fetcher.resume(2.7)
    assert fetcher.partitions_to_reset(2.9) == {T0: EARLIEST}
    assert fetcher.partitions_to_reset(3.1) == {}
    with pytest.raises(KafkaTimeoutError, match="t-0 was not found within 1 s"):
        fetcher.take()


def test_reading_goes_on_at_the_end_when_all_records_are_older() -> None:
    fetcher = looking_up(1_000)
    fetcher.handle_offset(T0, 1_000, None, 0.0)
    assert fetcher.partitions_to_reset(0.0) == {T0: LATEST}
    fetcher.handle_offset(T0, LATEST, None, 0.0)
    assert fetcher.state(T0).position == 0


def test_each_partition_has_its_own_lookup_error_and_back_off() -> None:
    fetcher = looking_up(EARLIEST, EARLIEST, EARLIEST)
    fetcher.handle_offset(T0, EARLIEST, TopicAuthorizationFailedError("no"), 0.0)
    fetcher.handle_offset(T1, EARLIEST, NotLeaderOrFollowerError("moved"), 0.0)
    fetcher.handle_offset(T2, EARLIEST, OffsetAndTimestamp(7), 0.0)
    assert fetcher.state(T2).position == 7
    with pytest.raises(TopicAuthorizationFailedError):
        fetcher.take()
    assert fetcher.take() is None
    assert fetcher.partitions_to_reset(0.0) == {}, "both back off"
    assert fetcher.partitions_to_reset(1.0) == {T0: EARLIEST, T1: EARLIEST}


def test_only_the_partition_that_was_not_found_in_time_gets_the_error() -> None:
    fetcher = looking_up(EARLIEST, EARLIEST, default_api_timeout_ms=2_000)
    fetcher.handle_offset(T0, EARLIEST, NotLeaderOrFollowerError("moved"), 0.0)
    fetcher.handle_offset(T1, EARLIEST, OffsetAndTimestamp(7), 0.0)
    assert fetcher.next_retry(1.9) == pytest.approx(0.1)
    fetcher.note_asked(fetcher.partitions_to_reset(1.9))
    assert fetcher.partitions_to_reset(2.0) == {}, "though a request is in flight"
    with pytest.raises(KafkaTimeoutError, match="the offset of t-0 was not found within 2 s: moved"):
        fetcher.take()
    assert fetcher.take() is None
    assert fetcher.state(T1).position == 7


@pytest.mark.parametrize(
    ("leaders", "cause"), [({0: -1, 1: 1}, "partition 0 has no leader"), ({1: 1, 2: 1}, "no such partition")]
)
def test_a_partition_without_a_leader_backs_off_and_the_error_names_the_lack(
    leaders: dict[int, int], cause: str
) -> None:
    fetcher = fetcher_with(leaders, default_api_timeout_ms=1_000)
    fetcher.seek(T0, None, EARLIEST)
    assert fetcher.partitions_to_reset(0.0) == {T0: EARLIEST}
    fetcher.note_not_asked(T0, 0.0)
    assert fetcher.partitions_to_reset(0.01) == {}
    assert fetcher.partitions_to_reset(1.0) == {}
    with pytest.raises(KafkaTimeoutError, match=cause):
        fetcher.take()


def test_a_topic_that_is_not_known_yet_does_not_back_off() -> None:
    fetcher = Fetcher(ReaderConfig(bootstrap_servers="localhost:1"), metadata_with({0: 1}))
    fetcher.assign([TopicPartition("new", 0)])
    wanted = fetcher.partitions_to_reset(0.0)
    fetcher.note_not_asked(TopicPartition("new", 0), 0.0)
    assert fetcher.partitions_to_reset(0.0) == wanted != {}


def test_an_error_that_does_not_pass_is_raised_before_records_of_others_which_go_on() -> None:
    for take in (offsets_of, rows_of):
        fetcher = fetcher_with()
        refused = answer(partition(0, error_code=TopicAuthorizationFailedError.code), partition(1, batch(0, 2)))
        fetcher.handle_response(plan_of(fetcher, 1), refused, 0.0)
        with pytest.raises(TopicAuthorizationFailedError):
            take(fetcher)
        assert take(fetcher) == [0, 1]
        assert take(fetcher) == []


def test_a_request_that_came_to_nothing_is_tried_again_later() -> None:
    fetcher = fetcher_with()
    fetcher.handle_failure(plan_of(fetcher, 1), DisconnectedError("gone"), 0.0)
    assert fetcher.take() is None
    assert fetcher.metadata.is_update_requested
    assert not [plan for plan in fetcher.plans(0.01, always) if plan.node.node_id == 1]
    assert [plan for plan in fetcher.plans(1.0, always) if plan.node.node_id == 1]


def test_a_damaged_batch_is_raised_after_the_records_before_it() -> None:
    fetcher = fetcher_with()
    damaged = bytearray(batch(2, 1))
    damaged[-1] ^= 1
    fetcher.handle_response(plan_of(fetcher, 1), answer(partition(0, batch(0, 2) + bytes(damaged))), 0.0)
    found = fetcher.take()
    assert found is not None
    assert len(found.records) == 2
    with pytest.raises(CorruptMessageError, match="at offset 2"):
        fetcher.take()
    assert fetcher.state(T0).position == 2


def test_the_end_is_the_last_stable_offset_for_read_committed() -> None:
    fetcher = fetcher_with(isolation_level="read_committed")
    fetcher.handle_response(
        plan_of(fetcher, 1), answer(partition(0, batch(0, 1), last_stable_offset=60, aborted_transactions=[])), 0.0
    )
    found = fetcher.take()
    assert found is not None
    assert found.end_offset == 60
