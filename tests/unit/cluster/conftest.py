"""Metadata that knows an address only, and its clock."""

from __future__ import annotations

import pytest

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.testing.clock import VirtualClock


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata(retry_backoff_ms=100, retry_backoff_max_ms=1_000, metadata_max_age_ms=300_000)
    metadata.bootstrap([("seed", 9)])
    return metadata
