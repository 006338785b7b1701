"""The table of events is complete: each event of the code is in it with its level and fields, and no other is."""

from __future__ import annotations

from .events import dynamic_events, events_in_code, events_in_page

PAGE = events_in_page()
NO_EVENTS = {"aiokafkapy/producer/accumulator/producer_batch.py"}
"""Logs a line for the search of a fault in the state machine, through ``logging`` alone."""


def test_every_event_of_the_code_is_in_the_table_and_no_other() -> None:
    assert sorted(PAGE) == sorted(events_in_code())
    assert len(PAGE) > 40


def test_a_row_has_the_levels_and_fields_of_its_event() -> None:
    events = events_in_code()
    for name, row in PAGE.items():
        event = events[name]
        assert row.levels == event.levels, name
        assert row.fields >= event.fields, name
        for field in row.fields - event.fields:  # made elsewhere than in the call
            assert any(f'"{field}"' in source or f"{field}=" in source for source in event.sources), (name, field)


def test_an_event_is_a_literal_so_that_the_table_can_have_it() -> None:
    assert {place.rpartition(":")[0] for place in dynamic_events()} <= NO_EVENTS
