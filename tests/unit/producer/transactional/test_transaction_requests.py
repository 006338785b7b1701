"""The requests to coordinators: their fields by version, retries, and the effect of each error."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiokafkapy.client.network_client import NetworkClient
from aiokafkapy.common import Node, TopicPartition
from aiokafkapy.errors import (
    ConcurrentTransactionsError,
    DisconnectedError,
    GroupAuthorizationFailedError,
    InvalidProducerEpochError,
    InvalidTxnStateError,
    KafkaError,
    KafkaTimeoutError,
    NotCoordinatorError,
    OperationNotAttemptedError,
    ProducerFencedError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownServerError,
    UnsupportedVersionError,
    for_code,
)
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.identity.transaction import PreparedTxnState, Transaction, TransactionState
from aiokafkapy.producer.identity.transaction_manager import TransactionManager
from aiokafkapy.producer.transactional.group_offsets import GroupMetadata, OffsetToCommit
from aiokafkapy.producer.transactional.transaction_requests import TransactionRequests
from aiokafkapy.protocol.api import ApiKey
from aiokafkapy.security.sasl.mechanism import SaslMechanism
from tests.unit.virtual_time import on_virtual_time

from .harness import NO_JITTER, A, B, settle

REFUSALS = [number for number in range(-1, 134) if number and not for_code(number).retriable]
"""The error codes of answers after which a request is not sent again."""

ONE, TWO = Node(1, "one", 1), Node(2, "two", 2)
HIGHEST = {
    ApiKey.FIND_COORDINATOR: 4,
    ApiKey.INIT_PRODUCER_ID: 6,
    ApiKey.END_TXN: 5,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.ADD_PARTITIONS_TO_TXN: 5,
    ApiKey.ADD_OFFSETS_TO_TXN: 4,
    ApiKey.DESCRIBE_TRANSACTIONS: 0,
}
Answer = SimpleNamespace | KafkaError | asyncio.Future[Any]


class Versions(SimpleNamespace):
    """``NodeApiVersions`` of a broker that has ``HIGHEST`` but for ``lacks``."""

    lacks: frozenset[tuple[int, int]] = frozenset()
    finalized_features: dict[str, int]

    def supports(self, api_key: ApiKey, version: int = 0) -> bool:
        return (api_key, version) not in self.lacks


class Client:
    """Answers each API from its own list; the last answer stays."""

    def __init__(self, transaction_version: int) -> None:
        self.is_active = True
        self.versions = Versions(finalized_features={"transaction.version": transaction_version})
        self.nodes = SimpleNamespace(
            node_api_versions=lambda node_id: self.versions,
            is_preparing_connection=lambda node_id: True,
            connection_failed=lambda node: node in self.refusing,
            states={},
        )
        self.calls: list[object] = []
        self.refusing: set[Node] = set()
        self.connecting: set[Node] = set()
        self.sent: list[tuple[ApiKey, int, Any]] = []
        self.places: list[Node | None] = []
        self.times: list[float] = []
        self.answers: dict[ApiKey, Iterator[Answer]] = {}

    def ready(self, node: Node, now: float) -> bool:
        return node not in self.refusing | self.connecting

    async def wait_for_change(self) -> None:
        self.connecting.clear()

    def abort(self) -> None:
        self.calls.append("abort")

    async def close(self) -> None:
        self.calls.append("close")

    def update_credentials(self, mechanism: object) -> None:
        self.calls.append(mechanism)

    async def send_and_wait(
        self,
        api_key: ApiKey,
        build: Callable[[int], Any],
        *,
        node: Node | None = None,
        timeout: float | None = None,
        max_version: int | None = None,
        min_version: int | None = None,
    ) -> Any:
        version = HIGHEST[api_key] if max_version is None else min(max_version, HIGHEST[api_key])
        self.sent.append((api_key, version, build(version)))
        self.places.append(node)
        self.times.append(asyncio.get_running_loop().time())
        answer = next(self.answers[api_key])
        if isinstance(answer, KafkaError):
            raise answer
        return await answer if isinstance(answer, asyncio.Future) else answer


class World:
    """A coordinator of transactions, its client, and the transaction."""

    def __init__(self, version: int = 2, *, is_open: bool = True, **options: Any) -> None:
        loop = asyncio.get_running_loop()
        self.woken = 0
        self.transaction = Transaction("tx", self._on_new_partition)
        self.manager = TransactionManager(NO_JITTER, self.transaction)
        config = ProducerConfig(
            bootstrap_servers="one:1", transactional_id="tx", retry_backoff_ms=100, retry_backoff_max_ms=100, **options
        )
        self.transaction_requests = TransactionRequests(
            config, self.transaction, self.manager, loop=loop, wakeup=self._wakeup
        )
        self.transaction_requests.client.abort()
        self.client = Client(version)
        self.transaction_requests.client = cast(NetworkClient, self.client)
        self.will(ApiKey.FIND_COORDINATOR, found(ONE))
        self.transaction.initialize()
        if is_open:
            self.manager.use_identity(7, 3)
            self.transaction.version = version
            self.transaction.initialized()
            self.transaction.begin()

    def _on_new_partition(self) -> None:
        self.transaction_requests.add_partitions_soon()

    def _wakeup(self) -> None:
        self.woken += 1

    def will(self, api_key: ApiKey, *answers: Answer) -> None:
        """Answer so, and with the last for ever."""
        *first, last = answers

        def each() -> Iterator[Answer]:
            yield from first
            while True:
                yield last

        self.client.answers[api_key] = each()

    def requests(self, api_key: ApiKey) -> list[tuple[int, Any]]:
        """Version and body of each."""
        return [(version, body) for key, version, body in self.client.sent if key == api_key]

    async def end(self, error: int = 0, *, committed: bool = True, **identity: int) -> None:
        self.will(ApiKey.END_TXN, SimpleNamespace(error_code=error, **identity))
        await self.transaction_requests.end(committed=committed, timeout=60.0)


def found(node: Node) -> SimpleNamespace:
    return SimpleNamespace(
        coordinators=[SimpleNamespace(error_code=0, node_id=node.node_id, host=node.host, port=node.port)]
    )


def code(error: type[KafkaError]) -> int:
    assert error.code is not None
    return error.code


def initialized(error: int = 0, **more: int) -> SimpleNamespace:
    return SimpleNamespace(error_code=error, producer_id=7, producer_epoch=4, **more)


class TestInitProducerId:
    """``init_producer_id``, without and with two-phase commit."""

    @pytest.mark.parametrize(("given", "version"), [(0, 1), (1, 1), (2, 2), (3, 2)])
    @on_virtual_time
    async def test_the_identity_and_the_version_are_taken(self, given: int, version: int) -> None:
        world = World(given, is_open=False, transaction_timeout_ms=5_000)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized())
        assert await world.transaction_requests.init_producer_id(60.0) is None
        assert world.transaction_requests.identity == PreparedTxnState(7, 4)
        assert world.transaction.version == version
        ((sent, body),) = world.requests(ApiKey.INIT_PRODUCER_ID)
        assert sent == 5
        assert (body.transactional_id, body.producer_id, body.producer_epoch) == ("tx", -1, -1)
        assert body.transaction_timeout.total_seconds() == 5

    @on_virtual_time
    async def test_another_epoch_is_asked_for_by_the_identity(self) -> None:
        world = World()
        world.will(ApiKey.INIT_PRODUCER_ID, initialized())
        await world.transaction_requests.init_producer_id(60.0)
        ((_, body),) = world.requests(ApiKey.INIT_PRODUCER_ID)
        assert (body.producer_id, body.producer_epoch) == (7, 3)

    @pytest.mark.parametrize("keeps", [False, True])
    @on_virtual_time
    async def test_two_phases_are_asked_for(self, keeps: bool) -> None:
        world = World(is_open=False, transaction_two_phase_commit_enable=True)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized(ongoing_txn_producer_id=7, ongoing_txn_producer_epoch=3))
        assert await world.transaction_requests.init_producer_id(60.0, keeps_prepared=keeps) == PreparedTxnState(7, 3)
        ((sent, body),) = world.requests(ApiKey.INIT_PRODUCER_ID)
        assert (sent, body.enable2_pc, body.keep_prepared_txn) == (6, True, keeps)

    @on_virtual_time
    async def test_no_transaction_was_prepared(self) -> None:
        world = World(is_open=False, transaction_two_phase_commit_enable=True)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized(ongoing_txn_producer_id=-1, ongoing_txn_producer_epoch=-1))
        assert await world.transaction_requests.init_producer_id(60.0, keeps_prepared=True) is None

    @pytest.mark.parametrize(
        ("version", "lacks", "words"),
        [
            (2, {(ApiKey.INIT_PRODUCER_ID, 6)}, "the cluster has no two-phase commit"),
            (1, set(), "transaction.version is 1"),
        ],
    )
    @on_virtual_time
    async def test_a_cluster_without_two_phase_commit_is_reported(
        self, version: int, lacks: set[tuple[int, int]], words: str
    ) -> None:
        world = World(version, is_open=False, transaction_two_phase_commit_enable=True)
        world.client.versions.lacks = frozenset(lacks)
        with pytest.raises(UnsupportedVersionError, match=words):
            await world.transaction_requests.init_producer_id(60.0)
        assert world.requests(ApiKey.INIT_PRODUCER_ID) == []

    @pytest.mark.parametrize(
        ("error", "keeps", "words"),
        [
            (UnsupportedVersionError, True, "transaction_keep_prepared=False"),
            (TransactionalIdAuthorizationFailedError, False, "TWO_PHASE_COMMIT"),
        ],
    )
    @on_virtual_time
    async def test_a_refusal_of_two_phases_names_the_remedy(
        self, error: type[KafkaError], keeps: bool, words: str
    ) -> None:
        world = World(is_open=False, transaction_two_phase_commit_enable=True)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized(code(error)))
        with pytest.raises(error, match=words):
            await world.transaction_requests.init_producer_id(60.0, keeps_prepared=keeps)

    @on_virtual_time
    async def test_without_two_phases_the_right_of_the_id_is_meant(self) -> None:
        world = World(is_open=False)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized(code(TransactionalIdAuthorizationFailedError)))
        with pytest.raises(TransactionalIdAuthorizationFailedError) as caught:
            await world.transaction_requests.init_producer_id(60.0)
        assert "TWO_PHASE" not in str(caught.value)

    @on_virtual_time
    async def test_a_version_that_is_refused_for_another_reason_names_no_remedy(self) -> None:
        world = World(is_open=False, transaction_two_phase_commit_enable=True)
        world.will(ApiKey.INIT_PRODUCER_ID, initialized(code(UnsupportedVersionError)))
        with pytest.raises(UnsupportedVersionError) as caught:
            await world.transaction_requests.init_producer_id(60.0)
        assert "transaction_keep_prepared" not in str(caught.value)

    @on_virtual_time
    async def test_new_credentials_reach_its_client(self) -> None:
        world = World()
        mechanism = cast(SaslMechanism, object())
        world.transaction_requests.update_credentials(mechanism)
        assert world.client.calls == [mechanism]


class TestAnswers:
    """Retries and errors, by the example of EndTxn."""

    @pytest.mark.parametrize("error", [InvalidProducerEpochError, ProducerFencedError])
    @on_virtual_time
    async def test_another_epoch_is_another_producer(self, error: type[KafkaError]) -> None:
        with pytest.raises(ProducerFencedError, match="another producer has taken transactional_id='tx'"):
            await World().end(code(error))

    @on_virtual_time
    async def test_a_transaction_that_is_not_open_there_is_explained_in_words(self) -> None:
        with pytest.raises(InvalidTxnStateError, match="was it open for longer than transaction_timeout_ms=60000"):
            await World().end(code(InvalidTxnStateError))

    @on_virtual_time
    async def test_a_moved_coordinator_is_looked_up_again(self) -> None:
        world = World()
        world.will(ApiKey.FIND_COORDINATOR, found(ONE), found(TWO))
        world.will(ApiKey.END_TXN, SimpleNamespace(error_code=code(NotCoordinatorError)), SimpleNamespace(error_code=0))
        await world.transaction_requests.end(committed=True, timeout=60.0)
        assert world.client.places == [None, ONE, None, TWO]
        assert 0.079 < world.client.times[-1] - world.client.times[0] < 0.101

    @on_virtual_time
    async def test_a_transaction_that_is_being_ended_is_asked_about_soon_at_the_same_node(self) -> None:
        world = World()
        concurrent = SimpleNamespace(error_code=code(ConcurrentTransactionsError))
        world.will(ApiKey.END_TXN, concurrent, concurrent, SimpleNamespace(error_code=0))
        await world.transaction_requests.end(committed=True, timeout=60.0)
        assert world.client.places == [None, ONE, ONE, ONE]
        assert world.client.times[-1] - world.client.times[0] == pytest.approx(0.04)

    @on_virtual_time
    async def test_the_coordinator_is_looked_up_once(self) -> None:
        world = World()
        await world.end()
        await world.end()
        assert len(world.requests(ApiKey.FIND_COORDINATOR)) == 1

    @on_virtual_time
    async def test_a_remembered_coordinator_that_is_away_is_looked_up_again(self) -> None:
        world = World()
        world.will(ApiKey.FIND_COORDINATOR, found(ONE), found(TWO))
        await world.end()
        world.client.refusing = {ONE}
        await world.end()
        assert world.client.places[-1] == TWO

    @on_virtual_time
    async def test_a_coordinator_that_was_just_found_is_connected_to(self) -> None:
        world = World()
        world.client.connecting = {ONE}
        await world.end()
        assert world.client.places == [None, ONE]

    @on_virtual_time
    async def test_time_is_limited_and_the_last_error_named(self) -> None:
        world = World()
        world.will(ApiKey.END_TXN, DisconnectedError("gone"))
        with pytest.raises(KafkaTimeoutError, match="'tx': EndTxn had no answer within 5 s: gone"):
            await world.transaction_requests.end(committed=False, timeout=5.0)

    @on_virtual_time
    async def test_a_closed_client_asks_no_more(self) -> None:
        world = World()
        world.client.is_active = False
        begun = asyncio.get_running_loop().time()
        with pytest.raises(DisconnectedError):
            await world.end()
        assert asyncio.get_running_loop().time() == begun


class TestEndTxn:
    """``end``: the version, the identity, and outcomes in doubt."""

    @pytest.mark.parametrize(("version", "sent"), [(1, 4), (2, 5)])
    @on_virtual_time
    async def test_version_2_gives_the_next_epoch(self, version: int, sent: int) -> None:
        world = World(version)
        await world.end(producer_id=7, producer_epoch=4)
        ((used, body),) = world.requests(ApiKey.END_TXN)
        assert (used, body.producer_id, body.producer_epoch, body.committed) == (sent, 7, 3, True)
        assert world.transaction_requests.identity == PreparedTxnState(7, 4)

    @pytest.mark.parametrize(("before", "after", "decided"), [(1, 2, 2), (2, 1, 1), (2, 0, 1)])
    @on_virtual_time
    async def test_the_version_of_the_next_transaction_is_decided_then(
        self, before: int, after: int, decided: int
    ) -> None:
        world = World(before)
        world.client.versions = Versions(finalized_features={"transaction.version": after})
        await world.end(producer_id=-1, producer_epoch=-1)
        assert world.transaction.version == decided
        ((used, _),) = world.requests(ApiKey.END_TXN)
        assert used == (5 if before >= 2 else 4)

    @on_virtual_time
    async def test_two_phases_stay_with_the_version_that_they_need(self) -> None:
        world = World(transaction_two_phase_commit_enable=True)
        world.client.versions = Versions(finalized_features={"transaction.version": 1})
        await world.end(producer_id=-1, producer_epoch=-1)
        assert world.transaction.version == 2

    @on_virtual_time
    async def test_an_answer_without_an_identity_changes_none(self) -> None:
        world = World()
        await world.end(producer_id=-1, producer_epoch=-1)
        assert world.transaction_requests.identity == PreparedTxnState(7, 3)

    @on_virtual_time
    async def test_a_lost_answer_to_a_commit_leaves_its_outcome_unknown(self) -> None:
        world = World()
        world.will(ApiKey.END_TXN, DisconnectedError("gone"))
        with pytest.raises(KafkaTimeoutError) as caught:
            await world.transaction_requests.end(committed=True, timeout=5.0)
        assert caught.value.outcome_unknown

    @on_virtual_time
    async def test_a_lost_answer_stays_in_doubt_though_a_later_one_refuses(self) -> None:
        world = World()
        world.will(
            ApiKey.END_TXN,
            DisconnectedError("gone"),
            SimpleNamespace(error_code=code(TransactionAbortableError)),
        )
        with pytest.raises(TransactionAbortableError) as caught:
            await world.transaction_requests.end(committed=True, timeout=5.0)
        assert caught.value.outcome_unknown

    @on_virtual_time
    async def test_a_refused_commit_is_known(self) -> None:
        with pytest.raises(TransactionAbortableError) as caught:
            await World().end(code(TransactionAbortableError))
        assert not caught.value.outcome_unknown

    @on_virtual_time
    async def test_an_abort_without_an_answer_leaves_no_doubt(self) -> None:
        world = World()
        world.will(ApiKey.END_TXN, DisconnectedError("gone"))
        with pytest.raises(KafkaTimeoutError) as caught:
            await world.transaction_requests.end(committed=False, timeout=5.0)
        assert not caught.value.outcome_unknown

    @on_virtual_time
    async def test_a_transaction_that_failed_meanwhile_is_not_committed(self) -> None:
        world = World()
        lookup = asyncio.get_running_loop().create_future()
        world.will(ApiKey.FIND_COORDINATOR, lookup)
        ending = asyncio.create_task(world.end())
        await settle()
        world.transaction.fail(KafkaTimeoutError("a record"))
        lookup.set_result(found(ONE))
        with pytest.raises(KafkaTimeoutError, match="a record"):
            await ending
        assert world.requests(ApiKey.END_TXN) == []


class TestPartitions:
    """AddPartitionsToTxn, in version 1."""

    @staticmethod
    def answer(**codes: int) -> SimpleNamespace:
        return SimpleNamespace(
            results_by_topic_v3_and_below=[
                SimpleNamespace(
                    name=topic,
                    results_by_partition=[SimpleNamespace(partition_index=0, partition_error_code=number)],
                )
                for topic, number in codes.items()
            ]
        )

    @on_virtual_time
    async def test_partitions_that_wait_go_in_one_request_and_the_sender_wakes(self) -> None:
        world = World(1)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, self.answer(a=0, b=0))
        assert world.transaction.must_wait(B, 0)
        assert world.transaction.must_wait(A, 0)
        await settle()
        ((version, body),) = world.requests(ApiKey.ADD_PARTITIONS_TO_TXN)
        assert version == 3
        assert [topic.name for topic in body.v3_and_below_topics] == ["a", "b"]
        assert (body.v3_and_below_producer_id, body.v3_and_below_producer_epoch) == (7, 3)
        assert not world.transaction.must_wait(A, 0)
        assert world.woken == 1

    @on_virtual_time
    async def test_a_partition_that_comes_meanwhile_goes_in_the_next_request(self) -> None:
        world = World(1)
        first = asyncio.get_running_loop().create_future()
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, first, self.answer(b=0))
        world.transaction.must_wait(A, 0)
        await settle()
        world.transaction.must_wait(B, 0)
        await settle()
        assert len(world.requests(ApiKey.ADD_PARTITIONS_TO_TXN)) == 1
        first.set_result(self.answer(a=0))
        await settle()
        names = [[t.name for t in body.v3_and_below_topics] for _, body in world.requests(ApiKey.ADD_PARTITIONS_TO_TXN)]
        assert names == [["a"], ["b"]]

    @on_virtual_time
    async def test_the_partition_that_failed_is_named_and_not_those_beside_it(self) -> None:
        world = World(1)
        not_attempted, refused = code(OperationNotAttemptedError), code(TopicAuthorizationFailedError)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, self.answer(a=not_attempted, b=refused))
        world.transaction.must_wait(A, 0)
        world.transaction.must_wait(B, 0)
        await settle()
        assert world.transaction.state is TransactionState.ABORTABLE_ERROR
        assert isinstance(world.transaction.error, TopicAuthorizationFailedError)
        assert world.transaction.error.topic == "b"
        assert world.woken == 1

    async def refused(self, **codes: int) -> KafkaError:
        """The transaction's error after these answers."""
        world = World(1)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, self.answer(**codes))
        for topic in codes:
            world.transaction.must_wait(TopicPartition(topic, 0), 0)
        await settle()
        error = world.transaction.error
        assert error is not None
        assert (world.transaction.state is TransactionState.FATAL_ERROR) == error.fatal
        return error

    @on_virtual_time
    async def test_every_topic_that_was_refused_is_named_up_to_a_number(self) -> None:
        refused = code(TopicAuthorizationFailedError)
        error = await self.refused(a=refused, b=refused)
        assert str(error) == f"a, b: {TopicAuthorizationFailedError.summary()}"
        error = await self.refused(**dict.fromkeys("abcdefg", refused))
        assert str(error) == f"a, b, c, d, e and 2 more topics: {TopicAuthorizationFailedError.summary()}"

    @on_virtual_time
    async def test_several_reasons_are_all_given_and_a_missing_right_first(self) -> None:
        error = await self.refused(
            a=code(OperationNotAttemptedError), b=code(UnknownServerError), c=code(TopicAuthorizationFailedError)
        )
        assert isinstance(error, TopicAuthorizationFailedError)
        assert error.topic == "c"
        assert str(error) == f"b: {UnknownServerError.summary()} c: {TopicAuthorizationFailedError.summary()}"

    @on_virtual_time
    async def test_only_an_answer_about_the_producer_is_fatal(self) -> None:
        """The fatal codes are those of Kafka's TransactionManager: 31, 35, 43, 50 and 52 are not, though fatal
        elsewhere.
        """
        for number in REFUSALS:
            error = await self.refused(a=number)
            assert error.fatal == (number in (47, 48, 49, 53, 90)), number
            assert error.fresh().fatal == error.fatal

    @on_virtual_time
    async def test_it_ends_with_the_producer(self) -> None:
        world = World(1)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, asyncio.get_running_loop().create_future())
        world.transaction.must_wait(A, 0)
        await settle()
        world.transaction_requests.abort()
        await settle()
        assert world.client.calls == ["abort"]
        assert [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-transaction"] == []

    @on_virtual_time
    async def test_a_partition_that_comes_later_is_added_too(self) -> None:
        world = World(1)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, self.answer(a=0), self.answer(b=0))
        for partition in (A, B):
            world.transaction.must_wait(partition, 0)
            await settle()
            assert not world.transaction.must_wait(partition, 0)

    @on_virtual_time
    async def test_an_abort_waits_for_no_answer_and_a_late_one_adds_nothing(self) -> None:
        world = World(1)
        late = asyncio.get_running_loop().create_future()
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, late)
        world.transaction.must_wait(A, 0)
        await settle()
        world.transaction.start_abort()
        await world.transaction_requests.stop_adding_partitions()
        assert world.transaction.unanswered == 1
        assert world.transaction.is_known_to_the_broker
        assert late.cancelled()
        assert world.transaction.partitions == set()

    @on_virtual_time
    async def test_a_commit_waits_for_an_answer(self) -> None:
        world = World(1)
        answer = asyncio.get_running_loop().create_future()
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, answer)
        await world.transaction_requests.partitions_added()  # there is none
        world.transaction.must_wait(A, 0)
        waiting = asyncio.create_task(world.transaction_requests.partitions_added())
        await settle()
        assert not waiting.done()
        answer.set_result(self.answer(a=0))
        await waiting
        assert world.transaction.partitions == {A}
        assert world.transaction.unanswered == 0

    @on_virtual_time
    async def test_closing_waits_for_its_end(self) -> None:
        world = World(1)
        world.will(ApiKey.ADD_PARTITIONS_TO_TXN, asyncio.get_running_loop().create_future())
        world.transaction.must_wait(A, 0)
        await settle()
        await world.transaction_requests.close()
        assert world.client.calls == ["abort", "close"]
        assert [task for task in asyncio.all_tasks() if task.get_name() == "aiokafkapy-transaction"] == []
        await World().transaction_requests.close()


