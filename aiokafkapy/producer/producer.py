"""``KafkaProducer``: the public face.

Owns the calls and the life of a producer: it extends ``RecordSender``, which has ``enqueue`` and ``send_nowait``, by
``start``, ``close``, ``send`` and the calls for many records. It leaves the acceptance of records to ``RecordIntake``,
and the parts on the event loop to ``ProducerRuntime``, which ``start()`` makes. Kafka's counterpart has the same name;
Java's ``send`` is ``enqueue`` here, and ``send`` waits for the outcome.

It extends ``RecordSender``, because holding one would add a Python call to each record: ``send_nowait`` would
cost 2,165 instead of 1,357 instructions, and a pipelined ``enqueue`` 4,168 instead of 1,986.

Rule: a producer is made anywhere, without a loop or I/O; ``start()`` binds it to the running loop.

Events: ``producer.started`` (info; client_id, nodes).
"""

from __future__ import annotations

import asyncio
import math
import warnings
from asyncio import _get_running_loop
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from functools import cache, partial
from importlib import import_module
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, cast, overload

from .._form import compiled
from ..common import PartitionInfo, TopicPartition, timeout_of
from ..errors import IllegalStateError, KafkaError, ProducerClosedError, WrongEventLoopError
from ..observability import get_logger
from . import forks
from .arguments import partition_of, topic_name
from .closings import tell_before_closed
from .deliveries.delivery import Delivery
from .intake.cancelled_calls import take_back, tell_deliveries
from .intake.new_intake import new_intake, new_interceptors
from .intake.pending_record import GivenRecord
from .intake.record_deadlines import open_deadlines
from .intake.record_sender import K, RecordSender, V, admitted
from .intake.timed_calls import enclosing_end
from .records import CallOverflow, HeadersLike, ProducerRecord, RecordMetadata, Timestamp
from .serializers import Serializer
from .state import Lifecycle, ProducerState

if TYPE_CHECKING:
    import concurrent.futures
    from uuid import UUID

    from ..client.tap.wire_tap import TapFormat, TapTarget, WireTap
    from ..protocol.codec import Struct
    from ..protocol.otlp import MetricPoint
    from ..record.arrow import ArrowArray, ArrowStream
    from .config import ProducerConfig
    from .identity.transaction import PreparedTxnState
    from .intake.interceptors import ProducerInterceptors
    from .intake.record_deadlines import Accepted
    from .intake.record_intake import RecordIntake
    from .observation.application_metrics import Registered
    from .options.keywords import ProducerOptions, SaslKeywords
    from .runtime import ProducerRuntime
    from .statistics import ProducerHealth, ProducerStatistics
    from .tables.table_metadata import TableMetadata
    from .tables.table_send import TableSend
    from .thread_sender import ThreadSender
    from .transactional.attempts import Patience, TransactionAttempts
    from .transactional.consumed_batches import ConsumedBatches
    from .transactional.consumers import AiokafkaConsumer, ConfluentConsumer, R
    from .transactional.group_offsets import GroupLike, OffsetsLike
    from .transactional.transactions import Transactions

__all__ = ["KafkaProducer"]

_logger = get_logger(__name__)


