"""Committing for a group without members: the requests, their coordinator, and retries."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.common import ExponentialBackoff, Node, TopicPartition
from aiokafkapy.errors import (
    CoordinatorNotAvailableError,
    DisconnectedError,
    GroupAuthorizationFailedError,
    KafkaTimeoutError,
    UnknownMemberIdError,
)
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.messages import build_response
from aiokafkapy.reader.group_offsets import GroupOffsets

from ..virtual_time import elapsed, on_virtual_time

Answer = Callable[[int], Any] | Exception
OFFSETS = {TopicPartition("t", 0): 5, TopicPartition("t", 2): 7, TopicPartition("u", 0): 0}
HANGS = Exception()
NOT_COORDINATOR, LOADING, UNKNOWN_MEMBER, NOT_ALLOWED, NOT_AVAILABLE = 16, 14, 25, 30, 15


class FakeClient:
    """Answers each request with the next of its answers; speaks the version it is told to."""

    def __init__(self, *answers: Answer, oldest: bool = False) -> None:
        self.answers = list(answers)
        self.oldest = oldest
        self.requests: list[tuple[ApiKey, Any, Node | None]] = []

    async def send_and_wait(
        self,
        api_key: ApiKey,
        build: Callable[[int], Any],
        node: Node | None = None,
        *,
        timeout: float = math.inf,
        min_version: int | None = None,
    ) -> Any:
        low, high = client_versions(api_key)
        version = low if self.oldest else high
        self.requests.append((api_key, build(version), node))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer is HANGS:
            await elapsed(timeout)
            raise KafkaTimeoutError(f"no answer within {timeout:g} s")
        if isinstance(answer, Exception):
            raise answer
        return answer(version)


def coordinator(node_id: int = 3, code: int = 0) -> Answer:
    fields = {"node_id": node_id, "host": "h", "port": 9, "error_code": code}
    return lambda version: build_response(
        ApiKey.FIND_COORDINATOR, version, coordinators=[{"key": "g", **fields}], **fields
    )


def committed(code: int = 0) -> Answer:
    partitions = [{"partition_index": 0, "error_code": code}]
    return lambda version: build_response(
        ApiKey.OFFSET_COMMIT, version, topics=[{"name": "t", "partitions": partitions}]
    )


async def commit(*answers: Answer, timeout: float = 30.0, times: int = 1, oldest: bool = False) -> FakeClient:
    client = FakeClient(*answers, oldest=oldest)
    offsets = GroupOffsets(client, ExponentialBackoff(0, 0))  # type: ignore[arg-type]
    for _ in range(times):
        await offsets.commit("g", OFFSETS, timeout)
    return client


@pytest.mark.parametrize("oldest", [False, True])
async def test_a_commit_names_no_member_and_goes_to_the_coordinator(oldest: bool) -> None:
    client = await commit(coordinator(), committed(), oldest=oldest)
    (_, asked, _), (_, request, node) = client.requests
    assert "g" in (getattr(asked, "key", None), *getattr(asked, "coordinator_keys", ()))
    assert node == Node(3, "h", 9)
    assert (request.group_id, request.generation_id_or_member_epoch, request.member_id) == ("g", -1, "")
    found = {
        (topic.name, one.partition_index): one.committed_offset for topic in request.topics for one in topic.partitions
    }
    assert found == OFFSETS


async def test_the_coordinator_is_asked_for_once() -> None:
    client = await commit(coordinator(), committed(), times=3)
    assert [api_key for api_key, _, _ in client.requests] == [ApiKey.FIND_COORDINATOR] + [ApiKey.OFFSET_COMMIT] * 3


@pytest.mark.parametrize("failure", [committed(NOT_COORDINATOR), committed(LOADING), DisconnectedError("gone")])
async def test_the_coordinator_is_looked_for_again_when_it_moved(failure: Answer) -> None:
    client = await commit(coordinator(3), failure, coordinator(4), committed())
    assert [node and node.node_id for _, _, node in client.requests] == [None, 3, None, 4]


async def test_a_coordinator_that_is_not_there_yet_is_asked_for_again() -> None:
    client = await commit(coordinator(code=NOT_AVAILABLE), coordinator(), committed())
    assert len(client.requests) == 3


@pytest.mark.parametrize(
    ("answers", "error"),
    [
        ([coordinator(), committed(UNKNOWN_MEMBER)], UnknownMemberIdError),
        ([coordinator(code=NOT_ALLOWED)], GroupAuthorizationFailedError),
    ],
)
async def test_a_lasting_failure_is_raised_at_once(answers: list[Answer], error: type[Exception]) -> None:
    with pytest.raises(error):
        await commit(*answers)


@pytest.mark.parametrize("answers", [[HANGS, coordinator(4), committed()], [coordinator(3), HANGS, coordinator(4)]])
@on_virtual_time
async def test_a_broker_that_hangs_has_a_third_of_the_time(answers: list[Answer]) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    client = await commit(*answers, committed(), timeout=30)
    assert loop.time() - begun == pytest.approx(10)
    assert client.requests[-1][2] == Node(4, "h", 9)


async def test_being_late_says_why() -> None:
    with pytest.raises(KafkaTimeoutError, match="group 'g' were not committed within 0") as late:
        await commit(coordinator(code=NOT_AVAILABLE), timeout=0.01)
    assert isinstance(late.value.__cause__, CoordinatorNotAvailableError)
