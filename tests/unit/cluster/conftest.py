"""Metadata that knows an address only, and its clock."""

from __future__ import annotations

import pytest

from aiokafkapy.cluster.metadata import Metadata
from aiokafkapy.testing.clock import VirtualClock
from tests.unit.metadata_options import METADATA_OPTIONS


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def metadata() -> Metadata:
    metadata = Metadata(**METADATA_OPTIONS)
    metadata.bootstrap([("seed", 9)])
    return metadata
