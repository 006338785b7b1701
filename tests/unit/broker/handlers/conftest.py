"""A cluster of three nodes without sockets, with the topic ``t`` of two partitions, led by 1 and 2."""

from __future__ import annotations

from typing import Any

import pytest

from .harness import Harness, OpenHarness


@pytest.fixture
async def open_harness() -> Any:
    opened: list[Harness] = []

    def open_harness(*args: Any, **options: Any) -> Harness:
        opened.append(Harness(*args, **options))
        return opened[-1]

    yield open_harness
    for harness in opened:
        harness.close()


@pytest.fixture
async def harness(open_harness: OpenHarness) -> Harness:
    harness = open_harness()
    harness.topics.create("t", 2)
    return harness
