"""A schedule is played on time, even when its calls raise, and leaves no fault when it is interrupted."""

from __future__ import annotations

import asyncio

import pytest

from aiokafkapy.broker.faults.control_calls import ControlCall
from aiokafkapy.broker.faults.fault_schedule import FaultSchedule, ScheduledFault
from aiokafkapy.broker.faults.playback import Playback

from ...virtual_time import elapsed, on_virtual_time


class Player:
    """Notes each call with its time; calls in ``broken`` raise."""

    def __init__(self, *broken: str) -> None:
        self.calls: list[tuple[float, str]] = []
        self._broken = broken
        self._began = asyncio.get_running_loop().time()

    def now(self) -> float:
        return asyncio.get_running_loop().time() - self._began

    def apply(self, call: ControlCall) -> None:
        if call.control in self._broken:
            raise KeyError(call.control)
        self.calls.append((round(self.now(), 3), str(call)))


def schedule(*faults: tuple[float, str], seconds: float = 10) -> FaultSchedule:
    nodes = {"stop_node": {"node_id": 2}, "start_node": {"node_id": 2}}
    return FaultSchedule(
        seconds, tuple(ScheduledFault(at, ControlCall.of(name, nodes.get(name))) for at, name in faults)
    )


@on_virtual_time
async def test_each_call_comes_at_its_time_and_the_end_at_the_schedules() -> None:
    player = Player()
    playback = Playback(schedule((0, "clear"), (2, "drop_connections"), (2, "clear")), player.apply)
    await elapsed(1)
    assert (playback.played, playback.is_over) == (1, False)
    assert playback.position == pytest.approx(1)
    await playback.wait()
    assert player.calls == [(0.0, "clear()"), (2.0, "drop_connections()"), (2.0, "clear()")]
    assert playback.is_over
    assert player.now() == pytest.approx(10)


@on_virtual_time
async def test_a_faster_one_is_over_sooner() -> None:
    player = Player()
    await Playback(schedule((4, "clear")), player.apply, speed=4).wait()
    assert player.calls == [(1.0, "clear()")]
    assert player.now() == pytest.approx(2.5)


@on_virtual_time
async def test_a_call_that_raises_keeps_none_from_coming_and_is_raised_at_the_end() -> None:
    player = Player("drop_connections")
    playback = Playback(schedule((1, "drop_connections"), (2, "clear")), player.apply)
    with pytest.raises(KeyError, match="drop_connections"):
        await playback.wait()
    assert [name for _, name in player.calls] == ["clear()"]
    assert [str(call) for call, _ in playback.failures] == ["drop_connections()"]


@on_virtual_time
async def test_stopping_starts_the_nodes_again_and_clears_once() -> None:
    player = Player()
    playback = Playback(schedule((1, "stop_node"), (5, "start_node")), player.apply)
    await elapsed(2)
    playback.stop()
    playback.stop()
    assert [name for _, name in player.calls] == ["stop_node(node_id=2)", "start_node(node_id=2)", "clear()"]
    await elapsed(20)
    assert len(player.calls) == 3
    await playback.wait()


@on_virtual_time
async def test_an_abandoned_one_calls_nothing_more() -> None:
    player = Player()
    playback = Playback(schedule((1, "stop_node"), (5, "start_node")), player.apply)
    await elapsed(2)
    playback.abandon()
    await elapsed(20)
    assert [name for _, name in player.calls] == ["stop_node(node_id=2)"]
    assert playback.is_over


@on_virtual_time
async def test_a_waiter_that_gives_up_ends_nothing() -> None:
    player = Player()
    playback = Playback(schedule((3, "clear")), player.apply)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(1):
            await playback.wait()
    await playback.wait()
    assert player.calls == [(3.0, "clear()")]


@pytest.mark.parametrize("speed", [0, -1, float("nan"), float("inf")])
async def test_an_invalid_speed_is_refused(speed: float) -> None:
    with pytest.raises(ValueError, match="speed="):
        Playback(schedule((1, "clear")), Player().apply, speed=speed)
