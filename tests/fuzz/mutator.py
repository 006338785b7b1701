"""Damage done to valid bytes: deterministic, by a seeded ``random.Random``, and knowing nothing of the bytes' meaning.

It does the damage that breaks readers of lengths and counts: flipped bits, extreme integers of each width and as
varints, pieces cut out, doubled, swapped in from another input, and an early end.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

__all__ = ["MAX_SIZE", "mutate"]

MAX_SIZE: Final = 8_192
"""Bytes; longer inputs find nothing more, and take longer."""
NOISE: Final = 0.02
"""The share of inputs that are noise from the first byte to the last."""

_EXTREMES: Final = tuple(
    value.to_bytes(width, "big", signed=True)
    for width in (1, 2, 4, 8)
    for value in (0, 1, -1, -2, 2 ** (8 * width - 1) - 1, -(2 ** (8 * width - 1)), 2 ** (8 * width - 2), 127, 100)
)
_VARINTS: Final = (
    b"\x00", b"\x01", b"\x7f", b"\xff\x7f", b"\xff\xff\xff\xff\x07", b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x80\x00",
    b"\xff" * 9 + b"\x01", b"\xff" * 12,
)  # fmt: skip


def mutate(data: bytes, other: bytes, chance: random.Random) -> bytes:
    """``data`` with one to eight changes; ``other`` is a second input to take pieces from."""
    if chance.random() < NOISE:
        return chance.randbytes(chance.randrange(200))
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 2, 3, 5, 8))):
        chance.choice(_CHANGES)(changed, other, chance)
    return bytes(changed[:MAX_SIZE])


def _flip(data: bytearray, other: bytes, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(data: bytearray, other: bytes, chance: random.Random) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _extreme(data: bytearray, other: bytes, chance: random.Random) -> None:
    value = chance.choice(_EXTREMES)
    place = chance.randrange(len(data) + 1)
    data[place : place + len(value)] = value


def _varint(data: bytearray, other: bytes, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    data[place : place + chance.randrange(3)] = chance.choice(_VARINTS)


def _truncate(data: bytearray, other: bytes, chance: random.Random) -> None:
    del data[chance.randrange(len(data) + 1) :]


def _cut_out(data: bytearray, other: bytes, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    del data[place : place + chance.randrange(1, 20)]


def _double(data: bytearray, other: bytes, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    piece = bytes(data[place : place + chance.choice((1, 4, 16, 200))])
    data[place:place] = piece * chance.choice((1, 1, 3, 20))


def _insert(data: bytearray, other: bytes, chance: random.Random) -> None:
    place = chance.randrange(len(data) + 1)
    data[place:place] = chance.randbytes(chance.randrange(1, 12))


def _splice(data: bytearray, other: bytes, chance: random.Random) -> None:
    place, start = chance.randrange(len(data) + 1), chance.randrange(len(other) + 1)
    data[place:] = other[start:]


_CHANGES: Final[tuple[Callable[[bytearray, bytes, random.Random], None], ...]] = (
    _flip, _flip, _set, _extreme, _extreme, _varint, _varint, _truncate, _cut_out, _double, _insert, _splice,
)  # fmt: skip
