"""What the processes of a run tell the one that schedules."""

from __future__ import annotations

from typing import Any

from tests.messages import Parcels, unpacking

EVENTS: list[tuple[str, dict[str, Any]]] = [
    ("collectionstart", {}),
    ("logstart", {"nodeid": "a"}),
    ("testreport", {"data": {"when": "call"}}),
    ("logfinish", {"nodeid": "a"}),
    ("runtest_protocol_complete", {"item_index": 0, "duration": 1.0}),
    ("workerfinished", {"workeroutput": {}}),
]


def test_a_test_is_one_message_and_its_events_arrive_in_their_order() -> None:
    sent: list[Any] = []
    parcels = Parcels(sent.append)
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
