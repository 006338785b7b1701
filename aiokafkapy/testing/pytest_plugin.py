"""Fixtures for the tests of applications that produce to Kafka: a broker and a producer, without containers or a JVM.

    async def test_order_is_published(kafka_producer, kafka_broker):
        await kafka_producer.send("orders", b"1")
        assert [record.value for record in kafka_broker.records("orders")] == [b"1"]

``kafka_broker`` is a ``DevBroker`` of one node, started and stopped in the test's own event loop; a mark changes its
options: ``@pytest.mark.kafka_broker(nodes=3)``. ``kafka_producer`` is a started ``KafkaProducer`` on it, with
``@pytest.mark.kafka_producer(linger_ms=0)`` for its options. ``kafka_cluster`` is the same cluster for tests that run
on any kind: ``--kafka=dev`` is that broker, the default; ``memory`` has it without a socket, ``proxy`` behind a
``FaultProxy``, and ``real`` is a Kafka that already runs. All of them need pytest-asyncio, in any mode.

``kafka_simulation`` runs a coroutine in the worlds of many seeds: see ``aiokafkapy.testing.simulation``.

Rule: pytest loads this module in every run of every user of the package, so it imports nothing of ours, and nothing
heavy, before a fixture is requested.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from .. import KafkaProducer
    from ..broker import DevBroker
    from .kafka_cluster import KafkaCluster
    from .simulation import Report
    from .simulation.simulation import Scenario

__all__ = ["kafka_broker", "kafka_cluster", "kafka_producer", "kafka_simulation"]

SERVERS_VARIABLE: Final = "KAFKA_BOOTSTRAP_SERVERS"
SEED_VARIABLE: Final = "AIOKAFKAPY_SIMULATION_SEED"
"""As in ``simulation.runner``."""
SEEDS: Final = 100
CLOSED_WITHIN: Final = 5.0
"""Seconds. The producer itself would wait for delivery_timeout_ms, for each test that leaves a record undelivered."""
KINDS: Final = ("dev", "memory", "proxy", "real")
"""As in ``kafka_cluster``."""

_HAS_PYTEST_ASYNCIO = importlib.util.find_spec("pytest_asyncio") is not None

if TYPE_CHECKING or _HAS_PYTEST_ASYNCIO:
    from pytest_asyncio import fixture as _async_fixture
else:  # the fixtures still exist, so that a test that requests one fails with the remedy
    _async_fixture = pytest.fixture


def pytest_addoption(parser: pytest.Parser) -> None:
    """``--kafka`` and its companions."""
    group = parser.getgroup("kafka", "Kafka (aiokafkapy)")
    group.addoption(
        "--kafka",
        choices=KINDS,
        default="dev",
        help="the cluster of kafka_cluster and kafka_producer: a dev broker (default), one in memory, one behind a "
        "fault proxy, or a real one, which runs already",
    )
    group.addoption(
        "--kafka-bootstrap-servers",
        metavar="HOST:PORT",
        help=f"of --kafka=real (else {SERVERS_VARIABLE}), or of the cluster behind --kafka=proxy",
    )
    group.addoption("--kafka-seed", type=int, metavar="N", help="run this seed of each simulation, and no other")
    group.addoption("--kafka-seeds", type=int, metavar="COUNT", help="so many seeds for each kafka_simulation")


def pytest_configure(config: pytest.Config) -> None:
    """Register the marks, so that ``--strict-markers`` accepts them, and check the options."""
    config.addinivalue_line("markers", "kafka_broker(**options): options of the DevBroker behind kafka_broker")
    config.addinivalue_line("markers", "kafka_producer(**options): options of the KafkaProducer behind kafka_producer")
    config.addinivalue_line("markers", "kafka_seeds(seeds): the seeds of kafka_simulation, or their number")
    kind, servers = config.getoption("--kafka"), config.getoption("--kafka-bootstrap-servers")
    if kind == "real" and not _servers(config):
        raise pytest.UsageError(f"--kafka=real: say where it is, by --kafka-bootstrap-servers or {SERVERS_VARIABLE}")
    if servers and kind not in ("real", "proxy"):
        raise pytest.UsageError(f"--kafka-bootstrap-servers={servers}: it is for --kafka=real and --kafka=proxy")
    count = config.getoption("--kafka-seeds")
    if count is not None and count < 1:
        raise pytest.UsageError(f"--kafka-seeds={count}: without a seed nothing is tested")
    seed = config.getoption("--kafka-seed")
    if seed is not None:
        before = os.environ.get(SEED_VARIABLE)
        os.environ[SEED_VARIABLE] = str(seed)
        config.add_cleanup(lambda: _restore(before))


@_async_fixture
async def kafka_cluster(request: pytest.FixtureRequest) -> AsyncIterator[KafkaCluster]:
    """The cluster that ``--kafka`` chose, with unique names for topics: a ``KafkaCluster``."""
    from .kafka_cluster import kafka_cluster as new_cluster

    config = request.config
    async with new_cluster(config.getoption("--kafka"), _servers(config), _options(request, "kafka_broker")) as cluster:
        yield cluster


@_async_fixture
async def kafka_broker(kafka_cluster: KafkaCluster) -> DevBroker:
    """A running ``DevBroker``, empty, for this test alone. With a real Kafka the test is skipped."""
    if kafka_cluster.broker is None:
        pytest.skip("kafka_broker is a DevBroker, and this run is on a real Kafka: ask for kafka_cluster instead")
    return kafka_cluster.broker


@_async_fixture
async def kafka_producer(kafka_cluster: KafkaCluster, request: pytest.FixtureRequest) -> AsyncIterator[KafkaProducer]:
    """A started ``KafkaProducer`` on ``kafka_cluster``; closed, and so flushed, after the test, in ``CLOSED_WITHIN``
    seconds at most. Faults that the test has left in a dev broker's ``controls`` are cleared before.
    """
    from .. import KafkaProducer

    producer: KafkaProducer = KafkaProducer(kafka_cluster.bootstrap_servers, **_options(request, "kafka_producer"))
    await producer.start()
    try:
        yield producer
    finally:
        if kafka_cluster.broker is not None:
            kafka_cluster.broker.controls.clear()
        await producer.close(CLOSED_WITHIN)


@pytest.fixture
def kafka_simulation(request: pytest.FixtureRequest) -> Callable[..., list[Report]]:
    """``simulate``, with the seeds of the mark, ``@pytest.mark.kafka_seeds(200)``, and of ``--kafka-seeds``."""
    from .simulation import simulate

    seeds = request.config.getoption("--kafka-seeds") or _seeds(request)

    def run(scenario: Scenario, **options: Any) -> list[Report]:
        __tracebackhide__ = True
        return simulate(scenario, **{"seeds": seeds, **options})

    return run


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Fail a test that requests our fixtures without pytest-asyncio, and name the package to install."""
    ours = {"kafka_broker", "kafka_cluster", "kafka_producer"}
    if not _HAS_PYTEST_ASYNCIO and ours & set(getattr(item, "fixturenames", ())):
        pytest.fail(
            "kafka_broker, kafka_cluster and kafka_producer need pytest-asyncio: pip install pytest-asyncio",
            pytrace=False,
        )


