"""The messages of a run's processes to the one that schedules."""

from __future__ import annotations

from typing import Any

import pytest

from tests.messages import Parcels, unpacking

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("collectionstart", {}),
    ("logstart", {"nodeid": "a"}),
    ("testreport", {"data": {"when": "setup", "outcome": "passed", "sections": []}}),
    ("testreport", {"data": {"when": "call", "outcome": "passed", "sections": []}}),
    ("logfinish", {"nodeid": "a"}),
    ("runtest_protocol_complete", {"item_index": 0, "duration": 1.0}),
    ("workerfinished", {"workeroutput": {}}),
]


def test_a_test_is_one_message_and_its_events_arrive_in_their_order() -> None:
    sent: list[Any] = []
    parcels = Parcels(sent.append, with_phases=True)
    for name, values in EVENTS:
        parcels.sendevent(name, **values)
    arrived: list[Any] = []
    process = unpacking(arrived.append)
    for message in sent:
        process(message)
    assert len(sent) == 3
    assert arrived == EVENTS


def test_a_message_of_xdists_own_and_the_mark_of_the_end_arrive_as_they_are() -> None:
    end = object()
    arrived: list[Any] = []
    process = unpacking(arrived.append)
    process(("unscheduled", {"indices": []}))
    process(end)
    assert arrived == [("unscheduled", {"indices": []}), end]


@pytest.mark.parametrize(
    ("report", "is_told"),
    [
        ({"when": "setup", "outcome": "passed", "sections": []}, False),
        ({"when": "teardown", "outcome": "passed", "sections": []}, False),
        ({"when": "setup", "outcome": "passed", "sections": [("Captured stdout setup", "a word")]}, True),
        ({"when": "setup", "outcome": "skipped", "sections": []}, True),
        ({"when": "teardown", "outcome": "failed", "sections": []}, True),
        ({"when": "call", "outcome": "passed", "sections": []}, True),
    ],
)
def test_only_set_ups_and_teardowns_that_printed_nothing_are_left_out(report: dict[str, Any], is_told: bool) -> None:
    sent: list[Any] = []
    parcels = Parcels(sent.append, with_phases=False)
    parcels.sendevent("testreport", data=report)
    parcels.sendevent("runtest_protocol_complete")
    ((_, parcel),) = sent
    assert [name for name, _ in parcel["events"]] == ["testreport"] * is_told + ["runtest_protocol_complete"]
