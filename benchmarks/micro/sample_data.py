"""Data to compress: events as services write them, in JSON; and noise. The same bytes each time."""

from __future__ import annotations

import json
import random
from functools import cache

__all__ = ["json_like", "noise"]


@cache
def json_like(size: int) -> bytes:
    """JSON objects of about 190 bytes with names, numbers, times and a random id, one after the other."""
    chance = random.Random(1)
    data = bytearray()
    number = 0
    while len(data) < size:
        number += 1
        event = {
            "id": number,
            "user": f"user-{chance.randrange(10_000)}",
            "event": chance.choice(("click", "view", "buy", "login")),
            "amount": round(chance.random() * 1_000, 2),
            "ts": 1_700_000_000_000 + number * chance.randrange(50),
            "session": f"{chance.getrandbits(128):032x}",
            "tags": chance.sample(("a", "bb", "ccc", "dddd", "eeeee"), 2),
        }
        data += json.dumps(event).encode()
    return bytes(data[:size])


@cache
def noise(size: int) -> bytes:
    """Bytes that no codec makes fewer."""
    return random.Random(2).randbytes(size)
