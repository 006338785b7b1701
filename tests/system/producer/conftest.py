"""The broker of the tests of the producer."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokafkapy.broker import DevBroker


@pytest.fixture
async def broker() -> AsyncIterator[DevBroker]:
    async with DevBroker(nodes=3) as broker:
        yield broker