class TestOffsets:
    """AddOffsetsToTxn and TxnOffsetCommit."""

    @staticmethod
    def answer(number: int) -> SimpleNamespace:
        partition = SimpleNamespace(partition_index=0, error_code=number)
        return SimpleNamespace(topics=[SimpleNamespace(name="a", partitions=[partition])])

    async def commit(self, world: World, *codes: int) -> None:
        world.will(ApiKey.TXN_OFFSET_COMMIT, *map(self.answer, codes))
        group = GroupMetadata("g", 5, "m", "i")
        await world.transaction_requests.commit_offsets(group, {A: OffsetToCommit(9, 2, "x")}, 60.0)

    @pytest.mark.parametrize(("version", "sent"), [(1, 4), (2, 5)])
    @on_virtual_time
    async def test_they_go_to_the_group_s_coordinator(self, version: int, sent: int) -> None:
        world = World(version)
        await self.commit(world, 0)
        ((_, lookup),) = world.requests(ApiKey.FIND_COORDINATOR)
        assert (lookup.key_type, list(lookup.coordinator_keys)) == (0, ["g"])
        ((used, body),) = world.requests(ApiKey.TXN_OFFSET_COMMIT)
        assert used == sent
        assert (body.group_id, body.generation_id, body.member_id, body.group_instance_id) == ("g", 5, "m", "i")
        assert (body.transactional_id, body.producer_id, body.producer_epoch) == ("tx", 7, 3)
        (topic,) = body.topics
        (partition,) = topic.partitions
        assert (partition.committed_offset, partition.committed_leader_epoch, partition.committed_metadata) == (
            9,
            2,
            "x",
        )

    @pytest.mark.parametrize(("version", "error"), [(1, ProducerFencedError), (2, InvalidProducerEpochError)])
    @on_virtual_time
    async def test_an_abort_in_version_2_returns_another_epoch(self, version: int, error: type[KafkaError]) -> None:
        with pytest.raises(KafkaError) as caught:
            await self.commit(World(version), code(InvalidProducerEpochError))
        assert type(caught.value) is error

    @on_virtual_time
    async def test_an_error_names_the_partition(self) -> None:
        with pytest.raises(GroupAuthorizationFailedError) as caught:
            await self.commit(World(), code(GroupAuthorizationFailedError))
        assert (caught.value.topic, caught.value.partition) == ("a", 0)

    @pytest.mark.parametrize(
        ("call", "abortable"),
        # As in Kafka's TransactionManager; in TxnOffsetCommit also 29, 27, 110 and 113, and 47 in version 2.
        [("add", (30, 59, 120)), ("commit", (22, 25, 27, 29, 30, 47, 82, 110, 113, 120))],
    )
    @on_virtual_time
    async def test_an_answer_that_is_not_known_to_leave_an_abort_is_fatal(
        self, call: str, abortable: tuple[int, ...]
    ) -> None:
        for number in REFUSALS:
            world = World(1 if call == "add" else 2)
            world.will(ApiKey.ADD_OFFSETS_TO_TXN, SimpleNamespace(error_code=number))
            is_commit = call == "commit"
            calling = self.commit(world, number) if is_commit else world.transaction_requests.add_offsets("g", 60.0)
            with pytest.raises(KafkaError) as caught:
                await calling
            assert caught.value.fatal == (number not in abortable), number
            world.transaction.fail(caught.value)
            assert (world.transaction.state is TransactionState.FATAL_ERROR) == caught.value.fatal

    @on_virtual_time
    async def test_a_call_without_an_answer_is_not_fatal(self) -> None:
        world = World()
        with pytest.raises(KafkaTimeoutError) as caught:
            await self.commit(world, code(NotCoordinatorError))
        assert not caught.value.fatal

    @pytest.mark.parametrize("lost", [0, 2])
    @on_virtual_time
    async def test_requests_without_an_answer_are_counted(self, lost: int) -> None:
        world = World(1)
        world.will(ApiKey.ADD_OFFSETS_TO_TXN, *[DisconnectedError("gone")] * lost, SimpleNamespace(error_code=0))
        await world.transaction_requests.add_offsets("g", 60.0)
        await self.commit(world, code(NotCoordinatorError), 0)
        assert world.transaction.unanswered == lost

    @on_virtual_time
    async def test_a_later_attempt_has_the_identity_of_the_first(self) -> None:
        world = World()
        first = asyncio.get_running_loop().create_future()
        world.will(ApiKey.TXN_OFFSET_COMMIT, first, self.answer(0))
        sending = asyncio.create_task(
            world.transaction_requests.commit_offsets(GroupMetadata("g"), {A: OffsetToCommit(9)}, 60.0)
        )
        await settle()
        world.manager.use_identity(7, 4)
        first.set_exception(DisconnectedError("gone"))
        await sending
        assert [body.producer_epoch for _, body in world.requests(ApiKey.TXN_OFFSET_COMMIT)] == [3, 3]

    @on_virtual_time
    async def test_a_moved_group_is_looked_up_again(self) -> None:
        world = World()
        await self.commit(world, code(NotCoordinatorError), 0)
        assert len(world.requests(ApiKey.FIND_COORDINATOR)) == 2

    @on_virtual_time
    async def test_a_group_is_added_at_the_transaction_s_coordinator(self) -> None:
        world = World(1)
        world.will(ApiKey.ADD_OFFSETS_TO_TXN, SimpleNamespace(error_code=0))
        await world.transaction_requests.add_offsets("g", 60.0)
        ((_, lookup),) = world.requests(ApiKey.FIND_COORDINATOR)
        assert (lookup.key_type, list(lookup.coordinator_keys)) == (1, ["tx"])
        ((_, body),) = world.requests(ApiKey.ADD_OFFSETS_TO_TXN)
        assert (body.group_id, body.transactional_id, body.producer_id) == ("g", "tx", 7)


class TestMarkers:
    """``markers_written``."""

    @staticmethod
    def state(name: str) -> SimpleNamespace:
        return SimpleNamespace(transaction_states=[SimpleNamespace(transaction_state=name)])

    @on_virtual_time
    async def test_it_asks_until_they_are_written_first_at_once_and_then_with_pauses(self) -> None:
        world = World()
        await world.end()
        world.will(
            ApiKey.DESCRIBE_TRANSACTIONS,
            *[self.state("PrepareCommit")] * 2,
            *[self.state("PrepareAbort")] * 2,
            self.state("CompleteCommit"),
        )
        await world.transaction_requests.markers_written()
        times = world.client.times[-5:]
        assert [later - times[0] for later in times] == pytest.approx([0, 0, 0, 0.001, 0.002])

    @on_virtual_time
    async def test_a_coordinator_that_cannot_tell_is_not_asked(self) -> None:
        world = World()
        await world.transaction_requests.markers_written()  # none is known
        await world.end()
        world.client.versions.lacks = frozenset({(ApiKey.DESCRIBE_TRANSACTIONS, 0)})
        await world.transaction_requests.markers_written()
        assert world.requests(ApiKey.DESCRIBE_TRANSACTIONS) == []
