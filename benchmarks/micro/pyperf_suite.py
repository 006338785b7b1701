"""``python -m benchmarks.micro.pyperf_suite``: the cost of single steps of a record's journey, measured by pyperf.

pyperf's own options hold (``--fast``, ``--rigorous``, ``-o FILE``; ``python -m pyperf compare_to`` compares two files),
and ``--only PATTERN`` picks benchmarks by a regular expression. Times are for one record, frame, request or answer, as
the name says. ``AIOKAFKAPY_INTERPRETED=1`` measures the interpreted form; which one it was is in the metadata.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Iterator
from functools import cache, partial
from itertools import count
from time import perf_counter
from typing import Any

import pyperf

import aiokafkapy
from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.cluster.metadata_answer import MetadataAnswer
from aiokafkapy.cluster.metadata_cache import MetadataCache
from aiokafkapy.protocol.api import ApiKey, client_versions
from aiokafkapy.protocol.codec import decode_response, encode_request
from aiokafkapy.protocol.framing import FrameDecoder
from aiokafkapy.protocol.messages import build_request
from aiokafkapy.protocol.produce_request import encode_produce_request
from aiokafkapy.protocol.produce_response import decode_produce_response
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

from . import accumulator_sink
from .accumulator_sink import TIMESTAMP_MS, AccumulatorSink
from .null_broker import PRODUCE_VERSION, NullBroker
from .sample_data import json_like

__all__ = ["BENCHMARKS", "main"]

SMALL, LARGE = b"x" * 100, b"x" * 1024
BATCH_SIZE = 128 * 1024
TOPIC_ID = bytes(15) + b"\1"
METADATA_VERSION = client_versions(ApiKey.METADATA)[1]

Timed = Callable[[int], float]
"""Does its work as often as it is told; returns the seconds that it took."""


def encode_records(value: bytes, loops: int) -> float:
    """Records into the builder of a batch, until it is full, and into the next."""
    seconds = 0.0
    left = loops
    while left:
        builder = RecordBatchBuilder(BATCH_SIZE)
        records = min(left, BATCH_SIZE // (len(value) + 20))
        append_one = builder.try_append
        started = perf_counter()
        for _ in range(records):
            append_one(TIMESTAMP_MS, None, value, None)
        seconds += perf_counter() - started
        left -= records
    return seconds


def append(value: bytes, loops: int) -> float:
    """Through the accumulator, drained and completed."""
    return _timed(accumulator_sink.append, AccumulatorSink(), value, loops)


def append_many(value: bytes, loops: int) -> float:
    """The same by slices."""
    return _timed(accumulator_sink.append_many, AccumulatorSink(), value, loops)


def stamp(loops: int) -> float:
    """Header and checksum of a full batch."""
    builder = _full_batch()
    builder.seal(Compression.NONE)
    sequences = count()
    return _timed_calls(lambda: builder.stamp(1, 0, next(sequences)), loops)  # the same again costs nothing


def decode_frames(frames: int, loops: int) -> float:
    """The time of one answer of a Produce request, with so many in one read of the socket."""
    frame = _produce_answer(1)
    decoder, data = FrameDecoder(1 << 20), (len(frame).to_bytes(4) + frame) * frames
    reads = -(-loops // frames)
    return _timed_calls(lambda: decoder.feed(data), reads) * loops / (reads * frames)


def encode_produce(partitions: int, records_size: int, loops: int) -> float:
    """The pieces of a Produce request."""
    buffers = (bytes(61), memoryview(bytes(records_size)))
    topics = [("topic", TOPIC_ID, [(number, buffers) for number in range(partitions)])]
    return _timed_calls(
        lambda: encode_produce_request(PRODUCE_VERSION, 1, "aiokafkapy", None, -1, 30_000, topics), loops
    )


def decode_produce(partitions: int, loops: int) -> float:
    """The answer to a Produce request."""
    frame = _produce_answer(partitions)
    return _timed_calls(lambda: decode_produce_response(PRODUCE_VERSION, frame), loops)


def decode_metadata(partitions: int, loops: int) -> float:
    """A Metadata answer with one topic that is not known yet, as objects."""
    frame, nothing = _metadata_answer(partitions), MetadataCache()
    return _timed_calls(lambda: MetadataAnswer.read(METADATA_VERSION, frame, nothing), loops)


def update_metadata(partitions: int, loops: int, *, is_partial: bool) -> float:
    """A decoded Metadata answer into the view of the cluster; a partial one beside 1,000 other topics."""
    metadata = _EveryTopic(retry_backoff_ms=100, retry_backoff_max_ms=1000, metadata_max_age_ms=300_000)
    metadata.bootstrap([("h", 1)])
    others = 1_000 if is_partial else 0
    known = NullBroker({f"other-{number}": 6 for number in range(others)} | {"t": partitions})
    first = MetadataAnswer(_decoded(_answer_metadata(known, list(known.topics))))
    metadata.update(0, first, 0.0, is_partial=False)
    body = _decoded(_metadata_answer(partitions))

    def update() -> None:
        metadata.update(metadata.request_version, MetadataAnswer(body), 1.0, is_partial=is_partial)

    return _timed_calls(update, loops)


def compress_batch(codec: Compression, level: int | None, size: int, loops: int) -> float:
    """The records of a batch, like JSON; another part of the data each time."""
    data = memoryview(json_like(4 << 20))
    starts = range(0, len(data) - size + 1, size)
    seconds = 0.0
    for number in range(loops):
        start = starts[number % len(starts)]
        block = data[start : start + size]
        started = perf_counter()
        compress(codec, block, level)
        seconds += perf_counter() - started
    return seconds


def _all() -> Iterator[tuple[str, Timed]]:
    for value, size in ((SMALL, "100 B"), (LARGE, "1 KiB")):
        yield f"encode a record of {size}", partial(encode_records, value)
        yield f"append a record of {size}", partial(append, value)
        yield f"append_many, a record of {size}", partial(append_many, value)
    yield "stamp a batch of 128 KiB", stamp
    for frames in (1, 100):
        yield f"decode a frame, {frames} in a read", partial(decode_frames, frames)
    for partitions, records_size in ((1, 100), (1, BATCH_SIZE), (6, BATCH_SIZE), (1_000, 1_000)):
        name = f"encode a Produce request, {partitions:,} partitions of {records_size:,} B"
        yield name, partial(encode_produce, partitions, records_size)
    for partitions in (1, 6, 1_000):
        yield f"decode a Produce response, {partitions:,} partitions", partial(decode_produce, partitions)
    for partitions in (10, 10_000):
        yield f"decode Metadata, {partitions:,} partitions", partial(decode_metadata, partitions)
        yield f"update Metadata, {partitions:,} partitions", partial(update_metadata, partitions, is_partial=False)
    yield "update Metadata, 10 partitions beside 1,000 topics", partial(update_metadata, 10, is_partial=True)
    for codec in list(Compression)[1:]:
        for kib in (16, 128):
            yield f"compress {kib} KiB with {codec.codec_name}", partial(compress_batch, codec, None, kib * 1024)


BENCHMARKS: dict[str, Timed] = dict(_all())


# internals


class _EveryTopic(Metadata):
    """Metadata to which every topic matters."""

    def retain_topic(self, topic: str, *, is_internal: bool, now: float) -> bool:
        return True


def _timed(work: Callable[..., object], *arguments: Any) -> float:
    started = perf_counter()
    work(*arguments)
    return perf_counter() - started


def _timed_calls(call: Callable[[], object], loops: int) -> float:
    repeat = range(loops)
    started = perf_counter()
    for _ in repeat:
        call()
    return perf_counter() - started


def _full_batch() -> Any:
    builder = RecordBatchBuilder(BATCH_SIZE)
    while builder.size < BATCH_SIZE and builder.try_append(TIMESTAMP_MS, None, SMALL, None) > 0:
        pass
    return builder


@cache
def _produce_answer(partitions: int) -> bytes:
    topics = [("topic", TOPIC_ID, [(number, (b"",)) for number in range(partitions)])]
    request = encode_produce_request(PRODUCE_VERSION, 1, "x", None, -1, 0, topics)
    return NullBroker({"topic": partitions}).produce_answer(request)[4:]


def _answer_metadata(broker: NullBroker, names: list[str]) -> bytes:
    request = build_request(ApiKey.METADATA, METADATA_VERSION, topics=[{"name": name} for name in names])
    return broker.answer(encode_request(request, 1, "x")[4:])[4:]


@cache
def _metadata_answer(partitions: int) -> bytes:
    return _answer_metadata(NullBroker({"t": partitions}), ["t"])


def _decoded(frame: bytes) -> Any:
    return decode_response(ApiKey.METADATA, METADATA_VERSION, frame)[1]


def _pass_on(command: list[str], arguments: argparse.Namespace) -> None:
    """Tell pyperf's worker processes which benchmarks there are: they count them."""
    if arguments.only is not None:
        command.extend(("--only", arguments.only))


def main() -> None:
    """Hand the benchmarks to pyperf."""
    runner = pyperf.Runner(
        program_args=("-m", "benchmarks.micro.pyperf_suite"),
        add_cmdline_args=_pass_on,
        metadata={"core": "compiled" if aiokafkapy.compiled else "interpreted"},
    )
    runner.argparser.add_argument("--only", metavar="PATTERN", help="a regular expression that names must contain")
    runner.argparser.set_defaults(inherit_environ=["AIOKAFKAPY_INTERPRETED"])
    arguments = runner.parse_args()
    for name, benchmark in BENCHMARKS.items():
        if arguments.only is None or re.search(arguments.only, name):
            runner.bench_time_func(name, benchmark)


if __name__ == "__main__":
    main()
