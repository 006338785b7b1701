"""``Simulation``: one seed's world, in which a user's coroutine runs, and the report of the run.

Owns a loop, a network, a dev broker, a schedule of faults and the timeline. ``run_seed`` is one run, from its start to
its report; ``runner`` chooses the seeds and reports failures.

Rules:

- a run is a function of the seed, its settings and the coroutine: the same calls, the same bytes, the same virtual
  times. Equal ``Report.fingerprint`` values mean equal runs;
- the schedule is drawn before the run, and leaving out a fault does not change the others;
- faults come from the coroutine's start on, within ``Faults.seconds``; then all faults end. ``heal()`` ends them
  earlier;
- tasks that are left when the coroutine returns are cancelled, as by ``asyncio.run``; an exception that was never
  retrieved is a failure, and so is a call that the ``Guard`` refused.
"""

from __future__ import annotations

import asyncio
import hashlib
import math
import random
import weakref
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ... import errors
from ...broker import DevBroker
from ...broker.faults.control_calls import ControlCall
from ...broker.network.request_channel import Response, ResponseAction
from ...common import Node
from ...protocol.api import ApiKey
from ...protocol.writer import error_codes
from ...sockets import use_network
from .faults import Fault, Faults, make_schedule
from .guard import Guard, SimulationError
from .simulated_cluster import BROKER_OPTIONS, SimulatedCluster
from .simulated_loop import START, SimulatedLoop
from .simulated_network import SimulatedNetwork
from .virtual_world import virtual_world

__all__ = ["Report", "Scenario", "Settings", "Simulation", "run_seed"]

_PACKAGE: Final = str(Path(__file__).parents[2])
_SCENARIO: Final = "the scenario"
"""The name of the coroutine's task."""
_PARTITIONS: Final = 1_000
"""A fault's partition is drawn from so many, and wraps around at the actual number."""

Scenario = Callable[["Simulation"], Awaitable[object]]


@dataclass(frozen=True)
class Settings:
    """The settings of all seeds of a ``simulate``."""

    faults: Faults | None
    nodes: int
    broker: dict[str, Any]
    threads: str
    time_limit: float


@dataclass
class Report:
    """The record of one run. ``error`` is the error of a failed run, None without one."""

    seed: int
    schedule: list[Fault] = field(default_factory=list)
    timeline: list[str] = field(default_factory=list)
    error: BaseException | None = None
    virtual_seconds: float = 0.0
    fingerprint: str = ""


