"""aiokafkapy.typed.deferred: data that is awaited in its turn, or never."""

from __future__ import annotations

import gc

import pytest

from aiokafkapy.typed.deferred import Deferred, Failed


async def serialized() -> bytes:
    return b"data"


async def test_data_is_passed_on_when_it_is_there() -> None:
    assert await Deferred(serialized(), lambda data: data + b"!", None) == b"data!"


async def test_data_that_is_never_awaited_warns_nobody() -> None:
    Deferred(serialized(), bytes, None)
    gc.collect()


async def test_a_failed_delivery_raises_when_it_is_awaited() -> None:
    with pytest.raises(ValueError, match="no"):
        await Failed(ValueError("no"), None)
