"""What every test here runs under: which event loop, which form of the core, which process, and the Hypothesis profile.

Under pytest-xdist the tests that share something dear, a cluster or a Spark session, go to one process as a chain (an
`xdist_group`), and the chains come first, in the order of how long they take: the other tests fill what they leave.

Also real Apache Kafka, one node and three, each started once, when first asked for. Without Java the tests that ask are
skipped with the reason, or fail where AIOKAFKAPY_REQUIRE_KAFKA=1 says that CI must not pass without them.
"""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import Callable, Iterator, Mapping

import hypothesis
import pytest

from aiokafkapy.testing import ApacheKafka, KafkaUnavailableError

# A shared two-core machine: a slow example is not a failing example.
hypothesis.settings.register_profile("aiokafkapy", deadline=None)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiokafkapy"))

pytest_plugins = ["pytester", "tests.times"]

CHAINS = ("spark", "kafka3", "spark programs", "simulation", "kafka")
"""What tests share, the longest chain first."""

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


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Iterator[None]:
    # Around all others: the groups must be there before xdist looks, and the order last after it is made random.
    for item in items:
        chain = _chain_of(item)
        if chain is not None:
            item.add_marker(pytest.mark.xdist_group(chain))
    yield
    items.sort(key=_place_of)


def _chain_of(item: pytest.Item) -> str | None:
    """What the test shares, by the fixtures that it asks for, itself or for the kind of cluster it is tried on."""
    names = set(getattr(item, "fixturenames", ()))
    parameters = getattr(getattr(item, "callspec", None), "params", {})
    if "spark" in names:
        return "spark"
    if "_three_nodes" in names or parameters.get("cluster3") == "kafka":
        return "kafka3"
    if "_one_node" in names or "kafka" in (parameters.get("cluster"), parameters.get("outside")):
        return "kafka"
    return None


def _place_of(item: pytest.Item) -> int:
    group = item.get_closest_marker("xdist_group")
    return CHAINS.index(group.args[0]) if group else len(CHAINS)


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
