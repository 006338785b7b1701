"""The events that the package logs, as its source has them, and as the table of ``docs/logging.md`` has them.

An event is a literal, ``area.what_happened``, passed to a method of a logger. Its level is the method's; where one is
chosen, as ``logging.INFO`` or ``logging.WARNING``, it is any of those in the function around it. Fields are the
keywords.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Final

from .pages import DOCS, ROOT

__all__ = ["Event", "dynamic_events", "events_in_code", "events_in_page"]

LEVELS: Final = ("debug", "info", "warning", "error")
_METHODS: Final = {**{level: level for level in LEVELS}, "_warn": "warning", "log": ""}
_EVENT: Final = re.compile(r"[a-z][a-z_]*\.[a-z][a-z_]*")
_ROW: Final = re.compile(r"^\| `([a-z_.]+)` \| ([a-z, ]+) \| (.*?) \| .+ \|$", re.MULTILINE)
_LOGGER: Final = re.compile(r"(_?logger(\(\))?|_log|log|_limited|_client_errors)$")
_PASSED_ON: Final = {"observability/events.py", "observability/rate_limit.py"}
"""The files in which loggers hand on their arguments."""


@dataclass
class Event:
    """One event, wherever it is logged."""

    levels: set[str] = field(default_factory=set)
    fields: set[str] = field(default_factory=set)
    sources: list[str] = field(default_factory=list)


@cache
def events_in_code() -> dict[str, Event]:
    """Every event of the package."""
    found: dict[str, Event] = {}
    for path, function, call, method in _calls():
        for name in _literals(call):
            event = found.setdefault(name, Event())
            event.levels |= {_METHODS[method]} if _METHODS[method] else _levels(call) or _levels(function)
            event.fields |= {keyword.arg for keyword in call.keywords if keyword.arg} - {"exc_info"}
            event.sources.append(path.read_text())
    return found


def dynamic_events() -> list[str]:
    """Places where a logger is given an event that is not a literal, and so is in no table."""
    return [
        f"{path.relative_to(ROOT)}:{call.lineno}"
        for path, function, call, _ in _calls()
        if not _literals(call) and getattr(function, "name", "") != "_warn" and _is_of_a_logger(call)
    ]


def events_in_page() -> dict[str, Event]:
    """The rows of the table."""
    found = {}
    for name, levels, fields in _ROW.findall((DOCS / "logging.md").read_text()):
        found[name] = Event(set(levels.split(", ")), set(re.findall(r"`(\w+)`", fields)))
    return found


# internals


def _calls() -> Iterator[tuple[Path, ast.AST, ast.Call, str]]:
    """Calls of methods that log, each with the function around it."""
    package = ROOT / "aiokafkapy"
    for path in sorted(package.rglob("*.py")):
        if str(path.relative_to(package)) in _PASSED_ON:
            continue
        for function in ast.walk(ast.parse(path.read_text())):
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = [each for each in ast.walk(function) if isinstance(each, ast.Call)]
                yield from (
                    (path, function, call, call.func.attr)
                    for call in calls
                    if isinstance(call.func, ast.Attribute) and call.func.attr in _METHODS
                )


def _is_of_a_logger(call: ast.Call) -> bool:
    return isinstance(call.func, ast.Attribute) and bool(_LOGGER.search(ast.unparse(call.func.value)))


def _literals(call: ast.Call) -> set[str]:
    values = [argument.value for argument in call.args if isinstance(argument, ast.Constant)]
    return {value for value in values if isinstance(value, str) and _EVENT.fullmatch(value)}


def _levels(node: ast.AST) -> set[str]:
    names = {each.attr.lower() for each in ast.walk(node) if isinstance(each, ast.Attribute) and each.attr.isupper()}
    return names & set(LEVELS)
