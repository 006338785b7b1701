"""``TransactionRequests``: the requests of a transactional producer, to the node that coordinates its transactions.

Owns a network client of its own, because the coordinator answers slowly while it waits for markers, and records must
not queue behind that; the coordinator's address; and retries. ``Transaction`` decides the due requests and the effect
of an error. Kafka's counterparts are the request handlers of ``TransactionManager``.

Rules:

- A request is sent again until its answer is there or its time is over: after a lost connection, a coordinator that
  has moved (which is looked up again), and any other retriable error, with back-off. CONCURRENT_TRANSACTIONS means
  that the transaction before is just being ended: that takes milliseconds, so the request is repeated after twenty.
- Requests of a transaction keep the identity that they were first sent with: a late attempt cannot belong to another
  transaction.
- Another epoch than ours means another producer: INVALID_PRODUCER_EPOCH, as an answer to these requests, says that
  this one is fenced (KIP-360).

Events: ``transaction.initialized`` (debug; transactional_id, producer_id, epoch, version), ``transaction.retry``
(debug; api, error).
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

from ...client.coordinators import find_coordinator, offset_entry
from ...client.network_client import NetworkClient
from ...client.network_client_utils import await_ready, retry_until
from ...client.tap.watch import ClientWatch
from ...cluster.metadata import Metadata
from ...common import Node, TopicPartition
from ...errors import (
    BrokerError,
    ConcurrentTransactionsError,
    FencedInstanceIdError,
    FencedMemberEpochError,
    GroupAuthorizationFailedError,
    IllegalGenerationError,
    InvalidProducerEpochError,
    InvalidProducerIdMappingError,
    InvalidTxnStateError,
    KafkaError,
    OperationNotAttemptedError,
    ProducerFencedError,
    RebalanceInProgressError,
    StaleMemberEpochError,
    TopicAuthorizationFailedError,
    TransactionAbortableError,
    TransactionalIdAuthorizationFailedError,
    UnknownMemberIdError,
    UnknownProducerIdError,
    UnsupportedVersionError,
    for_code,
    make,
)
from ...observability import get_logger
from ...protocol.api import INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT, ApiKey
from ...protocol.constants import GROUP_COORDINATOR, TRANSACTION_COORDINATOR
from ...protocol.messages import build_request, by_topic
from ..identity.transaction import PreparedTxnState, Transaction
from ..identity.transaction_manager import TransactionManager
from .group_offsets import GroupMetadata, OffsetToCommit

if TYPE_CHECKING:
    from ...client.network_client_utils import RequestOptions
    from ...protocol.codec import Struct
    from ...security.sasl.mechanism import SaslMechanism
    from ..config import ProducerConfig

__all__ = ["PARTITIONS_HAVE_MOVED", "TransactionRequests"]

T = TypeVar("T")

SECONDS_WHILE_CONCURRENT: Final = 0.02
INIT_PRODUCER_ID_OF_TWO_PHASE_COMMIT: Final = 6
ASKED_AT_ONCE: Final = 3
"""Requests for markers without a pause: on one node the markers are written within two answers."""
SECONDS_BETWEEN: Final = 0.001
END_TXN_BEFORE_V2: Final = 4
TXN_OFFSET_COMMIT_BEFORE_V2: Final = 4
ADD_PARTITIONS_FOR_CLIENTS: Final = 3
"""Version 4 and later are for brokers only, with many transactions in one request."""
PARTITIONS_HAVE_MOVED: Final = (
    IllegalGenerationError,
    UnknownMemberIdError,
    RebalanceInProgressError,
    FencedMemberEpochError,
    StaleMemberEpochError,
)
"""Answers to a member of a group that is out of date."""
MOST_TOPICS_NAMED: Final = 5

# The effect of an answer as in Kafka's TransactionManager (4.1); errors are retriable, or these:
_ADDING_PARTITIONS_IS_FATAL: Final = (
    ProducerFencedError,
    TransactionalIdAuthorizationFailedError,
    InvalidTxnStateError,
    InvalidProducerIdMappingError,
)
_ADDING_OFFSETS_IS_ABORTABLE: Final = (
    GroupAuthorizationFailedError,
    TransactionAbortableError,
    UnknownProducerIdError,
)
_COMMITTING_OFFSETS_IS_ABORTABLE: Final = (
    GroupAuthorizationFailedError,
    FencedInstanceIdError,
    TransactionAbortableError,
    *PARTITIONS_HAVE_MOVED,  # Java has the first two, and brokers answer with the others too
    # Java's producer can only be closed after one of these. But a right may be granted, like the right on a topic of a
    # record; and in version 2 the abort deals with the epoch, see ``commit_offsets``.
    TopicAuthorizationFailedError,
    InvalidProducerEpochError,
)

_logger = get_logger(__name__)


class TransactionRequests:
    """Sends requests to the coordinator of one transactional id, and to those of the groups whose offsets are
    committed.
    """

    def __init__(
        self,
        config: ProducerConfig,
        transaction: Transaction,
        manager: TransactionManager,
        *,
        loop: asyncio.AbstractEventLoop,
        wakeup: Callable[[], None],
        watch: ClientWatch | None = None,
    ) -> None:
        self._transaction = transaction
        self._manager = manager
        self._timeout_ms = config.transaction_timeout_ms
        self._has_two_phases = config.transaction_two_phase_commit_enable
        self._backoff = config.retry_backoff
        self._loop = loop
        self._wakeup = wakeup
        # It requests no topics, only the brokers.
        metadata = Metadata.of(config)
        self.client = NetworkClient(config, metadata, loop=loop, watch=watch)
        self._nodes: dict[tuple[int, str], Node] = {}
        self._adding: asyncio.Task[None] | None = None

    def abort(self) -> None:
        """Close the connections at once; requests in flight end with an error."""
        if self._adding is not None:
            self._adding.cancel()
        self.client.abort()

    async def close(self) -> None:
        """Close the connections."""
        self.abort()
        if self._adding is not None:
            await asyncio.wait([self._adding])
        await self.client.close()

    def update_credentials(self, mechanism: SaslMechanism) -> None:
        """Authenticate with these from now on."""
        self.client.update_credentials(mechanism)

    @property
    def identity(self) -> PreparedTxnState:
        """Producer id and epoch, by which a prepared transaction is known."""
        identity = self._manager.producer_id_and_epoch
        return PreparedTxnState(identity.producer_id, identity.epoch)

    # requests

    async def init_producer_id(self, timeout: float, *, keeps_prepared: bool = False) -> PreparedTxnState | None:
        """Take the transactional id: fence its last producer, end the transaction that it left open, and get an
        identity.

        With ``keeps_prepared`` a prepared transaction stays prepared, and its name is returned.
        """
        identity = self._manager.producer_id_and_epoch

        async def ask() -> PreparedTxnState | None:
            node = await self._coordinator(TRANSACTION_COORDINATOR, self._transaction.transactional_id)
            body = await self._send(
                node,
                ApiKey.INIT_PRODUCER_ID,
                **self._phases(node, keeps_prepared=keeps_prepared),
                transactional_id=self._transaction.transactional_id,
                transaction_timeout=self._timeout_ms,
                producer_id=identity.producer_id,
                producer_epoch=identity.epoch,
            )
            self._check_initialized(body.error_code, keeps_prepared=keeps_prepared)
            self._manager.use_identity(body.producer_id, body.producer_epoch)
            self._transaction.version = self._version(node)
            _logger.debug(
                "transaction.initialized",
                transactional_id=self._transaction.transactional_id,
                producer_id=body.producer_id,
                epoch=body.producer_epoch,
                version=self._transaction.version,
            )
            ongoing = getattr(body, "ongoing_txn_producer_id", -1)
            return PreparedTxnState(ongoing, body.ongoing_txn_producer_epoch) if ongoing >= 0 else None

        return await self._until(ask, timeout, "InitProducerId")

    def add_partitions_soon(self) -> None:
        """Add the partitions that wait for it, all of them in one request."""
        if self._adding is None or self._adding.done():
            self._adding = self._loop.create_task(self._add_partitions(), name="aiokafkapy-transaction")

    async def partitions_added(self) -> None:
        """Return when no partition waits for the answer any more."""
        if self._adding is not None:
            await asyncio.wait([self._adding])

    async def stop_adding_partitions(self) -> None:
        """Stop waiting for answers: the transaction is aborted."""
        if self._adding is not None:
            self._adding.cancel()
            await asyncio.wait([self._adding])

    async def add_offsets(self, group_id: str, timeout: float) -> None:
        """Tell the coordinator that the group's offsets belong to the transaction (version 1)."""
        identity = self._identity()

        async def ask() -> None:
            node = await self._coordinator(TRANSACTION_COORDINATOR, self._transaction.transactional_id)
            body = await self._send_counted(node, ApiKey.ADD_OFFSETS_TO_TXN, group_id=group_id, **identity)
            self._check(body.error_code)

        with _fatal_but_for(_ADDING_OFFSETS_IS_ABORTABLE):
            await self._until(ask, timeout, "AddOffsetsToTxn")

    async def commit_offsets(
        self, group: GroupMetadata, offsets: Mapping[TopicPartition, OffsetToCommit], timeout: float
    ) -> None:
        """Write the offsets into the transaction, at the group's coordinator."""
        topics = by_topic((tp, offset_entry(tp.partition, *one)) for tp, one in offsets.items())
        identity = self._identity()

        async def ask() -> None:
            node = await self._coordinator(GROUP_COORDINATOR, group.group_id)
            body = await self._send_counted(
                node,
                ApiKey.TXN_OFFSET_COMMIT,
                max_version=None if self._transaction.version >= 2 else TXN_OFFSET_COMMIT_BEFORE_V2,
                group_id=group.group_id,
                generation_id=group.generation_id,
                member_id=group.member_id,
                group_instance_id=group.group_instance_id,
                topics=topics,
                **identity,
            )
            for topic in body.topics:
                for answer in topic.partitions:
                    if answer.error_code == InvalidProducerEpochError.code and self._transaction.version >= 2:
                        # As for a record: an abort finds out whether the broker's time-out ended the transaction.
                        raise make(answer.error_code, topic=topic.name, partition=answer.partition_index)
                    self._check(answer.error_code, topic=topic.name, partition=answer.partition_index)

        with _fatal_but_for(_COMMITTING_OFFSETS_IS_ABORTABLE):
            await self._until(ask, timeout, "TxnOffsetCommit")

    async def end(self, *, committed: bool, timeout: float) -> None:
        """Commit or abort the transaction. An error has ``outcome_unknown`` if the coordinator may have received a
        commit.

        Also raises the error of a transaction that failed before its commit could be sent.
        """
        transaction = self._transaction
        identity = self._identity()  # a repeated request is about the same transaction

        async def ask() -> KafkaError | None:
            node = await self._coordinator(TRANSACTION_COORDINATOR, transaction.transactional_id)
            if committed and transaction.error is not None:
                return transaction.error.fresh()  # not raised here, where it might be tried again
            was_in_doubt, transaction.is_commit_in_doubt = transaction.is_commit_in_doubt, committed
            body = await self._send(
                node,
                ApiKey.END_TXN,
                max_version=None if transaction.version >= 2 else END_TXN_BEFORE_V2,
                committed=committed,
                **identity,
            )
            transaction.is_commit_in_doubt = was_in_doubt  # this request has its answer
            self._check(body.error_code)
            if getattr(body, "producer_id", -1) >= 0:
                self._manager.use_identity(body.producer_id, body.producer_epoch)
            if not self._has_two_phases:  # which need version 2
                transaction.version = self._version(node)  # of the next one: the cluster may have been upgraded
            return None

        try:
            failure = await self._until(ask, timeout, "EndTxn")
            if failure is not None:
                raise failure
        except KafkaError as error:
            error.outcome_unknown = transaction.is_commit_in_doubt
            raise

    async def markers_written(self) -> None:
        """Return once the transaction that has just ended is complete, or when the coordinator cannot tell."""
        transactional_id = self._transaction.transactional_id
        for attempt in itertools.count(1):
            node = self._nodes.get((TRANSACTION_COORDINATOR, transactional_id))
            versions = None if node is None else self.client.nodes.node_api_versions(node.node_id)
            if node is None or versions is None or not versions.supports(ApiKey.DESCRIBE_TRANSACTIONS):
                return
            body = await self._send(node, ApiKey.DESCRIBE_TRANSACTIONS, transactional_ids=[transactional_id])
            if not any(one.transaction_state.startswith("Prepare") for one in body.transaction_states):
                return
            if attempt >= ASKED_AT_ONCE:
                await asyncio.sleep(SECONDS_BETWEEN)

    # internals

    async def _add_partitions(self) -> None:
        transaction = self._transaction
        while transaction.takes_partitions and transaction.new_partitions:
            partitions = set(transaction.new_partitions)
            identity = {f"v3_and_below_{name}": value for name, value in self._identity().items()}
            try:
                ask = partial(self._ask_to_add, partitions, identity)
                await self._until(ask, self._timeout_ms / 1000, "AddPartitionsToTxn")
            except KafkaError as error:
                transaction.fail(error)
            else:
                transaction.added(partitions)
            self._wakeup()

    async def _ask_to_add(self, partitions: Collection[TopicPartition], identity: Mapping[str, Any]) -> None:
        topics = by_topic((tp, tp.partition) for tp in sorted(partitions))
        node = await self._coordinator(TRANSACTION_COORDINATOR, self._transaction.transactional_id)
        body = await self._send_counted(
            node,
            ApiKey.ADD_PARTITIONS_TO_TXN,
            max_version=ADD_PARTITIONS_FOR_CLIENTS,
            v3_and_below_topics=topics,
            **identity,
        )
        refused = [
            (topic.name, answer.partition_index, answer.partition_error_code)
            for topic in body.results_by_topic_v3_and_below
            for answer in topic.results_by_partition
            if answer.partition_error_code
        ]
        for topic, partition, code in refused:
            error = self._error(code, topic=topic, partition=partition)
            if error.retriable or isinstance(error, _ADDING_PARTITIONS_IS_FATAL):
                raise error
        if refused:
            raise _why_not_added(refused)

    def _phases(self, node: Node, *, keeps_prepared: bool) -> dict[str, Any]:
        """The fields of InitProducerId for two-phase commit, the only use of this version."""
        if not self._has_two_phases:
            return {"max_version": INIT_PRODUCER_ID_BEFORE_TWO_PHASE_COMMIT}
        versions = self.client.nodes.node_api_versions(node.node_id)
        if versions is None or not versions.supports(ApiKey.INIT_PRODUCER_ID, INIT_PRODUCER_ID_OF_TWO_PHASE_COMMIT):
            raise UnsupportedVersionError(
                "transaction_two_phase_commit_enable=True: the cluster has no two-phase commit (KIP-939, version "
                f"{INIT_PRODUCER_ID_OF_TWO_PHASE_COMMIT} of InitProducerId); Kafka 4 has it with "
                "unstable.api.versions.enable=true"
            )
        if self._version(node) < 2:
            raise UnsupportedVersionError(
                "transaction_two_phase_commit_enable=True: the cluster's transaction.version is 1, where a prepared "
                "transaction cannot be told from the one before it; two-phase commit needs 2"
            )
        return {"enable2_pc": True, "keep_prepared_txn": keeps_prepared}

    def _check_initialized(self, code: int, *, keeps_prepared: bool) -> None:
        if keeps_prepared and code == UnsupportedVersionError.code:
            raise UnsupportedVersionError(
                "the cluster's two-phase commit cannot keep the transaction that an earlier producer has prepared: "
                "with "
                "transaction_keep_prepared=False this producer starts, and that is aborted"
            )
        if self._has_two_phases and code == TransactionalIdAuthorizationFailedError.code:
            raise TransactionalIdAuthorizationFailedError(
                "the cluster does not let this client use two-phase commit: that needs "
                "transaction.two.phase.commit.enable=true in the brokers' configuration, and the right "
                f"TWO_PHASE_COMMIT on transactional_id={self._transaction.transactional_id!r}"
            )
        self._check(code)

    def _identity(self) -> dict[str, Any]:
        identity = self._manager.producer_id_and_epoch
        return {
            "transactional_id": self._transaction.transactional_id,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
        }

    def _check(self, code: int, *, topic: str | None = None, partition: int | None = None) -> None:
        if code:
            raise self._error(code, topic=topic, partition=partition)

    def _error(self, code: int, *, topic: str | None, partition: int | None) -> KafkaError:
        error = make(code, topic=topic, partition=partition)
        if isinstance(error, InvalidProducerEpochError | ProducerFencedError):
            return ProducerFencedError(
                f"another producer has taken transactional_id={self._transaction.transactional_id!r}, or a transaction "
                f"was open for longer than transaction_timeout_ms={self._timeout_ms}: close this one"
            )
        if isinstance(error, InvalidTxnStateError):
            return InvalidTxnStateError(
                f"the coordinator has no open transaction of transactional_id={self._transaction.transactional_id!r}: "
                f"was it open for longer than transaction_timeout_ms={self._timeout_ms}? Close this producer"
            )
        return error

    async def _send(self, node: Node, api_key: ApiKey, *, max_version: int | None = None, **fields: object) -> Struct:
        options: RequestOptions = {} if max_version is None else {"max_version": max_version}
        return await self.client.send_and_wait(
            api_key, lambda version: build_request(api_key, version, **fields), node=node, **options
        )

    async def _send_counted(self, node: Node, api_key: ApiKey, **fields: Any) -> Struct:
        """As ``_send``; the transaction counts the request until its answer is there."""
        self._transaction.unanswered += 1
        body = await self._send(node, api_key, **fields)
        self._transaction.unanswered -= 1
        return body

    async def _coordinator(self, key_type: int, key: str) -> Node:
        """The coordinator's node, connected, so that its version is known."""
        node = self._nodes.get((key_type, key))
        if node is None:
            node = self._nodes[key_type, key] = await find_coordinator(self.client, key_type, key)
        return await await_ready(self.client, node, self._loop.time)

    def _version(self, node: Node) -> int:
        """The cluster's ``transaction.version``, as far as this node has the APIs that version 2 needs."""
        known = self.client.nodes.node_api_versions(node.node_id)
        return 2 if known is not None and known.finalized_features.get("transaction.version", 0) >= 2 else 1

    async def _until(self, ask: Callable[[], Awaitable[T]], timeout: float, name: str) -> T:
        """The result of ``ask``, which is repeated after retriable errors. Raises any other error, and
        KafkaTimeoutError.
        """
        return await retry_until(
            ask,
            timeout,
            self._backoff,
            before_next=partial(self._before_next, name),
            describe=lambda seconds, last: (
                f"transaction {self._transaction.transactional_id!r}: {name} had no answer within {seconds:g} s: "
                f"{last or 'no coordinator was reached'}"
            ),
            delay_for=_delay_for,
        )

    def _before_next(self, name: str, error: KafkaError) -> None:
        if not self.client.is_active:
            raise error
        _logger.debug("transaction.retry", api=name, error=str(error))
        if not isinstance(error, ConcurrentTransactionsError):
            self._nodes.clear()