class KafkaProducer(RecordSender[K, V]):
    """Sends records to Kafka, on one event loop.

    ``KafkaProducer("host:9092", linger_ms=5)`` takes the options of ``ProducerConfig``, or a ready ``config``; both are
    checked here. Use it in ``async with``, or call ``start()`` and ``close()``.

    A call that needs a started producer raises ProducerNotStartedError before ``start()``, ProducerClosedError after
    ``close()``, WrongEventLoopError on another event loop, ForkedProducerError in the child of a fork, and
    SenderCrashedError after a crash. Each ``timeout`` is in seconds; TypeError is raised unless it is a number or None.
    """

    __slots__ = ("__weakref__", "_config", "_interceptors", "_life", "_registered", "_thread_senders")

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str] | None = None,
        *,
        config: ProducerConfig | None = None,
        key_serializer: Serializer[K] | None = None,
        value_serializer: Serializer[V] | None = None,
        **options: Unpack[ProducerOptions],
    ) -> None:
        # Imported with the first producer and not with the class: kio takes longer than all the rest. The
        # parts that only start() needs are imported here too, since here no event loop is kept waiting.
        from .given_config import make_config

        import_module(".runtime", __package__)
        self._life: Lifecycle[ProducerRuntime] = Lifecycle()
        self._thread_senders: list[ThreadSender] = []  # made by the first call; only the first one is used
        self._registered: Registered = {}  # the application's own metrics
        given = {**options, "key_serializer": key_serializer, "value_serializer": value_serializer}
        self._config = make_config(bootstrap_servers, config, given)
        self._interceptors = new_interceptors(self._config)
        super().__init__(self._new_intake(self._config, self._interceptors, self._life.why_no_record))

    # life

    async def start(self) -> None:
        """Connect to the cluster and fetch its metadata; return when a broker has answered.

        Raises MetadataTimeoutError, with the last error of each address, if no broker answers within ``max_block_ms``,
        and AuthenticationFailedError as soon as a broker refuses the credentials. A failed or cancelled call leaves
        nothing behind and may be repeated. Does nothing on a started producer. With ``spool_dir`` it returns even if no
        broker answers, because records go to the spool; it raises SpoolError if the folder cannot be used. With
        ``transactional_id`` it also fences the last producer of that name: it raises KafkaTimeoutError if the
        coordinator does not answer within another ``max_block_ms``, and the coordinator's error if it refuses.
        """
        life = self._life
        if life.state is ProducerState.RUNNING:
            self._intake.usable_runtime()
            return
        if life.state is not ProducerState.NEW:
            raise life.why_unusable()
        _say_form()
        life.become(ProducerState.STARTING)
        runtime = life.runtime = self._new_runtime(asyncio.get_running_loop())
        forks.watch(self, KafkaProducer._forked)
        try:
            await runtime.wait_until_connected()
            transactions = runtime.open_transactions(self._intake)
            if transactions is not None:
                await transactions.initialize()
            if not life.may_become(ProducerState.RUNNING):
                raise ProducerClosedError("the producer was closed while it started")
        except BaseException as error:
            if isinstance(error, KafkaError):
                error.add_note(f"what to do: {error.remedy}")
            try:
                if not life.is_forked:
                    await runtime.close(-math.inf)
            finally:
                if life.may_become(ProducerState.NEW):
                    life.become(ProducerState.NEW)
            raise
        life.become(ProducerState.RUNNING)
        self._intake.bind(runtime)
        if transactions is not None:
            self._intake.shut_gate()
        _logger.info("producer.started", client_id=self._config.client_id, nodes=len(runtime.metadata.cluster.nodes))

    async def close(self, timeout: float | None = None) -> None:
        """Send the accepted records, fail those without an outcome after ``timeout`` seconds (None: no limit of its
        own, the records' ``delivery_timeout_ms`` holds), and leave no task, timer or socket behind.

        Idempotent: it may be called before ``start()``, again, or twice at once (the earlier deadline applies). Returns
        by the deadline. The errors of failed records are not raised here; each delivery has its own. If the call is
        cancelled, the producer closes at once. Raises WrongEventLoopError on another loop than that of ``start()``.
        """
        timeout = timeout_of("close", timeout)
        life = self._life
        if life.state in (ProducerState.FORKED, ProducerState.CLOSED):
            return  # in the child of a fork it owns nothing
        runtime = life.runtime
        # A runtime ends with its loop.
        is_alive = runtime is not None and not runtime.loop.is_closed()
        if runtime is not None and is_alive and runtime.loop is not _get_running_loop():
            raise WrongEventLoopError("close() was called on another event loop than start()")
        if is_alive:
            self._take_from_threads()
        self._intake.unbind()
        if life.may_become(ProducerState.CLOSING):
            life.become(ProducerState.CLOSING)
        try:
            if runtime is not None and is_alive:
                await runtime.close(math.inf if timeout is None else runtime.now() + max(0.0, timeout))
        finally:  # a cancelled call has closed it, too
            tell_before_closed(self)
            forks.forget(self)
            if life.state is ProducerState.CLOSING:
                life.become(ProducerState.CLOSED)
                self._interceptors.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # sending

    async def send(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> RecordMetadata:
        """Send one record, wait until it is delivered, and return its place. A record that goes to the spool
        (``spool_dir``) is waited for until it is on disk: ``metadata.is_spooled`` says so.

        Arguments may be given by position, in aiokafka's order. ``value`` None is a tombstone. ``timestamp_ms`` is
        milliseconds since 1970 or a datetime, None is now; ``headers`` are pairs or a mapping. ``delivery_timeout_ms``
        is this record's own, if shorter than the producer's. ``overflow`` replaces the topic's choice for a full
        buffer: wait, raise, drop_newest or drop_oldest.

        Raises SerializationError, InvalidTopicError, RecordTooLargeError, TypeError or ValueError for a wrong argument,
        and IllegalStateError for one that contradicts an option; no other record is affected. Raises
        MetadataTimeoutError for an unknown topic or partition and BufferExhaustedError without room, both after
        ``max_block_ms``; DeliveryTimeoutError if no broker acknowledges the record within ``delivery_timeout_ms``; and
        the error by which a broker, or an option such as ``circuit_breaker``, refuses the record. ``outcome_unknown``
        of an error says whether the record may have been written.

        Cancelling the call before the record is accepted withdraws it. Afterwards the record is still sent, unless
        ``cancel_takes_back`` is set and its batch was never sent; ``outcome_unknown`` and a note on the CancelledError
        say which, and its ``deliveries`` has the record's, if it was accepted.
        """
        accepted: Any  # a cast is a call
        accepted = self._accept(topic, value, key, partition, timestamp_ms, headers, delivery_timeout_ms, overflow)
        value = key = headers = None  # their bytes are in the batch: while this waits, they are not held twice
        try:
            if type(accepted) is not Delivery:
                accepted = await admitted(accepted)
            return await accepted  # type: ignore[no-any-return]
        except asyncio.CancelledError as cancelled:
            self._call_cancelled((accepted,), (accepted,), cancelled)
            raise

    def send_from_thread(
        self,
        topic: str,
        value: V | None = None,
        key: K | None = None,
        partition: int | None = None,
        timestamp_ms: Timestamp | None = None,
        headers: HeadersLike | None = None,
        delivery_timeout_ms: int | None = None,
        overflow: CallOverflow | None = None,
    ) -> concurrent.futures.Future[RecordMetadata]:
        """As ``send``, from any thread: ``future.result(timeout)`` waits for the outcome.

        Records of one thread keep their order; a wrong argument is the future's error. Blocks while 1,000 records are
        not accepted yet. On the loop's own thread, for example in a future's callback, it never blocks: it raises
        BufferExhaustedError instead, and ``result()`` raises RuntimeError. Raises the error that says why
        the producer cannot accept records. ``future.cancel()`` withdraws the record until the loop has taken it.
        """
        sender = self._thread_senders[0] if self._thread_senders else self._new_thread_sender()
        ends_at = enclosing_end(topic, sender.loop) if open_deadlines else math.inf
        given = GivenRecord(topic, value, key, partition, timestamp_ms, headers)
        return sender.send(given, delivery_timeout_ms, overflow, ends_at)

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: Literal[False] = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata]: ...

    @overload
    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: bool,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]: ...

    async def send_many(
        self,
        topic: str,
        values_or_records: Iterable[V | ProducerRecord | None],
        *,
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> Sequence[RecordMetadata | BaseException]:
        """Send values (or ``ProducerRecord``s) of an iterable of any length and wait for all; outcomes in its order.

        It takes from the iterable only as fast as there is room; once a record has timed out waiting for metadata or
        room, later ones do not wait for the same condition again. A record that fails does not stop the others: with
        ``return_exceptions`` its error stands in its place, otherwise the first error is raised once all have an
        outcome, with a note of the number of failures. Cancelling stops taking; accepted records stay on their way,
        except for those that ``cancel_takes_back`` takes back; ``deliveries`` of the CancelledError has an entry for
        each record that was taken, in order: its delivery, or the error of its refusal. ``overflow`` is as in
        ``send``.
        """
        from .intake.bulk import BulkSend

        send = BulkSend(self._intake, topic, overflow)
        try:
            outcomes = await send.run(values_or_records)
        except asyncio.CancelledError as cancelled:
            self._call_cancelled(send.taken(), send.unsettled(), cancelled)
            raise
        error = None if return_exceptions else outcomes.first_error
        if error is not None:
            error.add_note(
                f"{outcomes.failed} of {len(outcomes)} records of send_many() failed; "
                "with return_exceptions=True the result has each record's outcome, and raise_all() raises all errors"
            )
            if isinstance(error, KafkaError):
                error.add_note(f"what to do: {error.remedy}")
            raise error
        return outcomes

    async def send_arrow(
        self,
        topic: str | None,
        table_or_batch: ArrowStream | ArrowArray,
        *,
        key_column: str | None = "key",
        value_column: str = "value",
        headers_column: str | None = "headers",
        topic_column: str | None = "topic",
        partition_column: str | None = "partition",
        timestamp_column: str | None = "timestamp",
        return_exceptions: bool = False,
        overflow: CallOverflow | None = None,
    ) -> TableMetadata:
        """Send the rows of a pyarrow Table, or of any object with the Arrow PyCapsule interface, and wait for all.

        ``topic`` None takes it from its column; a column that is missing is not used, unless it is the value's or its
        name was chosen. Errors of rows and cancellation are as in ``send_many``; the result has partitions and rows.

        Before a row is sent, raises TypeError for an object that is not a table, SerializationError for a missing or
        wrong column, IllegalStateError if the producer has a serializer for a column, and ModuleNotFoundError without
        pyarrow.
        """
        from ..record.arrow import ColumnNames
        from .tables.arrow_send import ArrowSend

        names = ColumnNames(value_column, key_column, headers_column, topic_column, partition_column, timestamp_column)
        send = ArrowSend(self._intake, overflow)
        send.open(topic, table_or_batch, names)
        del table_or_batch  # its buffers are released as they are encoded
        return await send.run(return_exceptions=return_exceptions)

    def open_table_send(
        self,
        topic: str | None,
        *,
        key_column: str | None = "key",
        value_column: str = "value",
        headers_column: str | None = "headers",
        topic_column: str | None = "topic",
        partition_column: str | None = "partition",
        timestamp_column: str | None = "timestamp",
        overflow: CallOverflow | None = None,
    ) -> TableSend:
        """Send tables one after the other, in ``async with``, each as ``send_arrow`` does.

        ``await tables.send(table)`` returns when the table's rows are in batches; awaiting its result gives the table's
        outcome, in which errors of rows are not raised, and ``await tables.drain()`` waits for all outcomes. Rows keep
        their order over all tables. ``tables.send`` raises the errors of ``send_arrow`` for a table that cannot be
        sent at all, and this call ValueError or IllegalStateError for a wrong ``overflow``.

        The block waits for all outcomes at its end. An exception or a cancellation that leaves it cancels the results;
        rows in batches are still sent.
        """
        from ..record.arrow import ColumnNames
        from .tables.table_send import TableSend

        names = ColumnNames(value_column, key_column, headers_column, topic_column, partition_column, timestamp_column)
        return TableSend(self._intake, topic, names, overflow)

    async def flush(self, timeout: float | None = None) -> None:
        """Send everything now, without waiting out linger, and wait for the outcomes of the records sent before the
        call.

        Raises FlushTimeoutError after ``timeout`` seconds; the records are still sent. Cancelling the call has the same
        effect. Errors of single records are not raised here: each delivery has its own. Records sent during the flush
        are not waited for.
        """
        timeout = timeout_of("flush", timeout)
        runtime = self._usable_runtime()
        self._take_from_threads()
        deadline = math.inf if timeout is None else runtime.loop.time() + max(0.0, timeout)
        started = runtime.now()
        try:
            await runtime.flush(deadline)
        finally:
            runtime.calls.record_time("flush", runtime.now() - started)

    def purge(self, topic: str | None = None, partition: int | None = None, *, in_flight: bool = False) -> int:
        """Give up the records that were never sent, of all topics, of one, or of one partition; returns their number.

        They fail with PurgedError, and so do records that wait to be accepted. With ``partition``, waiting records
        that have no partition yet are kept. ``in_flight`` also gives up records in flight, whose outcome is unknown. A
        transaction can then only be aborted. Raises InvalidTopicError for a wrong name, and ValueError for
        ``partition`` without ``topic`` or out of range. librdkafka: rd_kafka_purge.
        """
        name = None if topic is None else topic_name(topic)
        number = None if partition is None else partition_of(topic, partition)
        if name is None and number is not None:
            raise ValueError(f"purge(): partition={number} without a topic: write purge(topic, {number})")
        return self._usable_runtime().purge(name, number, in_flight=in_flight)

    def resume(self, topic: str, partition: int) -> None:
        """Accept records again for a partition in which a record failed (``enable_gapless_guarantee``).

        Call it when the failed records are dealt with: those that are sent next follow the records that were written.
        Does nothing for a partition without failures. Raises IllegalStateError while older records of it have no
        outcome: ``await flush()`` first.
        """
        name, number = topic_name(topic), partition_of(topic, partition)
        self._usable_runtime().resume(TopicPartition(name, number))

    # transactions

    def transaction(self) -> AbstractAsyncContextManager[None]:
        """``async with producer.transaction():`` opens a transaction and commits it; aborts it when an exception or
        a cancellation leaves the block, and raises that again. The producer can then begin the next transaction.

        Raises the errors of ``begin_transaction`` and ``commit_transaction``, and IllegalStateError at once without
        ``transactional_id``. After an error of the commit that is not fatal the transaction is aborted, unless its
        outcome is unknown. A cancellation during the commit does not stop the commit.
        """
        return self._transactions().scope()

    def transactions(self, timeout: float | None = None) -> TransactionAttempts:
        """A transaction that is tried until it is committed: ``async for attempt in producer.transactions():`` with
        ``async with attempt:`` inside, whose block is run again after an abort that another attempt may mend.

        ``timeout`` is in seconds from the first failure, default ``delivery_timeout_ms``; after it the last error is
        raised. A commit without an answer is asked about again, and the block is not run again before its outcome is
        known. Errors that would recur, a fenced producer and exceptions of the block's own are raised at once, the
        transaction aborted.
        """
        from .transactional.attempts import TransactionAttempts

        return TransactionAttempts(self._patience("transactions", timeout))

    def consume_transform_produce(
        self,
        consumer: AiokafkaConsumer[R] | ConfluentConsumer[R],
        *,
        group_metadata: GroupLike | None = None,
        max_records: int = 500,
        timeout: float | None = None,
    ) -> ConsumedBatches[R]:
        """Records of a consumer, batch by batch, each in a transaction with the offsets that it was read at (KIP-447):
        ``async for batch in …:`` with ``async with batch:`` and ``for record in batch:`` inside.

        ``consumer`` is aiokafka's, started, or confluent-kafka's, subscribed, with its own commits off; records are in
        its form, at most ``max_records`` in a batch. The block's end commits the offsets and the records. After an
        abort the consumer goes back to the committed offsets, and reads again, if another attempt may mend the error or
        the group has moved the partitions; ``timeout`` is that of ``transactions``, again for each batch. Any other
        exception is raised, with the consumer back at the committed offsets.

        ``group_metadata`` is as for ``send_offsets_to_transaction``, and by default the consumer's own. Raises
        TypeError for another consumer, and ConfigurationError for one that commits by itself.
        """
        from .transactional.consumed_batches import ConsumedBatches
        from .transactional.consumers import consumer_of
        from .transactional.transaction_requests import PARTITIONS_HAVE_MOVED

        patience = self._patience("consume_transform_produce", timeout, PARTITIONS_HAVE_MOVED)
        return ConsumedBatches(self._transactions(), consumer_of(consumer, group_metadata), max_records, patience)

    async def begin_transaction(self) -> None:
        """Open a transaction: records may be sent until its end. It waits for the end of the one before.

        Raises IllegalStateError without ``transactional_id`` and while a transaction is open, KafkaTimeoutError if the
        coordinator does not tell the end of the one before within ``max_block_ms``, and ProducerFencedError, or
        another fatal error, when the producer can only be closed. A cancelled call has opened none.
        """
        await self._transactions().begin()

    async def commit_transaction(self) -> None:
        """Wait for the outcome of every record of the transaction and commit it; cancelling the call does not stop it.

        Raises the error of a record or a request that failed: then only ``abort_transaction`` is left. Raises
        KafkaTimeoutError after ``max_block_ms`` without the coordinator's answer, with ``outcome_unknown``: calling it
        again, or ``begin_transaction``, asks again.
        """
        await self._transactions().commit()

    async def commit_and_begin_transaction(self) -> None:
        """Commit the transaction and open the next one at once: records that other tasks send meanwhile are not
        refused, but are the next one's. Cancelling the call does not stop it.

        Records sent before the call are committed. While some of them wait for metadata, a serializer or room, those
        after them are too; from then on all are the next transaction's, and are sent when the commit is known. Raises
        the errors of ``commit_transaction``: then no next transaction is open, and its records fail with
        TransactionAbortedError. franz-go: EndAndBeginTransaction.
        """
        await self._transactions().commit_and_begin()

    async def abort_transaction(self) -> None:
        """Abort the transaction: readers with ``read_committed`` see nothing of it. Cancelling the call does not stop
        it.

        Records that were not sent yet fail with TransactionAbortedError; those in flight are waited for. Does nothing
        when no transaction is open. Raises KafkaTimeoutError after ``max_block_ms`` without the coordinator's answer:
        calling it again, or ``begin_transaction``, asks again. Raises ProducerFencedError, or another fatal error,
        when the producer can only be closed.
        """
        await self._transactions().abort()

    async def prepare_transaction(self) -> PreparedTxnState:
        """Wait for the outcome of every record of the transaction, and let its end wait for another system's (KIP-939).

        Keep the text of the returned name in that system's transaction: ``complete_transaction`` takes it after a
        crash. From here on the transaction takes no records, has no time-out, and stays open over ``close``.

        Raises IllegalStateError without ``transaction_two_phase_commit_enable``, and the error of a record that failed:
        then only ``abort_transaction`` is left. If the call is cancelled, the transaction is open as before.
        """
        return await self._transactions().prepare()

    async def complete_transaction(self, prepared: PreparedTxnState | str | None) -> bool:
        """End the prepared transaction, this producer's own or one that an earlier producer of its name has left:
        commit it if it is ``prepared``, and abort it otherwise. True if it was committed, False if it was aborted or
        there was none.

        Raises ValueError for text that does not name a prepared transaction, and the errors of ``commit_transaction``
        and ``abort_transaction``.
        """
        if isinstance(prepared, str):
            from .identity.transaction import PreparedTxnState

            prepared = PreparedTxnState.of(prepared)
        return await self._transactions().complete(prepared)

    async def send_offsets_to_transaction(self, offsets: OffsetsLike, group_metadata: GroupLike) -> None:
        """Commit a consumer group's offsets, the next ones to read, with the transaction (KIP-447).

        ``offsets`` are numbers, or any client's objects with ``offset``, by partition, or confluent-kafka's list;
        ``group_metadata`` is a group's id, or an object with ``group_id``, ``generation_id``, ``member_id`` and
        ``group_instance_id``. Raises TypeError, ValueError and InvalidTopicError for arguments that are neither, which
        changes nothing, and the coordinator's error; after that, or after a cancellation, the transaction can only be
        aborted. A commit waits for this call, and an abort ends it with TransactionAbortedError.
        """
        from .transactional.group_offsets import group_of, offsets_of

        await self._transactions().send_offsets(offsets_of(offsets), group_of(group_metadata))

    # state

    async def partitions_for(self, topic: str) -> list[PartitionInfo]:
        """The topic's partitions and their leaders; waits for metadata up to ``max_block_ms``.

        Raises MetadataTimeoutError, with its cause, if the topic is still unknown then, InvalidTopicError for an
        invalid name; TopicAuthorizationFailedError without the right to describe it; AuthenticationFailedError if the
        brokers refuse the credentials. Cancelling the call ends the waiting and nothing else. Java: partitionsFor.
        """
        return await self._usable_runtime().partitions_for(topic_name(topic))

    async def warm_up(self, topics: str | Iterable[str]) -> None:
        """Learn about these topics and connect to the leaders of their partitions, so that the first record of each
        waits for neither.

        Returns when all are connected. Raises the errors of ``partitions_for``, and KafkaTimeoutError after
        ``max_block_ms`` for all topics together. Connections that were made stay, also when the call is cancelled.
        """
        names = [topics] if isinstance(topics, str) else list(topics)
        await self._usable_runtime().warm_up([topic_name(name) for name in names])

    def update_credentials(self, **options: Unpack[SaslKeywords]) -> None:
        """Use other credentials from now on: ``update_credentials(sasl_password="…")``.

        New connections use them at once, the others when their session is renewed; a broker that refused the old ones
        is tried again at once. ``options`` are the ``sasl_…`` ones that change. Raises ConfigurationError, and changes
        nothing, when they do not fit together or the producer's ``security_protocol`` has no SASL.
        """
        self._config = self._config.with_credentials(**options)
        runtime = self._life.runtime
        if runtime is not None and runtime.is_bound:
            runtime.update_credentials(self._config)

    async def ping(self, timeout: float | None = None) -> float:
        """Ask a broker for a sign of life; returns the seconds it took.

        Raises KafkaTimeoutError after ``timeout`` seconds (default ``request_timeout_ms``), with the cause, and
        DisconnectedError if the connection is lost before the answer; nothing is retried. Cancelling the call harms
        no other request.
        """
        return await self._usable_runtime().ping(timeout_of("ping", timeout))

    async def request(
        self,
        api_key: int,
        body: Mapping[str, object] | None = None,
        *,
        node_id: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Struct:
        """Send any other request of Kafka's protocol and return the answer's body: a way out where a call is missing.

        Not stable: ``body`` and the answer have the fields of kio's messages, in Kafka's names in snake_case, and those
        of another version from one release to the next; ``version`` keeps to one. ``node_id`` None asks the least
        loaded node. Nothing is retried. Raises ValueError for an API that is the producer's own (Produce, transactions,
        SASL), TypeError for a field that no version has, KafkaTimeoutError after ``timeout`` seconds (default
        ``request_timeout_ms``), DisconnectedError and UnsupportedVersionError.
        """
        from .raw_request import raw_request

        runtime = self._usable_runtime()
        seconds = timeout_of("request", timeout)
        return await raw_request(runtime, api_key, body, node_id=node_id, version=version, timeout=seconds)

    @property
    def health(self) -> ProducerHealth:
        """The health of the producer, which tells whether it can do its work; costs a walk over the batches without an
        outcome, no I/O. Never raises; durations are in seconds: see ``ProducerHealth``.
        """
        from .statistics import health_of

        return health_of(self.state, self._life.runtime)

    def statistics(self) -> ProducerStatistics:
        """The producer's counters since ``start()``, kept after ``close()``; durations are in seconds, sizes in bytes:
        see ``ProducerStatistics``.
        """
        from .statistics import statistics_of

        return statistics_of(self._life.runtime)

    def metrics(self) -> dict[str, float]:
        """Kafka's metric names and their values, durations in milliseconds, as there; empty before ``start()``."""
        from .statistics import metrics_of

        return metrics_of(self._life.runtime)

    def node_metrics(self) -> dict[int, dict[str, float]]:
        """Kafka's metrics of each broker, by node id (group ``producer-node-metrics``); empty before ``start()``, and
        without ``metrics_per_node=True``. A broker has its entry from its first request on.
        """
        from .statistics import node_metrics_of

        return node_metrics_of(self._life.runtime)

    def topic_metrics(self) -> dict[str, dict[str, float]]:
        """Kafka's metrics of each topic (group ``producer-topic-metrics``); empty before ``start()``, and without
        ``metrics_topics_max``: the first ``metrics_topics_max`` topics have their own entries; all others share ``*``.
        """
        from .statistics import topic_metrics_of

        return topic_metrics_of(self._life.runtime)

    async def client_instance_id(self, timeout: float | None = None) -> UUID:
        """The id that the cluster has given this producer, by which its operators find the metrics that it pushes
        (KIP-714). It stays the same until ``close``.

        Raises IllegalStateError with ``enable_metrics_push=False``, UnsupportedVersionError if no broker takes
        metrics, and KafkaTimeoutError after ``timeout`` seconds (default ``max_block_ms``).
        """
        return await self._usable_runtime().client_instance_id(timeout_of("client_instance_id", timeout))

    def register_metric_for_subscription(
        self,
        name: str,
        value: Callable[[], float],
        *,
        is_total: bool = False,
        attributes: Mapping[str, str] | None = None,
    ) -> None:
        """Push a metric of the application with the producer's, if brokers subscribe to its name (KIP-1076).

        ``value()`` is asked for at each push, on the event loop, and must be quick; its errors are logged as
        ``telemetry.metric_failed``. ``is_total``: it only grows. With other ``attributes`` it is another metric; the
        same attributes replace the first. Call it at any time, also before ``start()``. Raises TypeError, and
        ConfigurationError for a name that is empty or one of the producer's own.
        """
        from .observation.application_metrics import register_metric

        register_metric(self._registered, name, value, is_total=is_total, attributes=attributes)

    def unregister_metric_from_subscription(self, name: str, *, attributes: Mapping[str, str] | None = None) -> bool:
        """Stop pushing the metric of this name and these attributes; return False if it was not registered. Raises
        TypeError and ConfigurationError as ``register_metric_for_subscription``.
        """
        from .observation.application_metrics import unregister_metric

        return unregister_metric(self._registered, name, attributes)

    def tap(
        self,
        target: TapTarget | None = None,
        *,
        payloads: bool = False,
        format: TapFormat | None = None,  # noqa: A002
    ) -> WireTap:
        """Record requests and answers until the tap or the producer is closed; records with ``payloads`` only.

        They are appended to the file ``target`` as JSON lines, or, with ``format="pcapng"`` or a name that ends so, as
        packets that Wireshark reads; or a function is called with each; or, without a target,
        ``async for frame in tap`` gives them. Raises OSError for a file that cannot be written, and ValueError for
        another ``format``, or for ``"pcapng"`` without a file.
        """
        from ..client.tap.wire_tap import WireTap

        return self._usable_runtime().tap(WireTap(target, payloads=payloads, format=format))

    @property
    def state(self) -> ProducerState:
        """The current state of the producer."""
        return self._life.state

    @property
    def config(self) -> ProducerConfig:
        """The options in force. It is the given ``config``, or the ``ProducerConfig`` made of plain options, until
        ``update_credentials`` replaces it by a copy with the new credentials.
        """
        from .given_config import as_model

        self._config = as_model(self._config)
        return self._config

    def __repr__(self) -> str:
        return f"<KafkaProducer {self._config.client_id!r} {self.state.value}>"

    def __del__(self, _warn: Any = warnings.warn) -> None:
        life: Lifecycle[ProducerRuntime] | None = getattr(self, "_life", None)  # None when __init__ failed early
        runtime = None if life is None or not life.is_open else life.runtime
        if runtime is None:
            return
        _warn(f"unclosed {self!r}: await close() it, or use async with", ResourceWarning, source=self)
        if not runtime.loop.is_closed():
            try:
                runtime.loop.call_soon_threadsafe(runtime.abort)
            except RuntimeError:
                pass  # closed in this very moment

    # internals

    def _call_cancelled(
        self,
        taken: Iterable[Accepted | BaseException],
        unsettled: Sequence[Accepted],
        cancelled: asyncio.CancelledError,
    ) -> None:
        """Report the records that the call had taken in the error. With ``cancel_takes_back``, take back those that
        were never sent.
        """
        tell_deliveries(cancelled, taken)
        runtime = self._life.runtime
        if runtime is not None and self._config.cancel_takes_back:
            take_back(runtime, unsettled, cancelled)

    def _new_intake(
        self, config: ProducerConfig, interceptors: ProducerInterceptors, why_unusable: Callable[[], KafkaError]
    ) -> RecordIntake:
        """The way in for records; a ``MockProducer`` has another one."""
        return new_intake(config, interceptors, why_unusable)

    def _new_runtime(self, loop: asyncio.AbstractEventLoop) -> ProducerRuntime:
        """The parts of one life; ``MockProducer`` overrides it."""
        from .runtime import ProducerRuntime

        collect = partial(_telemetry, self._registered)
        return ProducerRuntime(self._config, self._intake.partitioner, loop, collect)

    def _usable_runtime(self) -> ProducerRuntime:
        """The runtime, if the producer can be used here and now; else raises the error."""
        return cast("ProducerRuntime", self._intake.usable_runtime())

    def _transactions(self) -> Transactions:
        """The transactions of a started producer. Raises the error if it has none."""
        transactions = self._usable_runtime().transactions
        if transactions is None:
            raise IllegalStateError(
                "this producer has no transactions: write transactional_id='a-name-of-this-service' to have them"
            )
        return transactions

    def _take_from_threads(self) -> None:
        for sender in self._thread_senders:
            sender.take()

    def _new_thread_sender(self) -> ThreadSender:
        from .thread_sender import ThreadSender

        runtime = self._life.runtime
        if self._life.state is not ProducerState.RUNNING or runtime is None:
            raise self._life.why_unusable()
        # Threads may make one each, and all use the first that is listed: in a second line a thread's records could
        # overtake its own in the first. A fork could find a lock held, so there is none.
        self._thread_senders.append(ThreadSender(self._intake, self._life, runtime.loop))
        return self._thread_senders[0]

    def _patience(self, call: str, timeout: float | None, also_mended: tuple[type[KafkaError], ...] = ()) -> Patience:
        """The time for which a call tries transactions again: ``timeout`` seconds, or ``delivery_timeout_ms``."""
        from .transactional.attempts import Patience

        seconds = timeout_of(call, timeout)
        if seconds is None:
            seconds = self._config.delivery_timeout_ms / 1000
        return Patience(self._transactions(), seconds, self._config.retry_backoff, also_mended)

    def _forked(self) -> object:
        """This is the child of a fork: return the parent's objects, which must be neither touched nor freed."""
        if self._life.may_become(ProducerState.FORKED):
            self._life.become(ProducerState.FORKED)
            self._intake.unbind()
            if self._life.runtime is not None:
                self._life.runtime.disown()
        return self._life.runtime


@cache
def _say_form() -> None:
    """Log the form once per process: it explains the speed."""
    if not compiled:
        _logger.debug("core.interpreted", hint="install a C compiler, then reinstall aiokafkapy")


def _telemetry(registered: Registered, runtime: ProducerRuntime) -> Sequence[MetricPoint]:
    from .statistics import telemetry_of

    return telemetry_of(registered, runtime)
