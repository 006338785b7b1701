"""The broker of those tests of the producer that belong to no promise: the others are in tests/promises."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafkapy.broker import DevBroker


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        yield broker
