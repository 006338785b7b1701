"""The messages of pytest-xdist's workers to the process that schedules: one for a whole test instead of six.

Each message wakes three threads of two processes, which costs more than most of the unit tests do. A set-up or teardown
that printed nothing is not reported at all, unless the durations of phases are asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

__all__ = ["Parcels", "unpacking"]

OF_A_TEST = frozenset(["logstart", "testreport", "logfinish"])
"""Events that may wait for the next event of another name; at the end of each test there is one."""

PARCEL = "parcel"

Event = tuple[str, dict[str, Any]]


class Parcels:
    """Sends the events of a test together. Events that a dying process has not sent belong to the test in which it
    died.
    """

    def __init__(self, send: Callable[[object], None], *, with_phases: bool) -> None:
        self._send = send
        self._with_phases = with_phases
        self._waiting: list[Event] = []

    def sendevent(self, name: str, **kwargs: Any) -> None:
        """Stands in for the method of xdist's ``WorkerInteractor``."""
        if name == "testreport" and not self._with_phases and is_of_no_interest(kwargs["data"]):
            return
        self._waiting.append((name, kwargs))
        if name not in OF_A_TEST:
            events, self._waiting = self._waiting, []
            self._send((PARCEL, {"events": events}))


def is_of_no_interest(report: dict[str, Any]) -> bool:
    """True for set-up and teardown that went well and printed nothing."""
    return report["when"] != "call" and report["outcome"] == "passed" and not report["sections"]


def unpacking(process: Callable[[Any], None]) -> Callable[[Any], None]:
    """``process``, as it takes one event, for parcels of them, and for the mark of the end."""

    def process_all(message: Any) -> None:
        events = message[1]["events"] if isinstance(message, tuple) and message[0] == PARCEL else [message]
        for event in events:
            process(event)

    return process_all


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.process_from_remote = unpacking(node.process_from_remote)


@pytest.hookimpl(tryfirst=True)
def pytest_sessionstart(session: pytest.Session) -> None:
    for plugin in session.config.pluginmanager.get_plugins():
        if type(plugin).__name__ == "WorkerInteractor":
            options = session.config.option
            with_phases = options.times or options.durations is not None or options.xmlpath is not None
            plugin.sendevent = Parcels(plugin.channel.send, with_phases=with_phases).sendevent
