from __future__ import annotations

import logging

import pytest

from aiokafkapy.client.transport.connection_log import ConnectionLog


@pytest.fixture
def log(caplog: pytest.LogCaptureFixture) -> ConnectionLog:
    caplog.set_level(logging.DEBUG, "aiokafkapy")
    return ConnectionLog()


def test_an_outage_of_a_minute_writes_about_ten_lines_a_broker(
    log: ConnectionLog, caplog: pytest.LogCaptureFixture
) -> None:
    for tick in range(600):
        for node_id in (1, 2):
            log.lost(node_id, f"h:{node_id}", OSError("refused"), was_connected=False, in_flight=0, now=tick / 10)
    lines = [record for record in caplog.records if record.levelno == logging.WARNING]
    for node_id in (1, 2):
        mine = [line for line in lines if line.fields["node_id"] == node_id]  # type: ignore[attr-defined]
        assert 8 <= len(mine) <= 11
        shown = sum(line.fields.get("suppressed", 0) for line in mine) + len(mine)  # type: ignore[attr-defined]
        assert shown >= 500


def test_the_end_of_an_outage_is_logged_with_the_number_of_lines_left_out(
    log: ConnectionLog, caplog: pytest.LogCaptureFixture
) -> None:
    log.ready(1, "h:1")
    assert caplog.records[-1].levelno == logging.DEBUG
    for _ in range(10):
        log.lost(1, "h:1", OSError("refused"), was_connected=True, in_flight=4, now=0.0)
    log.ready(1, "h:1")
    assert caplog.records[-1].levelno == logging.INFO
    assert caplog.records[-1].event == "connection.ready"  # type: ignore[attr-defined]
    assert caplog.records[-1].fields["suppressed"] == 7  # type: ignore[attr-defined]
    log.ready(1, "h:1")
    assert caplog.records[-1].levelno == logging.DEBUG


def test_every_event_has_its_name_and_level(log: ConnectionLog, caplog: pytest.LogCaptureFixture) -> None:
    error = OSError("e")
    log.lost(1, "h", error, was_connected=False, in_flight=0, now=0.0)
    log.lost(2, "h", error, was_connected=True, in_flight=3, now=0.0)
    log.closed(3, "h", error)
    log.timed_out(4, "h", "METADATA", 5.0, 0.0)
    log.refused_api_versions(5, error, 0.0)
    log.refused_authentication(6, error, 0.0)
    log.violated_protocol(7, "h", error, 0.0)
    try:
        raise ValueError("bug")
    except ValueError:
        log.callback_failed("PRODUCE")
    assert [(record.event, record.levelname) for record in caplog.records] == [  # type: ignore[attr-defined]
        ("connection.failed", "WARNING"),
        ("connection.lost", "WARNING"),
        ("connection.closed", "DEBUG"),
        ("request.timed_out", "WARNING"),
        ("connection.api_versions", "WARNING"),
        ("connection.authentication", "ERROR"),
        ("protocol.violation", "ERROR"),
        ("request.callback_failed", "ERROR"),
    ]
    assert caplog.records[-1].exc_info is not None
