"""``CodecChooser``: the codec and level of one topic, from the costs of samples of its records.

Owns the measurements of each candidate, the price of a byte, and when the next sample is due. It compresses nothing and
knows no clock: figures and ``now`` are arguments, so that the same figures give the same choice. Java has no
counterpart.

Rules:

- The cost of a candidate is its CPU time for a byte plus ``BYTE_PRICE`` for each byte that it leaves; the lowest wins.
- A new choice must be better by ``MARGIN``: two codecs that are alike do not take turns.
- Samples are frequent at first and rare later; a topic without traffic has none. Older measurements count for
  half of each new sample.
- A call has its cost, so a small batch says little of larger ones: it is a sample only when no larger one comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

from ...record.compression import Compression

__all__ = ["BYTE_PRICE", "CANDIDATES", "Candidate", "CodecChoice", "CodecChooser", "Measurement"]

BYTE_PRICE: Final = 20e-9
"""Seconds of CPU that a byte less is worth. A gigabit's wire takes 8 ns for it; the other replicas, the disks and the
readers come on top.
"""
MARGIN: Final = 0.1
INTERVALS: Final = (0.0, 1.0, 5.0, 15.0, 60.0)
"""Seconds from one sample to the next; the last one is repeated."""
SHARE_OF_LAST: Final = 0.5
LARGE: Final = 4 * 1024
"""Bytes of records: of a smaller batch the call is a good part of the cost."""
PATIENCE: Final = 1.0
"""Seconds for which a larger batch is waited for."""


class Candidate(NamedTuple):
    """A codec with its level; None is the codec's default, or that it has no levels."""

    codec: int
    level: int | None = None

    @property
    def name(self) -> str:
        """The codec and its level, for people to read."""
        name = Compression(self.codec).codec_name
        return name if self.level is None else f"{name} at level {self.level}"


class Measurement(NamedTuple):
    """The cost of compressing a sample."""

    bytes_in: int
    bytes_out: int
    cpu_seconds: float


class CodecChoice(NamedTuple):
    """The codec of a topic, and the reason."""

    codec: str
    level: int | None
    ratio: float
    """Bytes after compression for each byte before, of samples."""
    cpu_ns_per_byte: float
    samples: int
    why: str


NONE: Final = Candidate(Compression.NONE)
CANDIDATES: Final = (
    NONE,
    Candidate(Compression.LZ4),
    Candidate(Compression.ZSTD, 1),
    Candidate(Compression.ZSTD, 3),
    Candidate(Compression.ZSTD, 6),
)
"""Each next one is slower and makes less. gzip and snappy are left out: zstd and lz4 beat them at both."""


class CodecChooser:
    """The choice for one topic. ``chosen`` is the candidate in force: no codec, until there was a sample."""

    __slots__ = ("_due_at", "_measured", "chosen", "samples")

    def __init__(self) -> None:
        self.chosen = NONE
        self.samples = 0
        self._due_at: float | None = None
        # By candidate: bytes out and CPU seconds, for each byte in
        self._measured: dict[Candidate, tuple[float, float]] = {}

    def is_due(self, now: float, size: int) -> bool:
        """True if a batch with so many bytes of records should be the next sample."""
        if self._due_at is None:
            self._due_at = now
        return now >= self._due_at + (0.0 if size >= LARGE else PATIENCE)

    def begin(self, now: float) -> None:
        """A sample is being measured: the next one is due after a while."""
        self._due_at = now + INTERVALS[min(self.samples + 1, len(INTERVALS) - 1)]

    def measured(self, results: Mapping[Candidate, Measurement], usable: Iterable[Candidate] = CANDIDATES) -> bool:
        """Add a sample, and choose among the codecs that are ``usable`` and measured. True when the choice has
        changed.
        """
        for candidate, (bytes_in, bytes_out, cpu_seconds) in results.items():
            if bytes_in > 0:
                fresh = bytes_out / bytes_in, max(0.0, cpu_seconds) / bytes_in
                old = self._measured.get(candidate, fresh)
                self._measured[candidate] = (_blend(old[0], fresh[0]), _blend(old[1], fresh[1]))
        self.samples += 1
        candidates = [each for each in usable if each in self._measured or each == NONE]
        before = self.chosen
        best = min(candidates, key=self.cost, default=NONE)
        if before not in candidates or self.cost(best) < (1 - MARGIN) * self.cost(before):
            self.chosen = best
        return self.chosen != before

    def forbid(self, codec: int) -> bool:
        """Use another codec than this one: no codec, until the next sample. True when that changes the choice."""
        if self.chosen.codec != codec:
            return False
        self.chosen = NONE
        return True

    def cost(self, candidate: Candidate) -> float:
        """Seconds for each byte."""
        ratio, cpu = self._figures(candidate)
        return cpu + BYTE_PRICE * ratio

    def choice(self) -> CodecChoice:
        """The codec in force, and the reason."""
        ratio, cpu = self._figures(self.chosen)
        codec, level = self.chosen
        name = Compression(codec).codec_name
        return CodecChoice(name, level, round(ratio, 4), round(cpu * 1e9, 3), self.samples, self._why())

    # internals

    def _figures(self, candidate: Candidate) -> tuple[float, float]:
        return self._measured.get(candidate, (1.0, 0.0))

    def _why(self) -> str:
        if not self.samples:
            return "no sample yet"
        costs = sorted((self.cost(each), each) for each in {NONE, *self._measured} if each != self.chosen)
        others = ", ".join(f"{each.name} {cost * 1e9:.1f}" for cost, each in costs)
        return f"costs in ns for each byte: {self.chosen.name} {self.cost(self.chosen) * 1e9:.1f}, {others}"


def _blend(old: float, fresh: float) -> float:
    return old + SHARE_OF_LAST * (fresh - old)
