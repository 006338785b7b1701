"""Produce (0): append record batches.

versions: 3-13 (0-2 are advertised for old librdkafkas by ApiVersions, and refused, as Kafka 4 does)
kept: one batch per partition, acks 0/1/all with min.insync.replicas, idempotence, record errors (v8+), leader hints
    with addresses (v10+), topic ids (v13), zstd from v7 on, log append time, transactions (v12+ add the partition
    themselves, KIP-890; before, the partition has to be in the transaction)
dropped: the time-out: replicas share the log, so acks=all waits for no replica; the decoding of the records of a batch
    with a sound CRC, which is accepted though they cannot be decompressed or decoded
notes: with acks=0 nothing is answered, and an error closes the connection, which is all a client can be told. v3-4
    have no log start offset. An error message goes with every error but the routing ones; Kafka has one with record
    errors only. An emulated broker refuses requests that its release does not accept, with that release's codes.
"""

from __future__ import annotations

from typing import Final

from ...common import Buffer, TopicPartition
from ...errors import (
    CorruptMessageError,
    InvalidMetadataError,
    InvalidRecordError,
    InvalidRequiredAcksError,
    KafkaError,
    NotEnoughReplicasError,
    NotLeaderOrFollowerError,
    OutOfOrderSequenceNumberError,
    TransactionalIdAuthorizationFailedError,
    UnknownProducerIdError,
    UnsupportedCompressionTypeError,
    make,
)
from ...protocol.api import ApiKey
from ...protocol.codec import Struct
from ...record.batch import RecordBatch
from ...record.compression import Compression
from ..context import RequestContext
from ..coordination.transaction import Addition, ProducerIdAndEpoch
from ..emulation.model import Emulation, UnknownProducer
from ..security.acls import Operation, ResourceType
from ..storage.log_validator import the_batch
from ..storage.topics import Partition
from .coordinator_checks import as_a_partition_leader
from .leadership import check_leader, current_leader, find_partition, find_topic, node_endpoints
from .registry import CLOSE_CONNECTION, NO_RESPONSE, Body, FinalAnswer, Response, error_message, register

__all__ = ["handle"]

ALL: Final = -1
ZSTD_FROM_VERSION: Final = 7
ABORTABLE_FROM_VERSION: Final = 11
ADDS_PARTITION_FROM_VERSION: Final = 12


def error_response(context: RequestContext, body: Body, error: KafkaError) -> FinalAnswer:
    """The error on every partition; with acks=0 the connection ends."""
    if body.acks == 0:
        return CLOSE_CONNECTION
    return _respond(
        context,
        [(topic, [_failed(context, each.index, error) for each in topic.partition_data]) for topic in body.topic_data],
        [],
    )


@register(ApiKey.PRODUCE, versions=(3, 13), error=error_response)
def handle(context: RequestContext, body: Body) -> FinalAnswer:
    """Append each partition's batch by itself: one that fails does not stop the others."""
    if body.acks not in (ALL, 0, 1):
        raise InvalidRequiredAcksError
    if body.transactional_id is not None:
        context.check_right(Operation.WRITE, ResourceType.TRANSACTIONAL_ID, body.transactional_id)
    misrouted: list[Partition] = []
    answers = [
        (requested, [_answer(context, body, requested, data, misrouted) for data in requested.partition_data])
        for requested in body.topic_data
    ]
    if body.acks == 0:
        has_failed = any(answer["error_code"] for _, partitions in answers for answer in partitions)
        return CLOSE_CONNECTION if has_failed else NO_RESPONSE
    return _respond(context, answers, misrouted)


def _answer(
    context: RequestContext, body: Body, requested: Struct, data: Struct, misrouted: list[Partition]
) -> dict[str, object]:
    partition: Partition | None = None
    try:
        name, topic_id = getattr(requested, "name", None), getattr(requested, "topic_id", None)
        topic = find_topic(context, Operation.WRITE, name, topic_id)
        partition = find_partition(topic, data.index)
        context.check_topic(topic.name, data.index)
        _check_appendable(context, body, partition)
        return _append(context, partition, data.records, body.transactional_id)
    except KafkaError as error:
        answer = _failed(context, data.index, error)
        if isinstance(error, NotLeaderOrFollowerError) and partition is not None:
            answer["current_leader"] = current_leader(partition)
            misrouted.append(partition)
        return answer


