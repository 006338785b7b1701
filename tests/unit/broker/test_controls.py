"""The bookkeeping of faults: the requests that each hits, and their number."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from aiokafkapy.broker.controls import Controls
from aiokafkapy.broker.faults.control_calls import ControlCall
from aiokafkapy.broker.faults.fault_schedule import FaultSchedule, ScheduledFault
from aiokafkapy.errors import NotLeaderOrFollowerError, RequestTimedOutError
from aiokafkapy.protocol.api import ApiKey

from ..virtual_time import elapsed, on_virtual_time


class FakeCluster:
    """Notes its calls."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def drop_connections(self, node_id: int | None) -> int:
        self.calls.append(("drop", node_id))
        return 3

    def stall_connections(self, is_stalled: bool, node_id: int | None) -> None:
        self.calls.append(("stall", is_stalled, node_id))

    def expire_sessions(self, node_id: int | None) -> int:
        self.calls.append(("expire", node_id))
        return 2

    def refuse_authentication(self, is_refused: bool) -> None:
        self.calls.append(("refuse", is_refused))

    def rotate_certificate(self, keystore_location: str | os.PathLike[str], listener: str | None) -> None:
        self.calls.append(("rotate", keystore_location, listener))

    def set_leader(self, topic: str, partition: int, node_id: int | None) -> None:
        self.calls.append(("leader", topic, partition, node_id))

    def move_coordinator(self, key: str, node_id: int | None) -> None:
        self.calls.append(("coordinator", key, node_id))

    def hold_transactions(self, is_held: bool) -> None:
        self.calls.append(("hold", is_held))

    def expire_transactions(self, transactional_id: str | None) -> int:
        self.calls.append(("expire transactions", transactional_id))
        return 1

    def advance_clock(self, seconds: float) -> None:
        self.calls.append(("advance", seconds))

    def clean_logs(self) -> None:
        self.calls.append(("clean",))

    def stop_node(self, node_id: int) -> None:
        self.calls.append(("stop", node_id))

    def start_node(self, node_id: int) -> None:
        self.calls.append(("start", node_id))


@pytest.fixture
def cluster() -> FakeCluster:
    return FakeCluster()


@pytest.fixture
def controls(cluster: FakeCluster) -> Controls:
    return Controls(cluster)


def request(api: int = ApiKey.PRODUCE) -> Any:
    """The part of a RequestContext that the controls look at."""
    return cast(Any, SimpleNamespace(api_key=int(api), used_faults=set()))


def test_a_fault_of_the_whole_request_is_used_up_by_requests_of_its_api(controls: Controls) -> None:
    controls.fail_next(ApiKey.PRODUCE, NotLeaderOrFollowerError, times=2)
    assert controls.faults.request_error(request(ApiKey.FETCH)) == 0
    assert [controls.faults.request_error(request()) for _ in range(3)] == [6, 6, 0]


def test_asking_twice_within_one_request_counts_once(controls: Controls) -> None:
    controls.fail_next(ApiKey.PRODUCE, NotLeaderOrFollowerError, topic="t", times=2)
    first = request()
    assert [controls.faults.topic_error(first, "t", n) for n in range(5)] == [6] * 5
    second = request()
    assert [controls.faults.topic_error(second, "t", n) for n in range(5)] == [6] * 5
    assert controls.faults.topic_error(request(), "t", 0) == 0
    assert controls.faults.topic_error(first, "t", 9) == 6  # still the same request


def test_a_fault_of_one_partition_hits_that_one_only(controls: Controls) -> None:
    controls.fail_next(ApiKey.PRODUCE, 6, topic="t", partition=1)
    context = request()
    assert controls.faults.topic_error(context, "u", 1) == 0
    assert controls.faults.topic_error(context, "t", 0) == 0
    assert controls.faults.request_error(context) == 0
    assert controls.faults.topic_error(context, "t", 1) == 6
    assert controls.faults.topic_error(request(), "t", 1) == 0