@contextmanager
def _fatal_but_for(abortable: tuple[type[KafkaError], ...]) -> Iterator[None]:
    """After an answer that is neither one of these nor retriable the producer can only be closed."""
    try:
        yield
    except BrokerError as error:
        error.fatal = not (error.retriable or isinstance(error, abortable))
        raise


def _why_not_added(refused: Sequence[tuple[str, int, int]]) -> KafkaError:
    """An abortable error for topics, partitions and codes, that names every topic with its reason."""
    topics: dict[int, dict[str, None]] = {}
    for topic, _, code in refused:
        topics.setdefault(code, {})[topic] = None
    if len(topics) > 1:  # topics that were not attempted because of the others have no reason of their own
        topics.pop(OperationNotAttemptedError.code, None)
    text = " ".join(f"{_named(list(names))}: {make(code)}" for code, names in topics.items())
    main = TopicAuthorizationFailedError.code if TopicAuthorizationFailedError.code in topics else next(iter(topics))
    topic, partition, _ = next(one for one in refused if one[2] == main)
    error = for_code(main)(text, topic=topic, partition=partition)
    error.fatal = False  # though the class is abortable for a producer of single records
    return error


def _named(topics: Sequence[str]) -> str:
    more = len(topics) - MOST_TOPICS_NAMED
    return ", ".join(topics[:MOST_TOPICS_NAMED]) + (f" and {more} more topics" if more > 0 else "")


def _delay_for(error: KafkaError) -> float | None:
    return SECONDS_WHILE_CONCURRENT if isinstance(error, ConcurrentTransactionsError) else None
