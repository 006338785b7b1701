"""The arguments of ``send_offsets_to_transaction``, in any client's form. The requests are tested against real
Kafka.
"""

from __future__ import annotations

from collections import namedtuple
from types import SimpleNamespace
from typing import Any

import aiokafka
import confluent_kafka
import numpy
import pytest
from aiokafka.structs import OffsetAndMetadata

from aiokafkapy.common import TopicPartition
from aiokafkapy.errors import InvalidTopicError
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata, OffsetToCommit, group_of, offsets_of

Place = namedtuple("Place", "topic partition")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({TopicPartition("t", 1): 5}, OffsetToCommit(5)),
        ({("t", 1): 5}, OffsetToCommit(5)),
        ({("t", 1): 0}, OffsetToCommit(0)),
        ({Place("t", 1): OffsetToCommit(5, 2, "x")}, OffsetToCommit(5, 2, "x")),
        ({aiokafka.TopicPartition("t", 1): 5}, OffsetToCommit(5)),
        ({aiokafka.TopicPartition("t", 1): OffsetAndMetadata(5, "x")}, OffsetToCommit(5, -1, "x")),
        ({TopicPartition("t", 1): SimpleNamespace(offset=5, leader_epoch=None, metadata=None)}, OffsetToCommit(5)),
        ({TopicPartition("t", 1): numpy.int64(5)}, OffsetToCommit(5)),
        ({("t", numpy.int32(1)): OffsetToCommit(numpy.int64(5), numpy.int32(2))}, OffsetToCommit(5, 2)),  # type: ignore[arg-type]
        ([confluent_kafka.TopicPartition("t", 1, 5)], OffsetToCommit(5)),
        ([confluent_kafka.TopicPartition("t", 1, 5, "x", 3)], OffsetToCommit(5, 3, "x")),
    ],
)
def test_offsets_of_any_client(given: Any, expected: OffsetToCommit) -> None:
    found = offsets_of(given)
    assert found == {TopicPartition("t", 1): expected}
    assert all(type(number) is int for number in found[TopicPartition("t", 1)][:2])


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({TopicPartition("t", 1): -1}, f"t-1: an offset to commit is -1: write 0 to {2**63 - 1}"),
        ({TopicPartition("t", 1): True}, "t-1: an offset to commit is a bool, not an int"),
        ({TopicPartition("t", 1): "5"}, "t-1: an offset to commit is a str, not an int"),
        ({"t": 5}, "'t' is not a partition"),
        ([confluent_kafka.TopicPartition("t", 1)], "t-1: an offset to commit is -1001: write 0 to"),
        ({TopicPartition("t", 1): 2**63}, f"t-1: an offset to commit is {2**63}: write 0 to {2**63 - 1}"),
        ({"ab": 5}, "the partition of topic 'a' is a str, not an int"),
        ({("t", None): 5}, "the partition of topic 't' is a NoneType, not an int"),
        ({("t", True): 5}, "the partition of topic 't' is a bool, not an int"),
        ({("t", 2**31): 5}, f"the partition of topic 't' is {2**31}: write 0 to {2**31 - 1}"),
        (
            {("t", 1): SimpleNamespace(offset=5, leader_epoch="2")},
            "t-1: the leader epoch of an offset is a str, not an int",
        ),
        ({("t", 1): OffsetToCommit(5, 2**31)}, f"t-1: the leader epoch of an offset is {2**31}: write -1 to "),
        ({("t", 1): SimpleNamespace(offset=5, metadata=b"x")}, "t-1: the metadata of an offset is a bytes, not a str"),
        ({("t", 1): OffsetToCommit(5, 2, "\ud800")}, "t-1: the metadata of an offset has a lone surrogate"),
    ],
)
def test_a_value_that_is_not_an_offset_is_refused(given: Any, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        offsets_of(given)


@pytest.mark.parametrize("name", ["a/b", 7, None])
def test_a_name_that_no_topic_has_is_refused(name: Any) -> None:
    with pytest.raises(InvalidTopicError, match=str(name)):
        offsets_of({(name, 1): 5})


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"group_id": "\ud800"}, "the group's id has a lone surrogate"),
        ({"generation_id": "4"}, "the generation of the group is a str, not an int"),
        ({"generation_id": 2**31}, f"the generation of the group is {2**31}: write -1 to {2**31 - 1}"),
        ({"member_id": b"m"}, "the member's id in the group is a bytes, not a str"),
        ({"group_instance_id": 5}, "the member's group_instance_id is a int, not a str"),
    ],
)
def test_an_invalid_member_is_refused(given: dict[str, Any], words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        group_of(SimpleNamespace(**{"group_id": "g"} | given))


def test_groups_of_any_client() -> None:
    assert group_of("g") == GroupMetadata("g", -1, "", None)
    told = SimpleNamespace(group_id="g", generation_id=4, member_id="m", group_instance_id="i")
    assert group_of(told) == GroupMetadata("g", 4, "m", "i")
    assert group_of(SimpleNamespace(group_id="g", generation_id=None, member_id=None)) == GroupMetadata("g")
    with pytest.raises(TypeError, match="5 is not a group"):
        group_of(5)
    with pytest.raises(ValueError, match="the group has no id"):
        group_of("")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (b"CGMDv2:\xff\xff\xff\xffg\x00\x00\x01", GroupMetadata("g")),
        (b"CGMDv2:\x05\x00\x00\x00g\x00m-1\x00\x00one\x00", GroupMetadata("g", 5, "m-1", "one")),
    ],
)
def test_confluent_kafka_s_bytes(given: bytes, expected: GroupMetadata) -> None:
    assert group_of(given) == expected


@pytest.mark.parametrize("group_id", ["g", "a group"])
@pytest.mark.parametrize("instance", [None, "one"])
def test_confluent_kafka_writes_them_so(group_id: str, instance: str | None) -> None:
    options: dict[str, Any] = {"bootstrap.servers": "127.0.0.1:1", "group.id": group_id, "log_level": 0}
    if instance is not None:
        options["group.instance.id"] = instance
    consumer = confluent_kafka.Consumer(options)
    assert group_of(consumer.consumer_group_metadata()) == GroupMetadata(group_id, -1, "", instance)
    consumer.close()


def test_truncated_bytes_are_reported() -> None:
    for given in (b"CGMDv2:", b"CGMDv2:\x05\x00\x00\x00g\x00"):
        with pytest.raises(ValueError, match="cut short"):
            group_of(given)
