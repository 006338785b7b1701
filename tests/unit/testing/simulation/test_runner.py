"""``simulate``: seeds, replay, hangs, the message of a failure, and as few faults as will do."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import re
import subprocess
import sys
import time
import weakref
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.reader import PartitionReader
from aiokafkapy.testing import assert_produced
from aiokafkapy.testing.simulation import Deadlock, Faults, Simulation, SimulationError, SimulationFailure, simulate
from aiokafkapy.testing.simulation.runner import SEED_VARIABLE

from ...virtual_time import elapsed

ORDERS = [b"order %d" % n for n in range(5)]


async def place_orders(world: Simulation) -> None:
    """A service that does all right."""
    async with KafkaProducer(world.bootstrap_servers) as producer:
        for order in ORDERS:
            await producer.send("orders", order)
            await elapsed(1)


async def place_orders_twice(world: Simulation) -> None:
    """A producer's user that sends records of unknown outcome again, as if they were not sent."""
    async with KafkaProducer(world.bootstrap_servers) as producer:
        for order in ORDERS:
            for _ in range(3):
                try:
                    async with asyncio.timeout(1):
                        await producer.send("orders", order)
                    break
                except TimeoutError:
                    pass
            await elapsed(1)
    for order in ORDERS:
        assert_produced(world.broker, "orders", value=order, count=1)


def failure(scenario: Any, **options: Any) -> SimulationFailure:
    with pytest.raises(SimulationFailure) as raised:
        simulate(scenario, **options)
    return raised.value


def test_a_producer_and_a_reader_run_an_hour_at_once() -> None:
    async def scenario(world: Simulation) -> None:
        async with (
            asyncio.TaskGroup() as group,
            KafkaProducer(world.bootstrap_servers) as producer,
            PartitionReader(world.bootstrap_servers, auto_offset_reset="earliest") as reader,
        ):
            group.create_task(place_orders(world))
            reader.assign([TopicPartition("orders", 0)])
            read: list[bytes | None] = []
            while len(read) < len(ORDERS):
                read += [record.value for record in await reader.fetch()]
            assert read == ORDERS
            assert len(await producer.partitions_for("orders")) == 1
        await elapsed(3_600)

    reports = simulate(scenario, 5)
    assert [report.seed for report in reports] == [0, 1, 2, 3, 4]
    assert all(report.virtual_seconds > 3_600 for report in reports)
    assert all(report.error is None for report in reports)


def test_a_seed_is_the_same_twice_and_another_one_is_not() -> None:
    first, second = simulate(place_orders, range(7, 12)), simulate(place_orders, range(7, 12))
    assert [report.fingerprint for report in first] == [report.fingerprint for report in second]
    assert [report.timeline for report in first] == [report.timeline for report in second]
    assert len({report.fingerprint for report in first}) == len(first)
    assert all(any("PRODUCE" in line for line in report.timeline) for report in first)


@pytest.mark.slow
def test_a_seed_is_the_same_in_a_process_that_hashes_in_another_way() -> None:
    program = (
        "from tests.unit.testing.simulation.test_runner import *\n"
        "print(*(report.fingerprint for report in simulate(place_orders, 3)))"
    )
    command = [sys.executable, "-c", program]
    found = {
        subprocess.run(
            command, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("0", "1")
    }
    assert len(found) == 1


def test_a_failing_seed_is_named_with_its_command_its_faults_and_its_timeline(request: pytest.FixtureRequest) -> None:
    found = failure(place_orders_twice, seeds=200)
    assert isinstance(found.__cause__, AssertionError)
    text = str(found)
    assert text.startswith(
        f"seed {found.seed} failed, after {found.seed} that did not: AssertionError: orders: expected"
    )
    assert f"--kafka-seed {found.seed}\n" in text
    assert request.node.name in text
    assert re.search(rf"^{len(found.report.schedule)} of \d+ faults (is|are) enough:\n +\d", text, re.MULTILINE)
    assert str(found.report.schedule[0]) in text
    assert re.search(r"s  fault 1: \w+", text)
    assert "node 1 answered PRODUCE of aiokafkapy" in text
    again = failure(place_orders_twice, seeds=[found.seed])
    assert again.report.fingerprint == found.report.fingerprint
    assert again.report.timeline == found.report.timeline


def test_all_its_faults_are_there_when_none_shall_be_left_out() -> None:
    shrunk, whole = failure(place_orders_twice, seeds=200), failure(place_orders_twice, seeds=200, shrink=False)
    assert whole.seed == shrunk.seed
    assert set(map(str, shrunk.report.schedule)) < set(map(str, whole.report.schedule))


def test_the_environment_chooses_the_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SEED_VARIABLE, "41")
    assert [report.seed for report in simulate(place_orders, 5)] == [41]
    monkeypatch.setenv(SEED_VARIABLE, "many")
    with pytest.raises(ValueError, match="'many': a seed is a whole number"):
        simulate(place_orders, 5)


