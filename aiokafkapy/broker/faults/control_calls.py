"""The calls of ``Controls`` as data: their names, parameters and kinds, and one call with its arguments, checked.

Owns the table of the controls, from which a page makes its forms and by which a file names its faults. It knows neither
a broker nor a clock, and calls nothing: ``Controls.apply`` does. Kafka has no counterpart.

Rules:

- an argument is of JSON's types: an API is a name of ``ApiKey``, an error the name of its class or its code;
- ``ControlCall.of`` fills in the defaults, so that two calls with the same effect are equal;
- a program's call is refused for the same arguments (``of_python``): NaN as a time would stop every timer of the loop;
- ``on_request`` takes a function and so is not among them; ``request_count`` changes nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Final, TypeAlias, TypeGuard

from ... import errors
from ...errors import KafkaError
from ...protocol.api import ApiKey

__all__ = ["CONTROLS", "Argument", "ControlCall", "ControlSpec", "Kind", "Parameter", "error_names", "is_number"]


Argument: TypeAlias = str | int | float | bool | None
"""An argument as JSON has it."""


class Kind(Enum):
    """The kind of value that a parameter takes; the enum's value is its name in forms and messages."""

    API = "API"
    ERROR = "error"
    TOPIC = "topic"
    PARTITION = "partition"
    NODE = "node"
    TEXT = "text"
    FLAG = "true or false"
    TIMES = "times"
    SECONDS = "seconds"
    TIME_SPAN = "seconds, years of them too"
    MILLISECONDS = "milliseconds"


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter; an optional one may be None, and ``none`` is the meaning of that."""

    name: str
    kind: Kind
    default: Argument = None
    is_required: bool = False
    none: str = ""

    @property
    def takes_none(self) -> bool:
        """Whether None is a value of its own."""
        return bool(self.none)


@dataclass(frozen=True, slots=True)
class ControlSpec:
    """One control: its group, a sentence, and its parameters.

    ``switch`` is the parameter that is on and off: a flag, or a time where 0 is off.
    """

    name: str
    group: str
    summary: str
    parameters: tuple[Parameter, ...] = ()
    switch: str | None = None


def _required(name: str, kind: Kind, none: str = "") -> Parameter:
    return Parameter(name, kind, is_required=True, none=none)


_API = _required("api", Kind.API)
_NODE = _required("node_id", Kind.NODE)
_ANY_NODE = Parameter("node_id", Kind.NODE, none="all nodes")
_NO_NODE = _required("node_id", Kind.NODE, none="no node")
_TIMES = Parameter("times", Kind.TIMES, 1, none="until cleared")
_NAME = Parameter("name", Kind.TEXT, none="one is made")

CONTROLS: Final[Mapping[str, ControlSpec]] = {
    spec.name: spec
    for spec in (
        ControlSpec(
            "fail_next",
            "answers",
            "Answer requests of an API with an error",
            (
                _API,
                _required("error", Kind.ERROR),
                Parameter("topic", Kind.TOPIC, none="whole request"),
                Parameter("partition", Kind.PARTITION, none="every partition"),
                _TIMES,
                Parameter("after_append", Kind.FLAG, False),
                _NAME,
            ),
        ),
        ControlSpec(
            "drop_next",
            "answers",
            "Close the connection instead of answering",
            (_API, Parameter("after", Kind.FLAG, True), _TIMES, _NAME),
        ),
        ControlSpec("end_fault", "answers", "End one armed fault, by its name", (_required("name", Kind.TEXT),)),
        ControlSpec(
            "delay",
            "answers",
            "Hold back every answer of an API",
            (_API, _required("seconds", Kind.SECONDS)),
            switch="seconds",
        ),
        ControlSpec(
            "throttle",
            "answers",
            "Tell a client to wait, and read nothing from it",
            (_required("client_id", Kind.TEXT, none="every client"), _required("ms", Kind.MILLISECONDS)),
            switch="ms",
        ),
        ControlSpec(
            "stall_connections",
            "connections",
            "Read and write nothing while connections stay open",
            (Parameter("is_stalled", Kind.FLAG, True), _ANY_NODE),
            switch="is_stalled",
        ),
        ControlSpec("drop_connections", "connections", "Abort connections", (_ANY_NODE,)),
        ControlSpec("stop_node", "nodes", "Close a node; others lead its partitions", (_NODE,)),
        ControlSpec("start_node", "nodes", "Open a stopped node again", (_NODE,)),
        ControlSpec(
            "set_leader",
            "nodes",
            "Move a partition to another node, or to none",
            (_required("topic", Kind.TOPIC), _required("partition", Kind.PARTITION), _NO_NODE),
        ),
        ControlSpec(
            "move_coordinator",
            "nodes",
            "Let another node coordinate a group or transactional id, or none",
            (_required("key", Kind.TEXT), _NO_NODE),
        ),
        ControlSpec(
            "hold_transactions",
            "transactions",
            "Decide transactions without writing their markers",
            (Parameter("is_held", Kind.FLAG, True),),
            switch="is_held",
        ),
        ControlSpec(
            "expire_transactions",
            "transactions",
            "Abort open transactions as if their time were over",
            (Parameter("transactional_id", Kind.TEXT, none="all"),),
        ),
        ControlSpec(
            "refuse_authentication",
            "security",
            "Let nobody authenticate by SASL",
            (Parameter("is_refused", Kind.FLAG, True),),
            switch="is_refused",
        ),
        ControlSpec("expire_sessions", "security", "End SASL sessions", (_ANY_NODE,)),
        ControlSpec(
            "rotate_certificate",
            "security",
            "Show new connections another certificate, of a PEM file",
            (
                _required("keystore_location", Kind.TEXT),
                Parameter("listener", Kind.TEXT, none="every TLS listener"),
            ),
        ),
        ControlSpec(
            "advance_clock",
            "time",
            "Let the wall clock be later, so that old records go",
            (_required("seconds", Kind.TIME_SPAN),),
        ),
        ControlSpec("clean_logs", "time", "Drop and compact the records that topics keep no longer, now"),
        ControlSpec("clear", "all", "Forget every fault"),
    )
}


@dataclass(frozen=True, slots=True)
class ControlCall:
    """One call: ``arguments`` has every parameter of the control, in its order. Make one with ``of``.

    ``fault`` is the name of the fault that the call has armed, once it was made.
    """

    control: str
    arguments: Mapping[str, Argument]
    fault: str | None = field(default=None, compare=False)

    @classmethod
    def of(cls, control: str, arguments: Mapping[str, object] | None = None) -> ControlCall:
        """The call with its defaults filled in. Raises ValueError, with the value and its limit, for an invalid
        argument.
        """
        spec = CONTROLS.get(control) if isinstance(control, str) else None
        if spec is None:
            raise ValueError(f"there is no control {control!r}: there are {', '.join(CONTROLS)}")
        if not isinstance(arguments, Mapping | None):
            raise ValueError(f"{control}: the arguments are an object, by their names")
        given = dict(arguments or {})
        unknown = [name for name in given if name not in {each.name for each in spec.parameters}]
        if unknown:
            takes = ", ".join(each.name for each in spec.parameters) or "nothing"
            raise ValueError(f"{control} has no parameter {unknown[0]!r}: it takes {takes}")
        return cls(control, {each.name: _checked(control, each, given) for each in spec.parameters})

    @classmethod
    def of_python(cls, control: str, arguments: Mapping[str, object]) -> ControlCall:
        """The call of a program: APIs may be numbers, and errors classes. Raises ValueError as ``of``."""
        parameters = {each.name: each for each in CONTROLS[control].parameters}
        return cls(control, {name: _checked_python(control, parameters[name], one) for name, one in arguments.items()})

    @property
    def arms_fault(self) -> bool:
        """Whether it arms a fault, which has a name and can be ended by it."""
        return self.control in ("fail_next", "drop_next")

    def python_arguments(self) -> dict[str, Argument | type[KafkaError]]:
        """The arguments as the method of ``Controls`` takes them."""
        kinds = {each.name: each.kind for each in CONTROLS[self.control].parameters}
        return {name: _as_python(kinds[name], value) for name, value in self.arguments.items()}

    def to_json(self) -> dict[str, str | dict[str, Argument]]:
        """As a file has it: without the arguments that are the default."""
        said = self._said()
        return {"control": self.control, **({"arguments": said} if said else {})}

    def __str__(self) -> str:
        return f"{self.control}({', '.join(f'{name}={value}' for name, value in self._said().items())})"

    def _said(self) -> dict[str, Argument]:
        return {
            each.name: self.arguments[each.name]
            for each in CONTROLS[self.control].parameters
            if each.is_required or self.arguments[each.name] != each.default
        }


def error_names() -> list[str]:
    """The names of the errors that a broker sends, sorted: each has a code."""
    return sorted(_ERRORS)


def is_number(value: object) -> TypeGuard[int | float]:
    """Whether ``value`` is a number that fits any parameter: not NaN, not infinite, not of hundreds of digits."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**63