class Simulation:
    """The world of one seed. ``broker`` is its dev broker, ``chance`` a ``random.Random`` for the coroutine."""

    def __init__(self, seed: int, settings: Settings, schedule: Sequence[Fault] | None = None) -> None:
        self.seed = seed
        self.report = Report(seed)
        # Separate random streams, so that one more draw in one place does not change the others.
        faults, network, replication, threads, self.chance = (
            random.Random(f"{seed}/{name}") for name in ("faults", "network", "replication", "threads", "scenario")
        )
        self.guard = Guard(settings.threads)
        self.loop = SimulatedLoop(lambda: threads.uniform(0, 0.005), self.guard)
        self.loop.ends_at = START + settings.time_limit
        self.loop.is_told_of = lambda task: task.get_name() == _SCENARIO or not _is_the_packages(task)
        self.network = SimulatedNetwork(self.loop, network, self._trace)
        use_network(self.loop, self.network)
        self.broker = DevBroker(nodes=settings.nodes, **(BROKER_OPTIONS | settings.broker))
        self._cluster = SimulatedCluster(self.broker, self.network, replication, self._trace)
        self._digest = hashlib.blake2b()
        self._faults = settings.faults
        if schedule is None and self._faults is not None:
            schedule = make_schedule(faults, self._faults, settings.nodes, _PARTITIONS)
        self.report.schedule = list(schedule or ())
        self._breaking: asyncio.Task[None] | None = None
        self._failed_tasks: list[asyncio.Task[object]] = []
        self._tasks: weakref.WeakKeyDictionary[asyncio.Task[object], int] = weakref.WeakKeyDictionary()
        self._made = 0
        self._nodes: Sequence[Node] = ()
        self.loop.set_task_factory(self._new_task)

    @property
    def bootstrap_servers(self) -> str:
        """The addresses for clients in this world."""
        return self.broker.bootstrap_servers

    @property
    def now(self) -> float:
        """Virtual seconds since the world began."""
        return self.loop.time() - START

    def note(self, text: str) -> None:
        """Write a line into the timeline, for the report of a failure."""
        self._happened(text)

    async def heal(self) -> None:
        """End all faults, except for connections that are silently broken."""
        if self._breaking is not None:
            self._breaking.cancel()
            await asyncio.wait({self._breaking})
        self._heal()

    # for run_seed

    async def play(self, scenario: Scenario) -> None:
        """Run the coroutine, with faults beside it."""
        task = asyncio.current_task()
        assert task is not None
        task.set_name(_SCENARIO)
        await self._cluster.start()
        self._nodes = self.broker.nodes
        self.broker.watch_requests(self._on_request)
        self.broker.controls.watchers.append(self._on_control)
        breaking = self._breaking = asyncio.create_task(self._break_things(), name="faults of the simulation")
        try:
            running = scenario(self)
            if not hasattr(running, "__await__"):
                raise SimulationError(f"{scenario!r} returned {running!r}: write it as `async def`")
            await running
            await self._leave_no_task()
        finally:
            breaking.cancel()
            self.broker.watch_requests(None)
            await self._cluster.stop()

    def finish(self) -> Report:
        """The report, once the loop is closed."""
        report = self.report
        if self.guard.refusals:
            refusal = self.guard.refusals[0]
            if report.error is not None and report.error is not refusal and not _is_caused_by(report.error, refusal):
                refusal.__context__ = report.error
            report.error = refusal
        for task in self._failed_tasks:
            if report.error is None and getattr(task, "_log_traceback", False):
                error = SimulationError(f"nobody has awaited {task.get_name()}, which failed: {task.exception()!r}")
                error.__cause__ = task.exception()
                report.error = error
        if report.error is None and self.loop.complaints:
            report.error = SimulationError(f"asyncio complained: {'; '.join(self.loop.complaints[:3])}")
        if report.error is not None:
            self._happened(f"failed: {type(report.error).__name__}")
        report.virtual_seconds = self.loop.time() - START
        report.fingerprint = self._digest.hexdigest()[:16]
        return report

    def abandon(self) -> None:
        """Release the rest, after a failed run also tasks in the middle of their work. No time passes."""
        self.loop.ends_at = math.inf
        self.network.reset()
        for _ in range(2):
            for task in self._in_order(asyncio.all_tasks(self.loop)):
                task.cancel()
            for _ in range(10):  # turns that need no time
                self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.run_until_complete(self.loop.shutdown_asyncgens())

    # internals

    async def _break_things(self) -> None:
        began = self.loop.time()
        schedule = self.report.schedule
        events = [(fault.at, 0, number) for number, fault in enumerate(schedule)]
        events += [(fault.at + fault.seconds, 1, number) for number, fault in enumerate(schedule)]
        for at, is_end, number in sorted(events):
            await asyncio.sleep(max(0.0, began + at - self.loop.time()))
            fault = schedule[number]
            self._happened(f"{'end of ' if is_end else ''}fault {number + 1}: {fault.name}")
            (fault.end if is_end else fault.begin)(self._cluster)
        if self._faults is not None:  # a fault that is left out must not change the time at which faults end
            await asyncio.sleep(max(0.0, began + self._faults.seconds - self.loop.time()))
            self._heal()

    def _heal(self) -> None:
        self._happened("all is well")
        watchers = self.broker.controls.watchers
        watchers.remove(self._on_control)  # its calls are not part of the timeline
        self._cluster.heal()
        watchers.append(self._on_control)

    async def _leave_no_task(self) -> None:
        ours = {asyncio.current_task(), self._breaking}
        left = [task for task in asyncio.all_tasks(self.loop) if task not in ours and not _is_the_packages(task)]
        for task in self._in_order(left):
            task.cancel()
        if left:
            await asyncio.wait(left)

    def _new_task(self, loop: asyncio.AbstractEventLoop, coro: Any, **options: Any) -> asyncio.Task[Any]:
        """The loop's task factory."""
        task = asyncio.Task(coro, loop=loop, **options)
        task.add_done_callback(self._on_task_done)
        self._made += 1
        self._tasks[task] = self._made
        return task

    def _in_order(self, tasks: Iterable[asyncio.Task[object]]) -> list[asyncio.Task[object]]:
        """The tasks in the order of their creation: a set has the order of their addresses, which differ on each
        machine.
        """
        return sorted(tasks, key=self._tasks.__getitem__)

    def _on_task_done(self, task: asyncio.Task[object]) -> None:
        if getattr(task, "_log_traceback", False):
            self._failed_tasks.append(task)

    def _on_request(self, node_id: int, response: Response, _: float) -> None:
        request = response.request
        header = request.header
        name = _name_of(request.api_key)
        client = "" if header is None else f" of {header.client_id or 'a client'}"
        told = ", ".join(sorted({errors.for_code(code).__name__ for code in error_codes(request.answer)}))
        if response.action is not ResponseAction.SEND:
            told = response.action.value
        self._happened(f"node {node_id} answered {name}{client}" + (f": {told}" if told else ""))

    def _on_control(self, call: ControlCall) -> None:
        self._happened(f"  controls.{call}")

    def _happened(self, text: str) -> None:
        self._tell(text)
        self._trace(text)

    def _trace(self, *event: Any) -> None:
        self._digest.update(f"{self.loop.time():.9f} {' '.join(map(str, event))}".encode())
        if event[0] == "closed" and event[1].startswith("client "):
            error = event[2]
            why = "" if error is None else f": {type(error).__name__}"
            client, _, port = event[1].removeprefix("client ").partition("-")
            node_ids = [node.node_id for node in self._nodes if node.port == int(port)]
            self._tell(f"the connection of port {client} to node {node_ids[0] if node_ids else '?'} ended{why}")

    def _tell(self, text: str) -> None:
        self.report.timeline.append(f"{self.now:10.4f} s  {text}")