@pytest.mark.slow
def test_outside_of_pytest_the_command_is_the_program_s(tmp_path: Path) -> None:
    program = tmp_path / "check_orders.py"
    program.write_text(
        "from tests.unit.testing.simulation.test_runner import *\nsimulate(place_orders_twice, 200)", encoding="utf-8"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    environment["PYTHONHASHSEED"] = "0"
    done = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    command = re.search(
        rf"run it again: (PYTHONHASHSEED=0 {SEED_VARIABLE}=(\d+) python \S+check_orders.py)", done.stderr
    )
    assert command is not None, done.stderr
    environment[SEED_VARIABLE] = command[2]
    again = subprocess.run([sys.executable, str(program)], env=environment, capture_output=True, text=True, check=False)
    assert f"seed {command[2]} failed, after 0 that did not" in again.stderr


def test_a_hang_is_reported_with_the_place_where_it_waits() -> None:
    async def wait_for_ever(world: Simulation) -> None:
        async with KafkaProducer(world.bootstrap_servers) as producer:
            await producer.send("orders", b"1")
            await asyncio.Event().wait()

    found = failure(wait_for_ever, seeds=1)
    assert isinstance(found.__cause__, Deadlock)
    assert "the scenario: " in str(found)
    assert "wait_for_ever:" in str(found)
    assert "kafka-processor" not in str(found)


def test_a_hang_in_which_no_client_has_a_timer_names_each_task() -> None:
    """The broker's own timers, such as that of retention, are no progress."""

    async def wait_for_one_another(world: Simulation) -> None:
        first, second = asyncio.Event(), asyncio.Event()

        async def work(awaited: asyncio.Event, other: asyncio.Event) -> None:
            await awaited.wait()
            other.set()

        async with asyncio.TaskGroup() as group:
            group.create_task(work(first, second), name="first worker")
            group.create_task(work(second, first), name="second worker")

    for limit in (5.0, 1e9, float("inf")):
        found = failure(wait_for_one_another, seeds=1, faults=None, time_limit=limit, shrink=False)
        assert isinstance(found.__cause__, Deadlock)
        assert "the awaited events cannot happen any more" in str(found)
        for name in ("the scenario: ", "first worker: ", "second worker: "):
            assert name in str(found)
        assert str(found).count("work:") == 2
        assert found.report.virtual_seconds < 60


def test_a_scenario_that_spins_is_named() -> None:
    async def spin(world: Simulation) -> None:
        while True:
            await elapsed(0)

    assert re.search(r"the loop spins: .*\n  the scenario: .*spin:", str(failure(spin, seeds=1, shrink=False)))


def test_the_time_limit_bounds_a_sleep() -> None:
    ended = []

    async def sleep_long(world: Simulation) -> None:
        await elapsed(60)
        await elapsed(1e8)
        ended.append(world.now)

    found = failure(sleep_long, seeds=1, time_limit=100)
    assert isinstance(found.__cause__, Deadlock)
    assert re.search(r"it has not ended within 100 s; waiting tasks:\n  the scenario: .*sleep_long:", str(found))
    assert found.report.virtual_seconds < 100
    assert not ended
    simulate(sleep_long, 1, time_limit=1.1e8)
    assert ended == [pytest.approx(1e8 + 60)]


def test_a_task_s_exception_that_nobody_retrieves_is_a_failure() -> None:
    kept = []

    async def scenario(world: Simulation) -> None:
        async def fail() -> None:
            raise LookupError("in the background")

        kept.append(asyncio.create_task(fail(), name="worker"))
        await elapsed(1)

    assert "nobody has awaited worker, which failed: LookupError" in str(failure(scenario, seeds=1))


def test_a_task_that_is_left_is_cancelled() -> None:
    ended = []

    async def scenario(world: Simulation) -> None:
        async def work() -> None:
            try:
                await elapsed(1e6)
            finally:
                ended.append(world.now)

        world.broker.controls.throttle(None, 0)
        kept = [asyncio.create_task(work()) for _ in range(3)]
        await elapsed(2)
        assert kept

    simulate(scenario, 1, faults=None)
    assert len(ended) == 3
    assert all(2 <= now < 2.1 for now in ended)


def test_without_faults_there_are_none_and_healing_ends_them() -> None:
    async def scenario(world: Simulation) -> None:
        await elapsed(1)
        await world.heal()
        world.note("healed")
        await elapsed(20)

    (calm,) = simulate(scenario, 1, faults=None)
    assert calm.schedule == []
    for report in simulate(scenario, range(20, 30), faults=Faults(most=40)):
        healed = next(number for number, line in enumerate(report.timeline) if line.endswith("healed"))
        assert not [line for line in report.timeline[healed:] if " fault " in line]
    assert sum(len(report.schedule) for report in simulate(scenario, range(20, 30), faults=Faults(most=40))) > 10


def test_tests_outside_keep_their_clock_and_their_chance() -> None:
    random.seed(1)
    expected = random.random()
    random.seed(1)
    functions = time.time, time.monotonic, time.sleep, os.urandom, random.Random
    simulate(place_orders, 1)
    assert random.random() == expected
    assert (time.time, time.monotonic, time.sleep, os.urandom, random.Random) == functions


def test_names_that_a_module_imported_in_a_simulation_are_the_real_ones_afterwards() -> None:
    kept: dict[str, Any] = {}

    async def scenario(world: Simulation) -> None:
        exec("from time import time, sleep\nfrom os import urandom\nfrom random import Random", kept)
        kept["virtual"] = kept["time"]()

    simulate(scenario, 1)
    assert kept["virtual"] < time.time() - 86_400
    assert abs(kept["time"]() - time.time()) < 60
    kept["sleep"](0)
    assert kept["urandom"](16) != kept["urandom"](16)
    assert kept["Random"]().random() != kept["Random"]().random()


def test_a_world_is_gone_when_it_is_over() -> None:
    worlds: list[weakref.ref[object]] = []

    async def scenario(world: Simulation) -> None:
        worlds.append(weakref.ref(world.loop))
        await place_orders(world)

    simulate(scenario, 5)
    gc.collect()
    # The interpreter keeps its last loop until there is another one.
    assert [world() for world in worlds[:-1]] == [None] * 4


async def test_simulate_refuses_to_run_on_a_loop_that_runs() -> None:
    with pytest.raises(SimulationError, match="call it from a plain function"):
        simulate(place_orders, 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 0}, "seeds=0: without a seed nothing is tested"),
        ({"seeds": []}, r"seeds=\[\]"),
        ({"seeds": "abc"}, "seeds='abc': write their number, or the seeds, which are whole numbers"),
        ({"seeds": b"abc"}, "seeds=b'abc'"),
        ({"seeds": [1, 2.5]}, r"seeds=\[1, 2.5\]"),
        ({"seeds": ["1"]}, r"seeds=\['1'\]"),
        ({"nodes": 0}, "nodes=0"),
        ({"threads": "real"}, "threads='real'"),
        ({"time_limit": 0}, "time_limit=0"),
    ],
)
def test_a_wrong_argument_is_an_error_at_once(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        simulate(place_orders, **options)


def test_an_argument_that_is_not_a_coroutine_function_is_refused() -> None:
    def scenario(world: Simulation) -> None:
        """A function that is not async."""

    assert "write it as `async def`" in str(failure(scenario, seeds=1))


def test_a_test_that_skips_itself_is_skipped() -> None:
    async def scenario(world: Simulation) -> None:
        pytest.skip("not today")

    with pytest.raises(pytest.skip.Exception):
        simulate(scenario, 1)