def _check_appendable(context: RequestContext, body: Body, partition: Partition) -> None:
    check_leader(context, partition)
    if body.acks == ALL:
        in_sync = len(context.state.in_sync_replicas(partition))
        needed, emulation = partition.topic.config.min_insync_replicas, context.state.emulation
        if emulation is None or emulation.caps_min_insync_replicas:
            needed = min(needed, len(partition.replicas))
        if in_sync < needed:
            raise NotEnoughReplicasError(
                f"The size of the current ISR {in_sync} is insufficient to satisfy the min.isr requirement of {needed} "
                f"for partition {partition.topic_name}-{partition.index}"
            )


def _append(
    context: RequestContext, partition: Partition, records: Buffer | None, transactional_id: str | None
) -> dict[str, object]:
    batch = the_batch(records or b"")
    if batch.is_transactional:
        _check_transaction(context, partition, batch, transactional_id)
    if context.state.emulation is not None:
        _check_as(context.state.emulation, partition, batch)
    if context.api_version < ZSTD_FROM_VERSION and batch.compression is Compression.ZSTD:
        raise UnsupportedCompressionTypeError("Produce requests with version < 7 are not allowed to use zstd")
    log = partition.log
    info = log.append(batch, partition.leader_epoch, context.state.timestamp_ms())
    if not info.is_duplicate:
        context.state.purgatory.check(partition)
    code = context.topic_error(partition.topic_name, partition.index, after=True)
    if code:
        raise make(code, topic=partition.topic_name, partition=partition.index)
    return {
        "index": partition.index,
        "error_code": 0,
        "base_offset": info.base_offset,
        "log_append_time": info.log_append_time_ms,
        "log_start_offset": log.start_offset,
    }


def _check_as(emulation: Emulation, partition: Partition, batch: RecordBatch) -> None:
    """Refuse records that the emulated broker refuses, though ours would accept them."""
    if batch.compression in emulation.refused_codecs:
        raise make(
            emulation.refused_codecs[batch.compression],
            f"{emulation.name} takes no batches that are compressed with {batch.compression.name.lower()}",
            topic=partition.topic_name,
            partition=partition.index,
        )
    if emulation.unknown_producer is UnknownProducer.TAKEN or not batch.has_producer_id or batch.base_sequence == 0:
        return
    if partition.log.producers.has_lost(batch.producer_id, batch.producer_epoch):
        text = f"Found no record of producer {batch.producer_id} in {partition.topic_name}-{partition.index}"
        if emulation.unknown_producer is UnknownProducer.UNKNOWN:
            raise UnknownProducerIdError(text)
        raise OutOfOrderSequenceNumberError(text)


def _check_transaction(
    context: RequestContext, partition: Partition, batch: RecordBatch, transactional_id: str | None
) -> None:
    """Raise unless the partition is in the producer's open transaction, or comes into it now."""
    if transactional_id is None:
        raise TransactionalIdAuthorizationFailedError
    state, topic_partition = context.state, TopicPartition(partition.topic_name, partition.index)
    producer = ProducerIdAndEpoch(batch.producer_id, batch.producer_epoch)
    with as_a_partition_leader(context, ABORTABLE_FROM_VERSION):
        if context.api_version >= ADDS_PARTITION_FROM_VERSION:
            addition = Addition(transactional_id, producer, (topic_partition,), version=2)
            state.transactions.add(addition, context.now, state.timestamp_ms())
        elif state.emulation is None or state.emulation.verifies_transactions:
            state.transactions.verify(transactional_id, producer, topic_partition)


def _failed(context: RequestContext, index: int, error: KafkaError) -> dict[str, object]:
    emulation, code = context.state.emulation, -1 if error.code is None else error.code
    if emulation is not None and not emulation.names_invalid_records and code == InvalidRecordError.code:
        code = CorruptMessageError.code
    return {
        "index": index,
        "error_code": code,
        "base_offset": -1,
        "log_append_time": -1,
        "log_start_offset": -1,
        "record_errors": [
            {"batch_index": batch_index, "batch_index_error_message": message}
            for batch_index, message in getattr(error, "record_errors", ())
        ],
        "error_message": None if isinstance(error, InvalidMetadataError) else error_message(error),
    }


def _respond(
    context: RequestContext, answers: list[tuple[Struct, list[dict[str, object]]]], misrouted: list[Partition]
) -> Response:
    return context.respond(
        responses=[
            {
                "name": getattr(requested, "name", None),
                "topic_id": getattr(requested, "topic_id", None),
                "partition_responses": partitions,
            }
            for requested, partitions in answers
        ],
        node_endpoints=node_endpoints(context, misrouted),
    )