def test_before_and_after_are_different_faults(controls: Controls) -> None:
    controls.fail_next(ApiKey.PRODUCE, RequestTimedOutError, after_append=True)
    controls.fail_next(ApiKey.PRODUCE, RequestTimedOutError, topic="t", after_append=True)
    context = request()
    assert controls.faults.request_error(context) == controls.faults.topic_error(context, "t", 0) == 0
    assert (
        controls.faults.request_error(context, after=True)
        == controls.faults.topic_error(context, "t", 0, after=True)
        == 7
    )


def test_faults_of_the_same_kind_are_used_in_the_order_they_were_armed(controls: Controls) -> None:
    for code in (6, 7, 19):
        controls.fail_next(ApiKey.PRODUCE, code)
    assert [controls.faults.request_error(request()) for _ in range(4)] == [6, 7, 19, 0]


def test_used_up_faults_do_not_pile_up(controls: Controls) -> None:
    for _ in range(100):
        controls.fail_next(ApiKey.PRODUCE, 6)
        controls.faults.request_error(request())
    assert len(controls.faults.armed) == 1


def test_a_fault_without_an_end_lasts_until_clear(controls: Controls) -> None:
    controls.fail_next(ApiKey.PRODUCE, 6, times=None)
    assert {controls.faults.request_error(request()) for _ in range(50)} == {6}
    controls.clear()
    assert controls.faults.request_error(request()) == 0


def test_drops_are_not_errors(controls: Controls) -> None:
    controls.drop_next(ApiKey.PRODUCE, after=False)
    controls.drop_next(ApiKey.PRODUCE)
    context = request()
    assert controls.faults.request_error(context) == controls.faults.request_error(context, after=True) == 0
    assert controls.faults.take_drop(context, after=False)
    assert controls.faults.take_drop(context, after=True)
    assert not controls.faults.take_drop(request(), after=True)


def test_a_throttle_of_a_client_goes_before_the_one_of_all(controls: Controls) -> None:
    assert controls.faults.throttle_time("a") == 0.0
    controls.throttle(None, 50)
    controls.throttle("a", 0)
    assert (controls.faults.throttle_time("a"), controls.faults.throttle_time("b")) == (0.0, 0.05)


def test_counts_are_per_api_and_node(controls: Controls) -> None:
    for node_id in (1, 1, 2):
        controls.faults.count_request(node_id, int(ApiKey.METADATA))
    assert controls.request_count(ApiKey.METADATA) == 3
    assert controls.request_count(3, node_id=1) == 2
    assert controls.request_count(ApiKey.PRODUCE) == 0


def test_calls_for_the_cluster_are_passed_on(controls: Controls, cluster: FakeCluster) -> None:
    assert controls.drop_connections() == 3
    controls.stall_connections(True, node_id=2)
    controls.set_leader("t", 1, None)
    controls.stop_node(2)
    controls.start_node(2)
    assert controls.expire_sessions(2) == 2
    controls.refuse_authentication()
    controls.rotate_certificate("server.pem", "SSL")
    controls.move_coordinator("tx", 2)
    controls.hold_transactions()
    assert controls.expire_transactions("tx") == 1
    controls.advance_clock(5)
    controls.clean_logs()
    controls.clear()
    assert cluster.calls == [
        ("drop", None),
        ("stall", True, 2),
        ("leader", "t", 1, None),
        ("stop", 2),
        ("start", 2),
        ("expire", 2),
        ("refuse", True),
        ("rotate", "server.pem", "SSL"),
        ("coordinator", "tx", 2),
        ("hold", True),
        ("expire transactions", "tx"),
        ("advance", 5),
        ("clean",),
        ("hold", False),
        ("refuse", False),
        ("stall", False, None),
    ]


def test_watchers_hear_of_each_call_that_was_made_with_all_its_arguments(controls: Controls) -> None:
    heard: list[str] = []
    controls.watchers.append(lambda call: heard.append(str(call)))
    controls.fail_next(ApiKey.PRODUCE, NotLeaderOrFollowerError, "t", times=None)
    controls.delay(0, 0.5)
    controls.stop_node(node_id=2)
    controls.request_count(ApiKey.PRODUCE)
    with pytest.raises(ValueError, match="times=0"):
        controls.fail_next(ApiKey.PRODUCE, 6, times=0)
    controls.clear()
    assert heard == [
        "fail_next(api=PRODUCE, error=NotLeaderOrFollowerError, topic=t, times=None)",
        "delay(api=PRODUCE, seconds=0.5)",
        "stop_node(node_id=2)",
        "clear()",
    ]


