"""The plugin, in a pytest of its own, as a user's project has it: strict mode, marks, and no pytest-asyncio at all."""

from __future__ import annotations

import re
import shlex
from collections.abc import AsyncIterator
from typing import get_args

import pytest

from aiokafkapy import Delivery, KafkaProducer
from aiokafkapy.broker import DevBroker
from aiokafkapy.testing import kafka_cluster, pytest_plugin
from aiokafkapy.testing.simulation import runner

pytestmark = pytest.mark.slow

# None of the other plugins, each of which would be imported, is needed.
ALONE = ("-p", "no:randomly", "-p", "no:faker", "-p", "no:hypothesispytest")
LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


async def test_a_record_goes_from_the_producer_to_the_broker(
    kafka_producer: KafkaProducer, kafka_broker: DevBroker
) -> None:
    await kafka_producer.send("orders", b"1")
    assert [record.value for record in kafka_broker.records("orders")] == [b"1"]


@pytest.mark.kafka_broker(nodes=3, num_partitions=4)
@pytest.mark.kafka_producer(linger_ms=0, client_id="marked")
async def test_marks_set_options(kafka_producer: KafkaProducer, kafka_broker: DevBroker) -> None:
    assert kafka_broker.bootstrap_servers.count(",") == 2
    assert len(await kafka_producer.partitions_for("orders")) == 4
    assert kafka_producer.config.client_id == "marked"


@pytest.fixture
async def enqueued(kafka_broker: DevBroker) -> AsyncIterator[list[Delivery]]:
    """Ends after the producer has."""
    found: list[Delivery] = []
    yield found
    assert [each.exception() for each in found] == [None]


async def test_a_fault_that_a_test_leaves_does_not_hold_its_end_up(
    enqueued: list[Delivery], kafka_producer: KafkaProducer, kafka_broker: DevBroker
) -> None:
    await kafka_producer.send("orders", b"1")
    kafka_broker.controls.stall_connections(True)
    enqueued.append(await kafka_producer.enqueue("orders", b"2"))


def test_the_plugin_works_in_strict_mode_with_strict_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_producer(linger_ms=0)
        @pytest.mark.asyncio
        async def test_it(kafka_producer, kafka_broker):
            assert (await kafka_producer.send("t", b"x")).offset == 0
            assert len(kafka_broker.records("t")) == 1
        """
    )
    result = pytester.runpytest_subprocess(*ALONE, "--strict-markers", "--asyncio-mode=strict", *LOOP_SCOPE, "-Werror")
    result.assert_outcomes(passed=1)


def test_options_of_a_mark_without_their_names_are_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_broker(3)
        async def test_it(kafka_broker):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*ALONE, "--asyncio-mode=auto", *LOOP_SCOPE)
    result.stdout.fnmatch_lines(["*kafka_broker(3): give options by their names*"])
    result.assert_outcomes(errors=1)


def test_without_pytest_asyncio_the_error_names_the_extra(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_untouched():
            pass

        def test_asking(kafka_broker):
            pass
        """
    )
    pytester.makepyfile(
        without="""
        import importlib.util

        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "pytest_asyncio" else find_spec(name, *rest)
        """
    )
    script = pytester.makepyfile(
        run="""
        import sys
        import without, pytest
        sys.exit(pytest.main(["-p", "no:asyncio", "-p", "no:randomly"]))
        """
    )
    result = pytester.runpython(script)
    result.stdout.fnmatch_lines(
        ["*kafka_broker, kafka_cluster and kafka_producer need pytest-asyncio: pip install pytest-asyncio*"]
    )
    result.stdout.fnmatch_lines(["*1 passed*"])


SIMULATION = """
import asyncio
import pytest
from aiokafkapy import KafkaProducer
from aiokafkapy.testing import assert_produced

async def scenario(world):
    print("SEED", world.seed)
    async with KafkaProducer(world.bootstrap_servers) as producer:
        for number in range(5):
            try:
                async with asyncio.timeout(1):
                    await producer.send("orders", b"%d" % number)
            except TimeoutError:
                await producer.send("orders", b"%d" % number)  # the planted bug
            await asyncio.sleep(1)
    for number in range(5):
        assert_produced(world.broker, "orders", value=b"%d" % number, count=1)

@pytest.mark.kafka_seeds(200)
def test_an_order_is_written_once(kafka_simulation):
    kafka_simulation(scenario)

@pytest.mark.kafka_seeds(range(3, 5))
def test_seeds_of_the_mark(kafka_simulation):
    assert [report.seed for report in kafka_simulation(scenario, faults=None)] == SEEDS
"""


def test_a_failing_seed_s_command_runs_it_again(pytester: pytest.Pytester) -> None:
    """The command of the message, as it stands."""
    pytester.makepyfile(test_shop=SIMULATION.replace("SEEDS", "[3, 4]"))
    result = pytester.runpytest_subprocess("--strict-markers", *ALONE)
    result.assert_outcomes(passed=1, failed=1)
    command = re.search(r"run it again: pytest (.+)$", result.stdout.str(), re.MULTILINE)
    assert command is not None
    arguments = shlex.split(command[1])
    assert arguments[0] == "test_shop.py::test_an_order_is_written_once"
    again = pytester.runpytest_subprocess(*ALONE, "--show-capture=stdout", *arguments)
    again.assert_outcomes(failed=1)
    seeds = set(re.findall(r"^SEED (\d+)$", again.stdout.str(), re.MULTILINE))
    assert seeds == {arguments[-1]}
    assert command[0] in again.stdout.str()


def test_the_number_of_seeds_is_an_option_too(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_shop=SIMULATION.replace("SEEDS", "list(range(7))"))
    result = pytester.runpytest_subprocess(*ALONE, "--kafka-seeds=7", "-k", "test_seeds_of_the_mark")
    result.assert_outcomes(passed=1, deselected=1)


def test_a_wrong_mark_of_seeds_is_an_error(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_seeds(seeds=5)
        def test_it(kafka_simulation):
            pass
        """
    )
    result = pytester.runpytest_subprocess(*ALONE)
    result.stdout.fnmatch_lines(["*kafka_seeds takes one argument: a number of seeds, or the seeds*"])


def test_the_plugin_s_copies_of_names_agree_with_the_originals() -> None:
    assert get_args(kafka_cluster.Kind) == pytest_plugin.KINDS
    assert runner.SEED_VARIABLE == pytest_plugin.SEED_VARIABLE


def test_the_plugin_imports_nothing_of_ours_until_a_fixture_is_requested(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys

        def test_it():
            ours = {name for name in sys.modules if name.startswith("aiokafkapy.")}
            testing = {"aiokafkapy.testing", "aiokafkapy.testing.pytest_plugin"}
            below = {f"aiokafkapy.{name}" for name in ("_core", "_form", "_lazy", "_version")}
            assert ours <= testing | below | {name for name in ours if name.startswith("aiokafkapy.errors")}
        """
    )
    pytester.runpytest_subprocess(*ALONE).assert_outcomes(passed=1)