# internals


def _broker_errors() -> dict[str, type[KafkaError]]:
    found = (getattr(errors, name) for name in dir(errors) if name.endswith("Error"))
    return {each.__name__: each for each in found if issubclass(each, KafkaError) and each.code is not None}


_ERRORS: Final = _broker_errors()


def _checked(control: str, parameter: Parameter, given: Mapping[str, Any]) -> Argument:
    where = f"{control}: {parameter.name}"
    if parameter.name not in given:
        if parameter.is_required:
            raise ValueError(f"{where} is missing")
        return parameter.default
    value: Argument = given[parameter.name]
    if value is None and not parameter.takes_none:
        raise ValueError(f"{where} is missing")
    problem = "" if value is None else _problem(parameter.kind, value)
    if problem:
        raise ValueError(f"{where}={value!r}: {problem}")
    return value


def _checked_python(control: str, parameter: Parameter, value: object) -> Argument:
    kind = parameter.kind
    if kind is Kind.API:
        if not isinstance(value, int) or not 0 <= value < 2**15:
            raise ValueError(f"{control}: {parameter.name}={value!r}: it is an ApiKey or its number")
        return ApiKey(value).name if value in ApiKey.__members__.values() else int(value)
    if kind is Kind.ERROR and isinstance(value, type):
        return value.__name__  # ``Controls`` checks whether it has a code
    if isinstance(value, os.PathLike):
        value = str(value)
    return _checked(control, parameter, {parameter.name: value})


