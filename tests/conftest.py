"""The environment of every test: event loop, form of the core, process, Hypothesis profile.

Several processes may run the tests: see ``chains``.

Also fixtures of real Apache Kafka: one node, three, and one with TLS and SASL, each started on first use, for as long
as tests of its chain come. Without Java the tests that need them are skipped with the reason, or fail with
AIOKAFKAPY_REQUIRE_KAFKA=1, as in CI.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import uuid
from collections.abc import Callable, Generator, Iterator, Mapping

import hypothesis
import pytest

from aiokafkapy.testing import (
    ApacheKafka,
    KafkaSecurity,
    KafkaTools,
    Listener,
    TestCertificates,
)
from tests.chains import chain_of, make_scheduler, place_of
from tests.clusters import kafka_tools, started
from tests.sessions import SESSION_MS
from tests.shared import SHARED
from tests.tool_server import ToolServer

# A shared two-core machine: a slow example is not a failing example. Each run draws other examples, so that fifty a run
# are many in a week; HYPOTHESIS_PROFILE=thorough draws a thousand.
hypothesis.settings.register_profile("aiokafkapy", deadline=None, max_examples=50)
hypothesis.settings.register_profile("thorough", deadline=None, max_examples=1_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "aiokafkapy"))

pytest_plugins = ["pytester", "tests.messages", "tests.times"]

NICENESS = 5
"""The niceness of processes whose tests are in no chain."""

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
    for item in items:
        if item.get_closest_marker("alone") and not item.nodeid.startswith(("tests/promises/", "tests/system/")):
            raise pytest.UsageError(
                f"{item.nodeid}: tests marked alone are run from tests/promises and tests/system only"
            )
    # Last: after the order was randomized, which is kept within a chain and among the other tests.
    items.sort(key=place_of)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    return make_scheduler(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    # Nothing that is collected becomes garbage, and looking for it takes a fifth of a collection's time.
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    # Freeze the collected tests: fifteen thousand of them would cost each garbage collection a second. A collection
    # before would cost that too, and find little. Little garbage remains, and is looked for seldom.
    gc.freeze()
    gc.set_threshold(50_000)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    # Beside the chains such tests fill the time in which these wait, and take none from Spark, which gives its workers
    # ten seconds to start. Each process has its chains first, so it may stay behind.
    is_beside_others = hasattr(item.config, "workerinput")
    if is_beside_others and chain_of(item.nodeid) is None and os.getpriority(os.PRIO_PROCESS, 0) < NICENESS:
        os.setpriority(os.PRIO_PROCESS, 0, NICENESS)


ROOT_LOGGER = logging.getLogger()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, object, object]:
    # A web framework may set up the root logger, as Litestar does; other tests look at the lines logged by default.
    level, handlers = ROOT_LOGGER.level, list(ROOT_LOGGER.handlers)
    try:
        return (yield)
    finally:
        if ROOT_LOGGER.level != level:
            ROOT_LOGGER.setLevel(level)
        ROOT_LOGGER.handlers[:] = handlers


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    if nextitem is None or chain_of(nextitem.nodeid) != chain_of(item.nodeid):
        SHARED.close()


def pytest_unconfigure() -> None:
    SHARED.close()  # a run that was broken off had no last test


@pytest.fixture
def kafka() -> ApacheKafka:
    """One real node, which is up; topics are auto-created."""
    node = SHARED.enter("one node", lambda: started(ApacheKafka()))
    node.restore_blocking()
    return node


@pytest.fixture
def kafka3() -> ApacheKafka:
    """Three real nodes, all up after any test; topics are not auto-created."""
    nodes = SHARED.enter(
        "three nodes", lambda: started(ApacheKafka(nodes=3, config={"auto.create.topics.enable": False}))
    )
    nodes.restore_blocking()
    return nodes


@contextlib.contextmanager
def _secure_node() -> Iterator[ApacheKafka]:
    all_mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"]
    with TestCertificates() as certificates:
        elsewhere = certificates.server("elsewhere.example", file="elsewhere.pem")
        expired = certificates.server(file="expired.pem", expired=True)
        security = KafkaSecurity(
            {
                "SSL": Listener("SSL"),
                "MTLS": Listener("SSL", client_auth="required"),
                "ELSEWHERE": Listener("SSL", server_file=elsewhere),
                "EXPIRED": Listener("SSL", server_file=expired),
                "SASL_PLAINTEXT": Listener("SASL_PLAINTEXT", all_mechanisms),
                "SASL_SSL": Listener("SASL_SSL", all_mechanisms),
                "MECHANISM": Listener("SASL_SSL", ["PLAIN"]),
                "BRIEF": Listener("SASL_SSL", all_mechanisms, max_reauth_ms=SESSION_MS),
            },
            certificates=certificates,
            # Characters that need escaping in JAAS, in properties or in SCRAM.
            users={"alice": "wonder\\land = 1", "bob": "pässword"},
            authorizer=True,
            super_users=["User:alice", "User:CN=client", "User:carol"],
        )
        config = {"delegation.token.secret.key": "a key that only tests have"}
        with started(ApacheKafka(security=security, config=config)) as cluster:
            yield cluster


@pytest.fixture
def secure_kafka() -> ApacheKafka:
    """One real node with a listener for each way of TLS and SASL, and ACLs.

    ``alice``, and ``carol`` with a token, are super users, ``bob`` may do nothing. The certificates are
    ``secure_kafka.security.certificates``; the client's of those is a super user.
    """
    node = SHARED.enter("secure node", _secure_node)
    node.restore_blocking()
    return node


@pytest.fixture(scope="session")
def tools() -> KafkaTools:
    """Kafka's Java tools."""
    return kafka_tools()


@pytest.fixture(scope="session")
def tool_server(tools: KafkaTools) -> Iterator[ToolServer]:
    """Kafka's Java tools one after another in one JVM."""
    with ToolServer(tools) as server:
        yield server


@pytest.fixture
def topic() -> str:
    """The name of a topic that no other test uses."""
    return f"topic-{uuid.uuid4().hex[:12]}"
