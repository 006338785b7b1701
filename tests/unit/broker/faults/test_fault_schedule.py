"""Schedules of faults: drawn from a seed, always alike; saved and read again; refused with the entry's number."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.faults.fault_schedule import FaultSchedule


def test_a_seed_gives_the_same_schedule_always_and_another_seed_another() -> None:
    one = FaultSchedule.from_seed(7, seconds=60, topics={"orders": 3}, nodes=3)
    assert one == FaultSchedule.from_seed(7, seconds=60, topics={"orders": 3}, nodes=3)
    assert one != FaultSchedule.from_seed(8, seconds=60, topics={"orders": 3}, nodes=3)
    assert 10 < len(one.faults) < 100


@given(
    st.integers(), st.floats(0.1, 300), st.integers(1, 5), st.dictionaries(st.text("ab", min_size=1), st.integers(1, 9))
)
def test_every_fault_of_a_drawn_schedule_ends_in_it(
    seed: int, seconds: float, nodes: int, topics: dict[str, int]
) -> None:
    schedule = FaultSchedule.from_seed(seed, seconds=seconds, topics=topics, nodes=nodes)
    stopped: set[int] = set()
    lasting: dict[tuple[Any, ...], object] = {}
    assert [fault.at for fault in schedule.faults] == sorted(fault.at for fault in schedule.faults)
    for fault in schedule.faults:
        arguments: Any = fault.call.arguments
        match fault.call.control:
            case "stop_node":
                stopped.add(arguments["node_id"])
                assert len(stopped) < nodes
            case "start_node":
                stopped.remove(arguments["node_id"])
            case "set_leader":
                assert arguments["node_id"] not in stopped
                assert arguments["partition"] < topics[arguments["topic"]]
            case "delay":
                lasting["delay", arguments["api"]] = arguments["seconds"]
            case "throttle":
                lasting["throttle",] = arguments["ms"]
            case "stall_connections":
                lasting["stall", arguments["node_id"]] = arguments["is_stalled"]
            case "hold_transactions":
                lasting["hold",] = arguments["is_held"]
    assert stopped == set()
    assert not any(lasting.values())
    assert schedule.faults[-1].call.control == "clear"


def test_a_saved_schedule_is_the_same_again_and_has_a_fault_on_each_line(tmp_path: Path) -> None:
    schedule = FaultSchedule.from_seed(3, seconds=20, nodes=3, topics={"t": 2})
    schedule.save(tmp_path / "faults.json")
    assert FaultSchedule.load(tmp_path / "faults.json") == schedule
    assert len((tmp_path / "faults.json").read_text().splitlines()) == len(schedule.faults) + 2


def test_faults_of_a_file_may_be_in_any_order() -> None:
    document = {
        "seconds": 2,
        "faults": [{"at": 1, "control": "clear"}, {"at": 0.5, "control": "stop_node", "arguments": {"node_id": 2}}],
    }
    schedule = FaultSchedule.from_json(document)
    assert [str(fault.call) for fault in schedule.faults] == ["stop_node(node_id=2)", "clear()"]
    assert schedule.seed is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], 'a schedule is an object with "seconds" and a list "faults"'),
        ({"faults": []}, "seconds=None: write a number"),
        ({"seconds": 0, "faults": []}, "seconds=0.0: a schedule takes more than 0 s"),
        ({"seconds": 1e9, "faults": []}, "at most 86400 s"),
        ({"seconds": 1, "seed": "x", "faults": []}, "seed='x': write an integer"),
        ({"seconds": 1, "faults": [{"control": "clear"}]}, "fault 0 has no 'at'"),
        ({"seconds": 1, "faults": [{"at": 0}]}, "fault 0 has no 'control'"),
        ({"seconds": 1, "faults": [{"at": 2, "control": "clear"}]}, "at=2.0: a fault comes from 0 to 1 s"),
        ({"seconds": 1, "faults": [{"at": "soon", "control": "clear"}]}, "fault 0: at='soon': write a number"),
        ({"seconds": 1, "faults": [{"at": 0, "control": "boom"}]}, "fault 0: there is no control 'boom'"),
        ({"seconds": 1, "faults": [7]}, 'fault 0: it is an object with "at", "control" and "arguments"'),
        ({"seconds": 10**400, "faults": []}, "write a number"),
        ({"seconds": 1, "faults": [{"at": 10**400, "control": "clear"}]}, "write a number of seconds"),
        ({"seconds": 1, "faults": [{"at": 0, "control": ["clear"]}]}, "fault 0: there is no control ['clear']"),
        ({"seconds": 1, "faults": [{"at": 0, "control": "clear", "arguments": 5}]}, "fault 0: clear: the arguments"),
        ({"seconds": 1, "faults": [{"at": 0, "control": "clear"}] * 10_001}, "10001 faults: a schedule has at most"),
    ],
)
def test_a_file_that_is_not_a_schedule_is_refused_with_the_reason(document: Any, message: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(json.dumps(document))
    with pytest.raises(ValueError) as raised:
        FaultSchedule.load(path)
    assert str(path) in str(raised.value)
    assert message in str(raised.value)


@pytest.mark.parametrize("options", [{"nodes": 0}, {"seconds": 0}, {"seconds": float("inf")}, {"seconds": 1e6}])
def test_a_drawing_out_of_its_limits_is_refused(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"{name}="):
        FaultSchedule.from_seed(1, **options)