@pytest.mark.parametrize(
    ("control", "arguments", "message"),
    [
        ("delay", (ApiKey.PRODUCE, float("nan")), "delay: seconds=nan: it is a number"),
        ("delay", (ApiKey.PRODUCE, "1"), "delay: seconds='1': it is a number"),
        ("delay", ("PRODUCE", 1), "delay: api='PRODUCE': it is an ApiKey or its number"),
        ("delay", (2**40, 1), "delay: api=1099511627776: it is an ApiKey or its number"),
        ("throttle", (None, float("inf")), "throttle: ms=inf: it is a number"),
        ("throttle", (None, 2**40), "throttle: ms=1099511627776: it is from 0 to 3600000"),
        ("throttle", (None, -100), "throttle: ms=-100: it is from 0"),
        ("fail_next", (ApiKey.PRODUCE, 99_999), "fail_next: error=99999: a code is from -1 to 32767"),
        ("fail_next", (ApiKey.PRODUCE, 6, None, None, 1.5), "fail_next: times=1.5: it is a whole number"),
        ("fail_next", (ApiKey.PRODUCE, ValueError), "not an error that a broker sends: it has no code"),
        ("advance_clock", (1e17,), "advance_clock: seconds=1e+17: it is from 0 to"),
        ("advance_clock", (10**400,), "it is a number"),
        ("set_leader", ("t", 0, "1"), "set_leader: node_id='1': it is a number"),
        ("stop_node", (None,), "stop_node: node_id is missing"),
    ],
)
def test_an_argument_that_no_request_could_bear_is_refused_and_nothing_is_armed(
    control: str, arguments: tuple[Any, ...], message: str, controls: Controls, cluster: FakeCluster
) -> None:
    """NaN as a delay stopped every timer of the loop; other values broke each request until the broker ended."""
    with pytest.raises(ValueError) as raised:
        getattr(controls, control)(*arguments)
    assert message in str(raised.value)
    assert cluster.calls == []
    faults = controls.faults
    assert (faults.armed, faults.delays, faults.throttles) == ([], {}, {})


def test_a_path_is_passed_on_as_it_is(controls: Controls, cluster: FakeCluster) -> None:
    controls.rotate_certificate(Path("a.pem"))
    assert cluster.calls == [("rotate", Path("a.pem"), None)]


def test_a_call_given_as_data_has_the_effect_of_the_method(controls: Controls, cluster: FakeCluster) -> None:
    assert controls.apply(ControlCall.of("drop_connections", {"node_id": 2})) == 3
    controls.apply(ControlCall.of("fail_next", {"api": "PRODUCE", "error": "RequestTimedOutError"}))
    assert cluster.calls == [("drop", 2)]
    assert controls.faults.request_error(request()) == RequestTimedOutError.code


@on_virtual_time
async def test_a_schedule_takes_the_place_of_the_one_that_is_played() -> None:
    cluster = FakeCluster()
    controls = Controls(cluster)
    calls = tuple(ScheduledFault(at, ControlCall.of("drop_connections", {"node_id": at})) for at in (1, 3))
    first = controls.play(FaultSchedule(4, calls))
    await elapsed(2)
    second = controls.play(FaultSchedule(4, calls))
    await second.wait()
    assert first.is_over
    assert [call for call in cluster.calls if call[0] == "drop"] == [("drop", 1), ("drop", 1), ("drop", 3)]
    assert controls.playback is second


