"""``MockProducer``: the face. It is a ``KafkaProducer``, so that code which takes one takes it.

Owns the calls for tests beside the producer's own, which ``MockRuntime`` serves.

Rules:

- Arguments, serializers, interceptors, the partitioner, states and errors are the producer's own.
- Without a key, a partition and a user's partitioner, a record goes to partition 0, as in Java.
- Records have no time-outs but those of their own calls, and no other code reads a clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Unpack, cast

from ...common import ConsumedRecord
from ...errors import IllegalStateError, KafkaError, ProducerFencedError
from ..identity.transaction import Transaction, TransactionState
from ..intake.interceptors import ProducerInterceptors
from ..intake.record_intake import RecordIntake
from ..intake.record_sender import K, V
from ..producer import KafkaProducer
from ..records import ProducerRecord
from ..serializers import Serializer
from ..state import ProducerState
from ..statistics import ProducerHealth, ProducerStatistics
from .intake import MockIntake
from .line import MockTopics
from .log import GroupOffsets, MockLog, SentRecord
from .runtime import MockFailures, MockRuntime

if TYPE_CHECKING:
    from ...client.tap.wire_tap import TapFormat, TapTarget, WireTap
    from ...cluster.cluster import Cluster
    from ...protocol.codec import Struct
    from ..config import ProducerConfig
    from ..options.keywords import ProducerOptions
    from ..runtime import ProducerRuntime

__all__ = ["MockFailures", "MockProducer"]


class MockProducer(KafkaProducer[K, V]):
    """A producer that keeps its records and sends nothing.

    ``cluster`` has the topics: a ``Cluster``, or numbers of partitions by topic; without it every topic exists and has
    one partition. With ``auto_complete`` a record is delivered when it is accepted; Java's default is False, where
    ``complete_next`` and ``error_next`` give each its outcome. The rest are ``KafkaProducer``'s options.
    """

    __slots__ = ("_auto_complete", "_log", "_metrics", "_topics", "failures")

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        cluster: Cluster | Mapping[str, int] | None = None,
        auto_complete: bool = True,
        config: ProducerConfig | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        if bootstrap_servers is None and config is None:
            bootstrap_servers = "localhost:9092"  # no client connects to it
        super().__init__(
            bootstrap_servers,
            config=config,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            **options,
        )
        self._topics = MockTopics(cluster)
        self._auto_complete = auto_complete
        self._log = MockLog(self._on_failure)
        self._metrics: dict[str, float] = {}
        self.failures = MockFailures()
        """The errors that calls raise while they are set."""

    # records that were sent

    def history(self) -> list[ProducerRecord]:
        """The records that were sent, in order, as they were called in, before serializers; of transactions, those that
        were committed. Their outcomes are not looked at, as in Java.
        """
        return [sent.record for sent in self._log.sent]

    def uncommitted_records(self) -> list[ProducerRecord]:
        """The records of the open transaction."""
        return [sent.record for sent in self._log.uncommitted]

    def records(self, topic: str, partition: int | None = None) -> list[ConsumedRecord]:
        """The records of a topic, or of a partition, that a consumer with ``read_committed`` would see, serialized, and
        those without an outcome yet, with the offset -1: ``history`` without the records that failed, by partition.
        """
        found = [
            sent.consumed()
            for sent in self._log.sent
            if sent.error is None
            and sent.topic_partition.topic == topic
            and partition in (None, sent.topic_partition.partition)
        ]
        return sorted(found, key=lambda record: record.partition)  # calls of a partition are in order of offset

    def consumer_group_offsets_history(self) -> list[GroupOffsets]:
        """The offsets of each committed transaction that had any, by group and partition."""
        return list(self._log.offsets)

    def uncommitted_offsets(self) -> GroupOffsets:
        """The offsets of the open transaction."""
        return dict(self._log.uncommitted_offsets)

    def clear(self) -> None:
        """Forget all records that were sent, also those without an outcome, which get none; offsets go on."""
        self._log.clear()

    # outcomes

    def complete_next(self) -> bool:
        """Deliver the oldest record without an outcome; False without such a record."""
        return self._log.complete_next()

    def error_next(self, error: Exception) -> bool:
        """Fail the oldest record without an outcome; False without such a record. In a transaction it counts as any
        record's error: no commit is possible any more, or, with a fatal one, nothing but ``close``.
        """
        if not isinstance(error, Exception):
            raise TypeError(f"error_next() takes an instance of an Exception, not {error!r}")
        return self._log.complete_next(error)

    def fence_producer(self) -> None:
        """Another producer has taken over the transactional id: all calls raise ProducerFencedError from now on, and
        records without an outcome fail with it. Raises IllegalStateError without transactions.
        """
        transaction = self._mock_runtime().transaction
        if transaction is None:
            raise IllegalStateError("fence_producer(): this producer has no transactional_id")
        error = ProducerFencedError("another producer has taken over the transactional id")
        transaction.fail(error)
        self._log.complete_all(error)

    # state

    @property
    def flushed(self) -> bool:
        """True when every record has its outcome."""
        return self._log.pending == 0

    @property
    def closed(self) -> bool:
        """True after ``close()``."""
        return self.state is ProducerState.CLOSED

    @property
    def transaction_initialized(self) -> bool:
        """True once a transactional producer is started."""
        transaction = self._transaction_or_none()
        return transaction is not None and transaction.state is not TransactionState.UNINITIALIZED

    @property
    def transaction_in_flight(self) -> bool:
        """True while a transaction is open."""
        transaction = self._transaction_or_none()
        return transaction is not None and transaction.is_unfinished

    @property
    def transaction_committed(self) -> bool:
        """True when the last transaction that has ended was committed."""
        runtime = self._life.runtime
        requests = None if runtime is None else cast("MockRuntime", runtime).transaction_requests
        return requests is not None and requests.commits > 0 and not requests.was_aborted

    @property
    def transaction_aborted(self) -> bool:
        """True when the last transaction that has ended was aborted."""
        runtime = self._life.runtime
        return runtime is not None and cast("MockRuntime", runtime).transaction_requests.was_aborted

    @property
    def commit_count(self) -> int:
        """Transactions that were committed since ``start()``."""
        runtime = self._life.runtime
        return 0 if runtime is None else cast("MockRuntime", runtime).transaction_requests.commits

    @property
    def sent_offsets(self) -> bool:
        """True when the open transaction has offsets of a group."""
        return bool(self._log.uncommitted_offsets)

    def set_mock_metrics(self, name: str, value: float) -> None:
        """Let ``metrics()`` have this number."""
        self._metrics[name] = value

    # the producer's own, without a network

    @property
    def health(self) -> ProducerHealth:
        """Healthy while its state and its transactions are."""
        state, runtime = self.state, self._life.runtime
        error = None if runtime is None or runtime.transaction is None else runtime.transaction.fatal_error
        return ProducerHealth(
            is_healthy=state is ProducerState.RUNNING and error is None,
            state=state.value,
            fatal_error=None if error is None else str(error),
        )

    def statistics(self) -> ProducerStatistics:
        """The counts of its records; everything else is 0."""
        log, runtime = self._log, self._life.runtime
        return ProducerStatistics(
            accepted=log.accepted,
            delivered=log.delivered,
            failed=log.failed,
            pending=log.pending,
            waiters=0 if runtime is None else runtime.admission.waiting,
            buffer_memory=self._config.buffer_memory,
            buffer_records=self._config.buffer_records,
        )

    def metrics(self) -> dict[str, float]:
        """The numbers of its records, and the metrics of ``set_mock_metrics``."""
        if self._life.runtime is None:
            return {}
        log = self._log
        ours = {
            "records-accepted-total": log.accepted,
            "records-delivered-total": log.delivered,
            "record-error-total": log.failed,
            "record-send-total": log.accepted,
        }
        return {**ours, **self._metrics}

    def node_metrics(self) -> dict[int, dict[str, float]]:
        """Empty: there are no brokers."""
        return {}

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """Empty."""
        return {}

    async def request(
        self,
        api_key: int,
        body: Mapping[str, object] | None = None,
        *,
        node_id: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Struct:
        """Raises IllegalStateError: there is no broker to ask."""
        self._intake.usable_runtime()
        raise IllegalStateError("request(): a MockProducer has no broker to ask: test this with DevBroker")

    def tap(
        self,
        target: TapTarget | None = None,
        *,
        payloads: bool = False,
        format: TapFormat | None = None,  # noqa: A002
    ) -> WireTap:
        """A tap that records nothing: nothing goes over a wire."""
        from ...client.tap.wire_tap import WireTap

        self._intake.usable_runtime()
        return WireTap(target, payloads=payloads, format=format)

    # internals

    def _new_intake(
        self, config: ProducerConfig, interceptors: ProducerInterceptors, why_unusable: Callable[[], KafkaError]
    ) -> RecordIntake:
        return MockIntake(config, interceptors, why_unusable)

    def _new_runtime(self, loop: asyncio.AbstractEventLoop) -> ProducerRuntime:
        runtime = MockRuntime(
            self._config,
            self._intake.partitioner,
            loop,
            self._topics,
            self.failures,
            auto_complete=self._auto_complete,
            log=self._log,
        )
        return cast("ProducerRuntime", runtime)

    def _mock_runtime(self) -> MockRuntime:
        return cast("MockRuntime", self._intake.usable_runtime())

    def _transaction_or_none(self) -> Transaction | None:
        runtime = self._life.runtime
        return None if runtime is None else runtime.transaction

    def _on_failure(self, sent: SentRecord) -> None:
        """A record of the open transaction failed."""
        transaction, error = self._transaction_or_none(), sent.error
        if transaction is None or error is None:
            return
        if not isinstance(error, KafkaError):
            wrapped = KafkaError(str(error) or type(error).__name__)
            wrapped.__cause__ = error
            error = wrapped
        transaction.fail(error)
