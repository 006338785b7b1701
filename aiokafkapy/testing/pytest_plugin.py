"""Fixtures for the tests of applications that produce to Kafka: a broker and a producer, with no container and no JVM.

    async def test_order_is_published(kafka_producer, kafka_broker):
        await kafka_producer.send("orders", b"1")
        assert [record.value for record in kafka_broker.records("orders")] == [b"1"]

``kafka_broker`` is a ``DevBroker`` of one node, started and stopped in the test's own event loop; a mark changes its
options: ``@pytest.mark.kafka_broker(nodes=3)``. ``kafka_producer`` is a started ``KafkaProducer`` on it, with
``@pytest.mark.kafka_producer(linger_ms=0)`` for its options. Both need pytest-asyncio, in any mode.

Rule: pytest loads this module in every run of every user of the package, so it imports nothing of ours, and nothing
heavy, before a fixture is requested.
"""

from __future__ import annotations

import importlib.util
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from aiokafkapy import KafkaProducer
    from aiokafkapy.broker import DevBroker

__all__ = ["kafka_broker", "kafka_producer"]

_HAS_PYTEST_ASYNCIO = importlib.util.find_spec("pytest_asyncio") is not None

if TYPE_CHECKING or _HAS_PYTEST_ASYNCIO:
    from pytest_asyncio import fixture as _async_fixture
else:  # the fixtures exist all the same, so that a test that requests one is told what to install
    _async_fixture = pytest.fixture


def pytest_configure(config: pytest.Config) -> None:
    """Register the two marks, so that ``--strict-markers`` accepts them."""
    config.addinivalue_line("markers", "kafka_broker(**options): options of the DevBroker behind kafka_broker")
    config.addinivalue_line("markers", "kafka_producer(**options): options of the KafkaProducer behind kafka_producer")


@_async_fixture
async def kafka_broker(request: pytest.FixtureRequest) -> AsyncIterator[DevBroker]:
    """A running ``DevBroker`` on a port of its own, empty, for this test alone."""
    from aiokafkapy.broker import DevBroker

    async with DevBroker(**_options(request, "kafka_broker")) as broker:
        yield broker


@_async_fixture
async def kafka_producer(kafka_broker: DevBroker, request: pytest.FixtureRequest) -> AsyncIterator[KafkaProducer]:
    """A started ``KafkaProducer`` on ``kafka_broker``; closed, and so flushed, after the test."""
    from aiokafkapy import KafkaProducer

    async with KafkaProducer(kafka_broker.bootstrap_servers, **_options(request, "kafka_producer")) as producer:
        yield producer


def _options(request: pytest.FixtureRequest, mark: str) -> dict[str, Any]:
    """The keyword arguments of the nearest ``mark`` of the test."""
    marker = request.node.get_closest_marker(mark)
    return dict(marker.kwargs) if marker is not None else {}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that requests our fixtures without pytest-asyncio, and say what to install."""
    if not _HAS_PYTEST_ASYNCIO and {"kafka_broker", "kafka_producer"} & set(getattr(item, "fixturenames", ())):
        pytest.fail("kafka_broker and kafka_producer need pytest-asyncio: pip install pytest-asyncio", pytrace=False)
