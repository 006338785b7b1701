"""A real Kafka for as long as tests need it, and its tools; where there is none they are skipped, or fail in CI.

AIOKAFKAPY_REQUIRE_KAFKA=1 says that CI must not pass without it.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from aiokafkapy.testing import ApacheKafka, KafkaTools, KafkaUnavailableError
from aiokafkapy.testing.kafka.jars import DEFAULT_VERSION

__all__ = ["kafka_tools", "started"]


@contextmanager
def started(cluster: ApacheKafka) -> Iterator[ApacheKafka]:
    """Synchronous on purpose: a session's cluster outlives the event loops of its tests."""
    try:
        cluster.__enter__()
    except KafkaUnavailableError as error:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA") == "1":
            pytest.fail(f"real Kafka is required here: {error}", pytrace=False)
        pytest.skip(f"NO REAL KAFKA: {error}")
    try:
        yield cluster
    finally:
        cluster.__exit__()


def kafka_tools(version: str = DEFAULT_VERSION) -> KafkaTools:
    """The Java tools of a version; without them the test is skipped, or fails where CI requires them."""
    try:
        return KafkaTools(version)
    except KafkaUnavailableError as error:
        if os.environ.get("AIOKAFKAPY_REQUIRE_KAFKA"):
            raise
        pytest.skip(str(error))
