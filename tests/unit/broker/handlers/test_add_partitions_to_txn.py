"""AddPartitionsToTxn: a producer's request, and the brokers' own with many transactions (KIP-890)."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import (
    ConcurrentTransactionsError,
    InvalidProducerEpochError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TransactionAbortableError,
    UnknownTopicOrPartitionError,
)
from aiokafkapy.protocol.api import ApiKey

from .harness import Harness

BATCHED = (4, 5)


class Caller:
    """Producer ids of two names, and requests for their transactions."""

    def __init__(self, harness: Harness) -> None:
        self._harness = harness
        self._ids: dict[str, tuple[int, int]] = {}
        self.node_id = harness.coordinator_id("a")

    def initialize(self, name: str) -> None:
        fields = {"transactional_id": name, "transaction_timeout": 10_000}
        answer = self._harness.call(ApiKey.INIT_PRODUCER_ID, 5, node_id=self._harness.coordinator_id(name), **fields)
        self._ids[name] = (answer.producer_id, answer.producer_epoch)

    def one(self, version: int, topics: dict[str, list[int]], epoch: int | None = None) -> dict[tuple[str, int], int]:
        """A producer's request."""
        producer_id, own = self._ids["a"]
        body = self._harness.call(
            ApiKey.ADD_PARTITIONS_TO_TXN,
            version,
            node_id=self.node_id,
            v3_and_below_transactional_id="a",
            v3_and_below_producer_id=producer_id,
            v3_and_below_producer_epoch=own if epoch is None else epoch,
            v3_and_below_topics=_topics(topics),
        )
        return _codes(body.results_by_topic_v3_and_below)

    def batched(self, version: int, *, verify_only: bool, epoch: int | None = None, **asked: list[int]) -> Any:
        """A broker's request: partitions of t by transactional id."""
        transactions = []
        for name, partitions in asked.items():
            producer_id, own = self._ids[name]
            transactions.append(
                {
                    "transactional_id": name,
                    "producer_id": producer_id,
                    "producer_epoch": own if epoch is None else epoch,
                    "verify_only": verify_only,
                    "topics": _topics({"t": partitions}),
                }
            )
        body = self._harness.call(
            ApiKey.ADD_PARTITIONS_TO_TXN, version, node_id=self.node_id, transactions=transactions
        )
        assert body.error_code == 0
        return {each.transactional_id: _codes(each.topic_results) for each in body.results_by_transaction}


@pytest.fixture
async def caller(harness: Harness) -> Caller:
    caller = Caller(harness)
    caller.initialize("a")
    return caller


def _topics(topics: dict[str, list[int]]) -> list[dict[str, Any]]:
    return [{"name": name, "partitions": partitions} for name, partitions in topics.items()]


def _codes(results: Any) -> dict[tuple[str, int], int]:
    return {
        (topic.name, each.partition_index): each.partition_error_code
        for topic in results
        for each in topic.results_by_partition
    }


@pytest.mark.parametrize("version", range(4))
async def test_all_are_added_or_none(caller: Caller, version: int) -> None:
    not_attempted, unknown = OperationNotAttemptedError.code, UnknownTopicOrPartitionError.code
    assert caller.one(version, {"t": [0, 7]}) == {("t", 0): not_attempted, ("t", 7): unknown}
    assert caller.batched(4, verify_only=True, a=[0])["a"] == {("t", 0): TransactionAbortableError.code}
    assert caller.one(version, {"t": [0, 1]}) == {("t", 0): 0, ("t", 1): 0}
    assert caller.batched(4, verify_only=True, a=[0, 1])["a"] == {("t", 0): 0, ("t", 1): 0}


@pytest.mark.parametrize("version", range(4))
async def test_a_fenced_producer_is_told_in_the_version_s_words(caller: Caller, version: int) -> None:
    told = ProducerFencedError.code if version >= 2 else InvalidProducerEpochError.code
    caller.initialize("a")
    assert caller.one(version, {"t": [0]}, epoch=0) == {("t", 0): told}


@pytest.mark.parametrize("version", BATCHED)
async def test_a_batch_of_transactions_each_by_itself(caller: Caller, harness: Harness, version: int) -> None:
    caller.initialize("b")
    other = 0 if harness.coordinator_id("b") == caller.node_id else NotCoordinatorError.code
    answer = caller.batched(version, verify_only=False, a=[0], b=[1])
    assert answer == {"a": {("t", 0): 0}, "b": {("t", 1): other}}
    assert caller.batched(version, verify_only=True, a=[0]) == {"a": {("t", 0): 0}}


@pytest.mark.parametrize("version", BATCHED)
async def test_verifying_adds_nothing(caller: Caller, version: int) -> None:
    for _ in range(2):
        answer = caller.batched(version, verify_only=True, a=[0])
        assert answer == {"a": {("t", 0): TransactionAbortableError.code}}


async def test_while_the_one_before_is_being_ended_it_is_asked_again(caller: Caller, harness: Harness) -> None:
    caller.one(3, {"t": [0]})
    harness.state.transactions.hold(True)
    fields = {"transactional_id": "a", "producer_id": 0, "producer_epoch": 0, "committed": True}
    assert harness.call(ApiKey.END_TXN, 3, node_id=caller.node_id, **fields).error_code == 0
    assert caller.one(3, {"t": [0]}) == {("t", 0): ConcurrentTransactionsError.code}