def test_one_armed_fault_is_ended_by_its_name_and_the_others_stay(controls: Controls) -> None:
    first = controls.fail_next(ApiKey.PRODUCE, 6, times=None)
    second = controls.fail_next(ApiKey.PRODUCE, 7, times=None, name="late")
    dropped = controls.drop_next(ApiKey.FETCH, times=None)
    assert (first, second, dropped) == ("fault-1", "late", "fault-2")
    assert controls.faults.request_error(request()) == 6
    assert controls.end_fault(first)
    assert controls.faults.request_error(request()) == 7
    assert controls.end_fault("late")
    assert controls.faults.request_error(request()) == 0
    assert controls.faults.take_drop(request(ApiKey.FETCH), after=True)
    assert controls.end_fault(dropped)
    assert not controls.faults.take_drop(request(ApiKey.FETCH), after=True)


def test_a_request_that_an_ended_fault_has_hit_is_failed_in_its_other_partitions_too(controls: Controls) -> None:
    name = controls.fail_next(ApiKey.PRODUCE, 6, topic="t", times=None)
    context = request()
    assert controls.faults.topic_error(context, "t", 0) == 6
    controls.end_fault(name)
    assert controls.faults.topic_error(context, "t", 1) == 6
    assert controls.faults.topic_error(request(), "t", 1) == 0


def test_ending_a_used_up_fault_is_allowed_and_an_unknown_one_is_refused(controls: Controls) -> None:
    name = controls.fail_next(ApiKey.PRODUCE, 6, name="once")
    assert controls.faults.request_error(request()) == 6
    assert not controls.end_fault(name)  # used up
    assert controls.fail_next(ApiKey.PRODUCE, 7, name="once") == name  # and its name is free again
    assert controls.faults.request_error(request()) == 7
    made = controls.drop_next(ApiKey.FETCH)
    controls.clear()
    assert not controls.end_fault(made)
    for wrong in ("never", "fault-2", "fault-0", "fault-x"):
        with pytest.raises(ValueError, match=f"name='{wrong}': no fault has had this name"):
            controls.end_fault(wrong)


def test_a_name_that_an_armed_fault_has_or_that_is_made_is_refused(controls: Controls) -> None:
    controls.drop_next(ApiKey.FETCH, name="late")
    with pytest.raises(ValueError, match="name='late' is the name of a fault that is armed"):
        controls.fail_next(ApiKey.PRODUCE, 6, name="late")
    with pytest.raises(ValueError, match="name='fault-9': names that begin with 'fault-' are made"):
        controls.drop_next(ApiKey.FETCH, name="fault-9")
    with pytest.raises(ValueError, match="name='': it is a text that is not empty"):
        controls.drop_next(ApiKey.FETCH, name="")
    assert [fault.name for fault in controls.faults.armed] == ["late"]


def test_watchers_hear_the_name_of_the_fault_that_a_call_has_armed(controls: Controls) -> None:
    heard: list[ControlCall] = []
    controls.watchers.append(heard.append)
    controls.fail_next(ApiKey.PRODUCE, 6)
    controls.drop_next(ApiKey.FETCH, name="late")
    controls.end_fault("late")
    assert [(call.fault, str(call)) for call in heard] == [
        ("fault-1", "fail_next(api=PRODUCE, error=6)"),
        ("late", "drop_next(api=FETCH, name=late)"),
        (None, "end_fault(name=late)"),
    ]


@on_virtual_time
async def test_a_schedule_ends_the_fault_that_it_has_armed(controls: Controls) -> None:
    arm = {"api": "PRODUCE", "error": "RequestTimedOutError", "times": None, "name": "slow"}
    document = {
        "seconds": 9,
        "faults": [
            {"at": 1, "control": "fail_next", "arguments": arm},
            {"at": 3, "control": "end_fault", "arguments": {"name": "slow"}},
        ],
    }
    schedule = FaultSchedule.from_json(document)
    assert schedule.to_json() == document | {"seed": None}
    playback = controls.play(schedule)
    controls.fail_next(ApiKey.PRODUCE, 6, times=None)
    await elapsed(2)
    controls.end_fault("fault-1")
    assert controls.faults.request_error(request()) == RequestTimedOutError.code
    await playback.wait()
    assert controls.faults.request_error(request()) == 0
