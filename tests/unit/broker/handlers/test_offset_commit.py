"""OffsetCommit, OffsetFetch, OffsetDelete: the offsets of a group."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.protocol.api import ApiKey

from .group_requests import call, commit, joined, sync, versions
from .harness import Harness


def committed(harness: Harness, version: int, partitions: list[int] | None) -> dict[int, Any]:
    topics = None if partitions is None else [{"name": "t", "partition_indexes": partitions}]
    if version >= 8:
        body = call(harness, ApiKey.OFFSET_FETCH, version, groups=[{"group_id": "g", "topics": topics}])
        (answer,) = body.groups
    else:
        answer = call(harness, ApiKey.OFFSET_FETCH, version, group_id="g", topics=topics)
    assert getattr(answer, "error_code", 0) == 0
    return {each.partition_index: each for topic in answer.topics for each in topic.partitions}


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_COMMIT))
async def test_commit_in_every_version(harness: Harness, version: int) -> None:
    assert commit(harness, version, 5) == 0
    assert commit(harness, version, 5, partition=9) == 3
    assert commit(harness, version, 6, metadata="x" * 4_097) == 12
    assert committed(harness, 9, [0])[0].committed_offset == 5


@pytest.mark.parametrize("version", versions(ApiKey.OFFSET_FETCH))
async def test_offset_fetch_in_every_version(harness: Harness, version: int) -> None:
    commit(harness, 9, 5)
    found = committed(harness, version, [0, 1])
    assert (found[0].committed_offset, found[0].metadata, found[0].error_code) == (5, "note", 0)
    assert (found[1].committed_offset, found[1].metadata, found[1].error_code) == (-1, "", 0)
    if version >= 5:
        assert found[0].committed_leader_epoch == 3
    if version >= 2:
        assert list(committed(harness, version, None)) == [0]


async def test_null_metadata_is_the_empty_string(harness: Harness) -> None:
    commit(harness, 9, 5, metadata=None)
    assert committed(harness, 9, [0])[0].metadata == ""


async def test_a_commit_to_a_topic_deleted_since_does_not_count(harness: Harness) -> None:
    commit(harness, 9, 5)
    harness.topics.delete("t")
    harness.topics.create("t", 2)
    assert committed(harness, 9, [0])[0].committed_offset == -1
    assert committed(harness, 9, None) == {}


async def test_a_member_of_another_generation_does_not_commit(harness: Harness) -> None:
    member = joined(harness)
    sync(harness, member)
    topics = [{"name": "t", "partitions": [{"partition_index": 0, "committed_offset": 1}]}]
    fields = {"group_id": "g", "member_id": member.member_id, "topics": topics}
    for generation_id, code in ((1, 0), (0, 22)):
        body = call(harness, ApiKey.OFFSET_COMMIT, 9, **fields, generation_id_or_member_epoch=generation_id)
        assert body.topics[0].partitions[0].error_code == code


async def test_offsets_are_deleted_while_no_member_uses_them(harness: Harness) -> None:
    topics = [{"name": "t", "partitions": [{"partition_index": 0}, {"partition_index": 9}]}]

    def delete() -> Any:
        return call(harness, ApiKey.OFFSET_DELETE, 0, group_id="g", topics=topics)

    assert delete().error_code == 69
    commit(harness, 9, 5)
    member = joined(harness)
    assert [each.error_code for each in delete().topics[0].partitions] == [86, 3]
    members = [{"member_id": member.member_id}]
    call(harness, ApiKey.LEAVE_GROUP, 5, group_id="g", members=members)
    assert [each.error_code for each in delete().topics[0].partitions] == [0, 3]
    assert committed(harness, 9, [0])[0].committed_offset == -1
