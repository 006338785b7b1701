"""What every test here runs under: which event loop, which form of the core, which process, and the Hypothesis profile.

Several processes may run the tests: see `chains`.

Also real Apache Kafka, one node and three, each started once, when first asked for. Without Java the tests that ask are
skipped with the reason, or fail where AIOKAFKAPY_REQUIRE_KAFKA=1 says that CI must not pass without them.
"""

from __future__ import annotations

import asyncio
import gc
import os
import uuid
from collections.abc import Callable, Iterator, Mapping

import hypothesis
import pytest

from aiokafkapy.testing import ApacheKafka, KafkaUnavailableError
from tests.chains import make_scheduler, place_of

# A shared two-core machine: a slow example is not a failing example.
hypothesis.settings.register_profile("aiokafkapy", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiokafkapy"))

pytest_plugins = ["pytester", "tests.times"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loop",
        choices=["asyncio", "uvloop", "both"],
        default="asyncio",
        help="the event loop of asynchronous tests; `both` runs each of them twice",
    )


def pytest_asyncio_loop_factories(config: pytest.Config, item: pytest.Item) -> Mapping[str, LoopFactory]:
    chosen = config.getoption("--loop")
    factories: dict[str, LoopFactory] = {}
    if chosen in ("asyncio", "both"):
        factories["asyncio"] = asyncio.new_event_loop
    if chosen in ("uvloop", "both"):
        uvloop = pytest.importorskip("uvloop")
        factories["uvloop"] = uvloop.new_event_loop
    return factories


def pytest_report_header(config: pytest.Config) -> str:
    import aiokafkapy

    core = "compiled" if getattr(aiokafkapy, "compiled", False) else "interpreted"
    debug = "on" if os.environ.get("PYTHONASYNCIODEBUG") else "off"
    return f"aiokafkapy: {core} core, loop {config.getoption('--loop')}, asyncio debug {debug}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    # Last: after the order is made random, which it stays within a chain and among the other tests.
    items.sort(key=place_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return make_scheduler(config, log)


def pytest_collection_finish() -> None:
    # Five thousand collected tests are no garbage: to look through them takes a quarter of a second each time.
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def _one_node() -> Iterator[ApacheKafka]:
    yield from _cluster(ApacheKafka())


@pytest.fixture(scope="session")
def _three_nodes() -> Iterator[ApacheKafka]:
    yield from _cluster(ApacheKafka(nodes=3, config={"auto.create.topics.enable": False}))


@pytest.fixture
def kafka(_one_node: ApacheKafka) -> ApacheKafka:
    """One real node, which is up; a topic that is asked for comes into being."""
    _one_node.restore_blocking()
    return _one_node


@pytest.fixture
def kafka3(_three_nodes: ApacheKafka) -> ApacheKafka:
    """Three real nodes, all up whatever the test before did to them; topics do not come into being by themselves."""
    _three_nodes.restore_blocking()
    return _three_nodes


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"


def _cluster(cluster: ApacheKafka) -> Iterator[ApacheKafka]:
    # Synchronous on purpose: a session outlives the event loops of its tests.
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