# internals


def _options(request: pytest.FixtureRequest, mark: str) -> dict[str, Any]:
    """The keyword arguments of the nearest ``mark`` of the test."""
    marker = request.node.get_closest_marker(mark)
    if marker is None:
        return {}
    if marker.args:
        given = ", ".join(map(repr, marker.args))
        raise pytest.UsageError(f"@pytest.mark.{mark}({given}): give options by their names, as in {mark}(name=value)")
    return dict(marker.kwargs)


def _seeds(request: pytest.FixtureRequest) -> int | Iterable[int]:
    marker = request.node.get_closest_marker("kafka_seeds")
    if marker is None:
        return SEEDS
    if len(marker.args) != 1 or marker.kwargs:
        raise pytest.UsageError("kafka_seeds takes one argument: a number of seeds, or the seeds")
    seeds: int | Iterable[int] = marker.args[0]
    return seeds


def _servers(config: pytest.Config) -> str | None:
    """The addresses of a cluster that already runs."""
    given: str | None = config.getoption("--kafka-bootstrap-servers")
    if given is None and config.getoption("--kafka") == "real":
        given = os.environ.get(SERVERS_VARIABLE)
    return given or None


def _restore(seed: str | None) -> None:
    if seed is None:
        os.environ.pop(SEED_VARIABLE, None)
    else:
        os.environ[SEED_VARIABLE] = seed
