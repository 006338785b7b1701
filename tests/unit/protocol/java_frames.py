"""Frames and batches that Kafka's own Java classes wrote, and the ids of their topics."""

from __future__ import annotations

from pathlib import Path
from typing import Final

GOLDEN: Final = Path(__file__).resolve().parents[2] / "golden"
BASE: Final = 1_700_000_000_000
VERSIONS: Final = list(range(3, 14))
"""The versions of Produce."""


def read_golden(name: str) -> dict[str, bytes]:
    lines = (line.split() for line in (GOLDEN / name).read_text().splitlines())
    return {key: bytes.fromhex(hexadecimal) for key, hexadecimal in lines}


FRAMES: Final = read_golden("produce_frames.hex")
BATCHES: Final = read_golden("batches.hex")


def topic_id(number: int) -> bytes:
    return (number + 1).to_bytes(8) + (-number - 1).to_bytes(8, signed=True)