def _problem(kind: Kind, value: object) -> str:
    """The reason why a value is not of a kind; empty when it is one."""
    if kind is Kind.FLAG:
        return "" if isinstance(value, bool) else "it is true or false"
    if kind is Kind.API:
        is_known = isinstance(value, str) and value in ApiKey.__members__
        return "" if is_known else f"there is no such API: {', '.join(ApiKey.__members__)}"
    if kind is Kind.ERROR:
        if isinstance(value, int) and not isinstance(value, bool):
            return "" if -1 <= value < 2**15 and value else "a code is from -1 to 32767, and not 0"
        is_known = isinstance(value, str) and value in _ERRORS
        return "" if is_known else "no error that a broker sends has this name: see aiokafkapy.errors"
    if kind in (Kind.TOPIC, Kind.TEXT):
        return "" if isinstance(value, str) and value else "it is a text that is not empty"
    if not is_number(value):
        return "it is a number"
    if kind in _MOST_SECONDS:
        return "" if 0 <= value <= _MOST_SECONDS[kind] else f"it is from 0 to {_MOST_SECONDS[kind]}"
    if not isinstance(value, int):
        return "it is a whole number"
    low, high = _RANGES[kind]
    return "" if low <= value <= high else f"it is from {low} to {high}"


_MOST_SECONDS: Final = {Kind.SECONDS: 3600, Kind.TIME_SPAN: 10 * 365 * 86_400}
_RANGES: Final = {
    Kind.MILLISECONDS: (0, 3_600_000),
    Kind.TIMES: (1, 1_000_000),
    Kind.NODE: (1, 2**31 - 1),
    Kind.PARTITION: (0, 2**31 - 1),
}


def _as_python(kind: Kind, value: Argument) -> Argument | type[KafkaError]:
    if value is None:
        return None
    if kind is Kind.API and isinstance(value, str):
        return ApiKey[value]
    if kind is Kind.ERROR and isinstance(value, str):
        return _ERRORS[value]
    return value
