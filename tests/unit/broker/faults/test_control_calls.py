"""The controls as data: the arguments of forms and files, and their equality with the program's call."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from aiokafkapy.broker.controls import Controls
from aiokafkapy.broker.faults.control_calls import CONTROLS, ControlCall, Kind, error_names
from aiokafkapy.errors import NotLeaderOrFollowerError
from aiokafkapy.protocol.api import ApiKey

NO_CONTROLS = {"apply", "on_request", "play", "request_count"}
"""Methods that a form cannot call, or that change nothing."""


def test_every_control_is_in_the_table_with_its_own_parameters_and_defaults() -> None:
    methods = {name: one for name, one in vars(Controls).items() if inspect.isfunction(one) and name[0] != "_"}
    assert set(CONTROLS) == set(methods) - NO_CONTROLS
    for name, spec in CONTROLS.items():
        _, *parameters = inspect.signature(methods[name]).parameters.values()
        assert [each.name for each in spec.parameters] == [each.name for each in parameters], name
        for told, real in zip(spec.parameters, parameters, strict=True):
            assert told.is_required == (real.default is inspect.Parameter.empty), f"{name}.{told.name}"
            if not told.is_required:
                assert told.default == real.default, f"{name}.{told.name}"
        assert spec.switch in (None, *(each.name for each in spec.parameters))


def test_a_missing_argument_is_the_default() -> None:
    call = ControlCall.of("fail_next", {"api": "PRODUCE", "error": "NotLeaderOrFollowerError"})
    assert call.arguments == {
        "api": "PRODUCE",
        "error": "NotLeaderOrFollowerError",
        "topic": None,
        "partition": None,
        "times": 1,
        "after_append": False,
        "name": None,
    }
    assert call == ControlCall.of("fail_next", {"error": "NotLeaderOrFollowerError", "api": "PRODUCE", "times": 1})
    assert call.to_json() == {
        "control": "fail_next",
        "arguments": {"api": "PRODUCE", "error": "NotLeaderOrFollowerError"},
    }
    assert ControlCall.of("clear").to_json() == {"control": "clear"}
    assert str(call) == "fail_next(api=PRODUCE, error=NotLeaderOrFollowerError)"


def test_python_s_arguments_and_the_file_s_are_one_call() -> None:
    said = ControlCall.of("fail_next", {"api": "PRODUCE", "error": "NotLeaderOrFollowerError"})
    arguments = said.python_arguments()
    assert arguments["api"] is ApiKey.PRODUCE
    assert arguments["error"] is NotLeaderOrFollowerError
    assert ControlCall.of_python("fail_next", arguments) == said
    assert ControlCall.of_python("delay", {"api": 0, "seconds": 1}).arguments == {"api": "PRODUCE", "seconds": 1}
    assert ControlCall.of_python("delay", {"api": 999, "seconds": 1}).arguments["api"] == 999


@pytest.mark.parametrize(
    ("control", "arguments", "message"),
    [
        ("explode", {}, "there is no control 'explode': there are fail_next, "),
        (["delay"], {}, "there is no control ['delay']"),
        ("delay", 5, "delay: the arguments are an object, by their names"),
        ("delay", {"api": [1], "seconds": 1}, "api=[1]: there is no such API"),
        ("delay", {"api": "PRODUCE", "seconds": 10**400}, "it is a number"),
        ("fail_next", {"api": "PRODUCE", "error": {}}, "error={}: no error that a broker sends has this name"),
        ("fail_next", {"api": "PRODUCE", "error": ["a"]}, "error=['a']: no error that a broker sends has this name"),
        ("delay", {"api": "PRODUCE"}, "delay: seconds is missing"),
        ("delay", {"api": "PRODUCE", "seconds": None}, "delay: seconds is missing"),
        ("delay", {"api": "PRODUCE", "seconds": -1}, "seconds=-1: it is from 0 to 3600"),
        ("delay", {"api": "PRODUCE", "seconds": float("nan")}, "seconds=nan: it is a number"),
        ("delay", {"api": "produce", "seconds": 1}, "there is no such API: PRODUCE"),
        ("delay", {"api": "PRODUCE", "seconds": 1, "colour": 1}, "no parameter 'colour': it takes api, seconds"),
        ("clear", {"all": True}, "clear has no parameter 'all': it takes nothing"),
        ("stop_node", {"node_id": True}, "node_id=True: it is a number"),
        ("stop_node", {"node_id": 1.5}, "node_id=1.5: it is a whole number"),
        ("stop_node", {"node_id": 0}, "node_id=0: it is from 1 to"),
        ("drop_next", {"api": "FETCH", "times": 0}, "times=0: it is from 1 to"),
        ("drop_next", {"api": "FETCH", "after": 1}, "after=1: it is true or false"),
        ("fail_next", {"api": "FETCH", "error": 0}, "error=0: a code is from -1 to 32767, and not 0"),
        ("fail_next", {"api": "FETCH", "error": "Exception"}, "no error that a broker sends has this name"),
        ("set_leader", {"topic": "", "partition": 0, "node_id": 1}, "topic='': it is a text that is not empty"),
    ],
)
def test_a_wrong_call_is_refused_with_the_value_and_its_limit(control: Any, arguments: Any, message: str) -> None:
    with pytest.raises(ValueError) as raised:
        ControlCall.of(control, arguments)
    assert message in str(raised.value)


def test_none_is_taken_only_where_it_has_a_meaning() -> None:
    assert ControlCall.of("set_leader", {"topic": "t", "partition": 0, "node_id": None}).arguments["node_id"] is None
    for spec in CONTROLS.values():
        for parameter in spec.parameters:
            assert parameter.takes_none == bool(parameter.none)
            if parameter.kind is Kind.FLAG:
                assert not parameter.takes_none


def test_the_errors_to_choose_from_are_those_with_a_code() -> None:
    assert "NotLeaderOrFollowerError" in error_names()
    assert "KafkaError" not in error_names()
    assert error_names() == sorted(error_names())