def run_seed(scenario: Scenario, seed: int, settings: Settings, schedule: Sequence[Fault] | None = None) -> Report:
    """Run the coroutine in the world of a seed; ``schedule`` replaces the drawn faults. Its failure is in the
    report.
    """
    world = Simulation(seed, settings, schedule)
    loop = world.loop
    with virtual_world(loop, seed), world.guard.watch():
        asyncio.set_event_loop(loop)
        try:
            world.report.error = _error_of(world, scenario)
            world.abandon()
        finally:
            asyncio.set_event_loop(None)
            loop.close()
    return world.finish()


def _error_of(world: Simulation, scenario: Scenario) -> BaseException | None:
    try:
        world.loop.run_until_complete(world.play(scenario))
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # pytest's own outcomes are not subclasses of Exception
        return error
    return None


def _is_caused_by(error: BaseException | None, cause: BaseException) -> bool:
    while error is not None and error is not cause:
        error = error.__cause__ or error.__context__
    return error is cause


def _name_of(api_key: int) -> str:
    try:
        return ApiKey(api_key).name
    except ValueError:
        return str(api_key)


def _is_the_packages(task: asyncio.Task[object]) -> bool:
    """True for a broker's task, and for a client's, which ends with the client."""
    code = getattr(task.get_coro(), "cr_code", None)
    return code is not None and code.co_filename.startswith((_PACKAGE, "aiokafkapy/"))
