"""``CodecSampler``: measures codecs on batches that were delivered, in a thread, and has their topics use the best.

It is a ``PassingWatch``; ``CodecChooser`` decides. It knows neither requests nor answers. Java has no counterpart.

Rules: one sample at a time, of ``SAMPLE`` bytes at most, never on the loop, and with pauses: all topics together take a
few hundredths of a processor. A failure here leaves the codec as it is. zstd is used if all brokers take it, and a
codec that a broker has refused is not used again (Azure Event Hubs takes gzip alone).

Events: ``codec.chosen`` (debug; topic, codec, level, ratio), ``codec.refused`` (warning; topic, codec),
``codec.sample_failed`` (debug; topic, error).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final

from ...common import Buffer
from ...observability import get_logger
from ...record.compression import Compression, compress, decompress
from ...record.layout import BATCH_HEADER_SIZE
from ..accumulator.producer_batch import ProducerBatch
from ..accumulator.record_accumulator import RecordAccumulator
from ..observation.batch_watch import BatchWatcher, PassingWatch
from .codec_chooser import CANDIDATES, Candidate, CodecChoice, CodecChooser, Measurement

__all__ = ["LEAST_PAUSE", "SAMPLE", "CodecSampler", "measure"]

SAMPLE: Final = 64 * 1024
"""Bytes: more than the window that matters to lz4, and some 3 ms for all candidates."""
LEAST_PAUSE: Final = 0.1
"""Seconds between two samples, of all topics together."""
MOST_TOPICS: Final = 10_000
"""Topics with a choice of their own; records of others are not compressed."""

_logger = get_logger(__name__)


class CodecSampler(PassingWatch):
    """The sampler of one producer. ``topics`` are those with own options: True if the codec is chosen here."""

    def __init__(
        self,
        accumulator: RecordAccumulator,
        then: BatchWatcher | None,
        *,
        loop: asyncio.AbstractEventLoop,
        is_default: bool,
        topics: Mapping[str, bool],
        takes_zstd: Callable[[], bool],
    ) -> None:
        """``is_default``: other topics' codecs are chosen here too. ``takes_zstd`` says whether all brokers do."""
        super().__init__(then)
        self._accumulator = accumulator
        self._loop = loop
        self._is_default = is_default
        self._own = topics
        self._takes_zstd = takes_zstd
        self._choosers: dict[str, CodecChooser] = {}
        self._refused: set[int] = set()
        # The one sample
        self._executor: Executor | None = None
        self._sample: asyncio.Future[dict[Candidate, Measurement]] | None = None
        self._free_at = 0.0
        self._is_over = False

    def completed(self, batch: ProducerBatch, base_offset: int, now: float) -> None:
        """The broker has the batch."""
        if self._sample is None and now >= self._free_at and not self._is_over:
            self._maybe_sample(batch, now)
        super().completed(batch, base_offset, now)

    def refused(self, topic: str, codec: int) -> bool:
        """A broker does not take batches with this codec; True when it was chosen here."""
        if not self._is_chosen_here(topic):
            return False
        if codec not in self._refused:
            self._refused.add(codec)
            _logger.warning("codec.refused", topic=topic, codec=Compression(codec).codec_name)
            for name, chooser in self._choosers.items():
                if chooser.forbid(codec):
                    self._accumulator.use_codec(name, *chooser.chosen)
        return True

    def choices(self) -> dict[str, CodecChoice]:
        """The codec of each topic that had a sample."""
        return {topic: chooser.choice() for topic, chooser in sorted(self._choosers.items()) if chooser.samples}

    def abort(self) -> None:
        """Take no more samples. May be called again."""
        self._is_over = True
        if self._executor is not None:
            self._executor.shutdown(wait=False)
            self._executor = None

    async def settled(self) -> None:
        """Return when the thread has ended its work."""
        if self._sample is not None:
            await asyncio.wait([self._sample])

    # internals

    def _is_chosen_here(self, topic: str) -> bool:
        return self._own.get(topic, self._is_default)

    def _maybe_sample(self, batch: ProducerBatch, now: float) -> None:
        topic = batch.topic_partition[0]
        if not self._is_chosen_here(topic):
            return
        chooser = self._choosers.get(topic)
        if chooser is None:
            if len(self._choosers) >= MOST_TOPICS:
                return
            chooser = self._choosers[topic] = CodecChooser()
        builder = batch.builder
        codec, size = int(builder.compression), int(builder.records_size)
        if not chooser.is_due(now, size):
            return
        # A copy: the batch's memory is given back when this returns.
        records = b"".join(batch.buffers())[BATCH_HEADER_SIZE:] if codec else bytes(builder.records_view()[:SAMPLE])
        if self._executor is None:
            self._executor = ThreadPoolExecutor(1, thread_name_prefix="aiokafkapy-sample")
        try:
            sample = self._loop.run_in_executor(self._executor, measure, codec, records, size)
        except RuntimeError:  # the interpreter ends, and starts no thread any more
            self._is_over = True
            return
        chooser.begin(now)
        self._sample = sample
        sample.add_done_callback(partial(self._on_measured, topic, chooser))

    def _on_measured(
        self, topic: str, chooser: CodecChooser, sample: asyncio.Future[dict[Candidate, Measurement]]
    ) -> None:
        self._sample = None
        self._free_at = self._loop.time() + LEAST_PAUSE
        error = None if sample.cancelled() else sample.exception()
        if error is not None:
            _logger.debug("codec.sample_failed", topic=topic, error=repr(error))
        if error is not None or sample.cancelled() or self._is_over:
            return
        if chooser.measured(sample.result(), self._usable()):
            codec, level = chooser.chosen
            self._accumulator.use_codec(topic, codec, level)
            choice = chooser.choice()
            fields = {"topic": topic, "codec": choice.codec, "level": level, "ratio": choice.ratio}
            _logger.debug("codec.chosen", **fields)

    def _usable(self) -> Sequence[Candidate]:
        unusable = self._refused if self._takes_zstd() else self._refused | {Compression.ZSTD}
        return [candidate for candidate in CANDIDATES if candidate.codec not in unusable]


def measure(
    codec: int, records: Buffer, size: int, candidates: Collection[Candidate] = CANDIDATES
) -> dict[Candidate, Measurement]:
    """The result of each candidate for a batch's records, which are ``size`` bytes, compressed with ``codec``.
    A codec whose library is missing is left out. To be run in a thread: it takes milliseconds.
    """
    data = bytes(memoryview(decompress(codec, records, size))[:SAMPLE])
    results = {}
    for candidate in candidates:
        if candidate.codec == Compression.NONE:
            results[candidate] = Measurement(len(data), len(data), 0.0)
            continue
        try:
            compress(candidate.codec, data[:64], candidate.level)  # the first call imports the library
        except ImportError:
            continue
        began = time.thread_time()
        compressed = compress(candidate.codec, data, candidate.level)
        # A batch that would be longer is sent as it is.
        results[candidate] = Measurement(len(data), min(len(data), len(compressed)), time.thread_time() - began)
    return results
