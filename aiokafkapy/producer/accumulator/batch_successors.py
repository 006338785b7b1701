"""A batch's records move on into other batches: smaller ones, one without some of them, one without a codec.

Makes a batch's successors and says which record goes where. It reads the batch by its public members alone, and decides
nothing: the accumulator knows when records have to move, queues the successors, and counts their memory. Java has
``ProducerBatch.split`` alone.

Rules:

- The batch is done, and its successors are sealed; they are as old as the batch, and take its place in the order.
- They have its identity and consecutive sequences, if it had any. When a record has failed, they end sooner than it
  did: the batches after them must be renumbered.
- Deliveries follow their records, and each record gets one outcome.
"""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter

from ...errors import IllegalStateError
from ...record.builder import RecordBatchBuilder
from ...record.compression import Compression
from ..deliveries.produce_request_result import Move, ProduceRequestResult
from .producer_batch import ProducerBatch

__all__ = ["move_out", "remove_records", "split", "uncompressed"]


def split(batch: ProducerBatch, limit: int) -> list[ProducerBatch]:
    """Move the records into batches of at most ``limit`` bytes before compression, at least one record in each."""
    batch.leave_out_withdrawn()
    pieces: list[ProducerBatch] = []
    moves: list[Move] = []
    for index, (timestamp_ms, key, value, headers) in enumerate(batch.builder.records()):
        if not pieces or pieces[-1].try_append(timestamp_ms, key, value, headers) is None:
            pieces.append(_successor(batch, RecordBatchBuilder(limit), index, batch.compression))
            pieces[-1].try_append(timestamp_ms, key, value, headers)
            moves.append(Move(index, pieces[-1].produce_result, 0))
    batch.pass_on(pieces, moves)
    return pieces


def remove_records(batch: ProducerBatch, errors: Mapping[int, BaseException]) -> ProducerBatch | None:
    """Fail the records named by index (KIP-467) and move the others into one batch; None when no record is left."""
    return _without(batch, errors, batch.compression)


def uncompressed(batch: ProducerBatch) -> ProducerBatch:
    """Move the records into a batch without a codec."""
    rest = _without(batch, {}, Compression.NONE)
    if rest is None:
        raise IllegalStateError(f"{batch!r} has no records")
    return rest


def move_out(batch: ProducerBatch, result: ProduceRequestResult) -> None:
    """The records live on in no batch, but elsewhere, as those of ``result``."""
    batch.pass_on((), [Move(0, result, 0)])


# internals


def _without(batch: ProducerBatch, errors: Mapping[int, BaseException], compression: int) -> ProducerBatch | None:
    failed = ProduceRequestResult(batch.topic_partition)
    indexes = [index for index in sorted(errors) if 0 <= index < batch.record_count]
    failed.record_count = len(indexes)
    moves = [Move(index, failed, index_there) for index_there, index in enumerate(indexes)]
    rest: ProducerBatch | None = None
    builder, runs = batch.copy_without(errors)
    if runs:
        rest = _successor(batch, builder, runs[0][0], compression)
        moves += [Move(index, rest.produce_result, index_there) for index, index_there in runs]
    batch.pass_on(() if rest is None else (rest,), sorted(moves, key=attrgetter("first")), len(indexes))
    if indexes:
        failed.fail([errors[index] for index in indexes].__getitem__)
    return rest


def _successor(batch: ProducerBatch, builder: RecordBatchBuilder, first_index: int, compression: int) -> ProducerBatch:
    successor = ProducerBatch(
        batch.topic_partition,
        builder,
        batch.created,
        order=batch.order + first_index,
        compression=compression,
        compression_level=batch.compression_level,
        is_split_batch=True,
    )
    if batch.phases is not None:
        successor.phases = batch.phases.copy()
    return successor
