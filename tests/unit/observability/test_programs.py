from __future__ import annotations

import io
import json
import logging
import sys
from collections.abc import Iterator

import pytest
import structlog

from aiokafkapy.observability import get_logger
from aiokafkapy.observability.programs import configure_logging


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def restored(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.delenv("NO_COLOR", raising=False)
    structlog.reset_defaults()
    yield
    structlog.reset_defaults()


def written(stream: io.StringIO, monkeypatch: pytest.MonkeyPatch, **options: str) -> list[str]:
    """The lines of three events and of another library's warning, under a configuration."""
    monkeypatch.setattr(sys, "stderr", stream)
    restore = configure_logging(**options)
    try:
        log = get_logger("aiokafkapy.x")
        log.debug("connection.ready", node_id=1)
        log.info("producer.started", node_id=1)
        log.warning("connection.lost", node_id=1, error="it is gone")
        logging.getLogger("uvicorn.error").warning("theirs %d", 5)
        logging.getLogger("uvicorn.error").info("not shown")
    finally:
        restore()
    return stream.getvalue().splitlines()


def test_the_log_is_plain_text_on_a_pipe(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = written(io.StringIO(), monkeypatch)
    assert len(lines) == 3
    assert "[info     ] producer.started" in lines[0]
    assert "error='it is gone'" in lines[1]
    assert "theirs 5" in lines[2]
    assert "\x1b[" not in "".join(lines)


def test_the_log_is_coloured_on_a_terminal_unless_the_user_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "\x1b[" in written(Terminal(), monkeypatch)[0]
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b[" not in written(Terminal(), monkeypatch)[0]


def test_json_is_one_object_a_line_for_our_events_and_others(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [json.loads(line) for line in written(Terminal(), monkeypatch, log_format="json", level="warning")]
    assert all(line.pop("timestamp") for line in lines)
    assert lines == [
        {"event": "connection.lost", "level": "warning", "logger": "aiokafkapy.x", "node_id": 1, "error": "it is gone"},
        {"event": "theirs 5", "level": "warning", "logger": "uvicorn.error"},
    ]


def test_a_traceback_is_in_the_json(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    restore = configure_logging("json")
    get_logger("aiokafkapy.x").error("e", exc_info=ValueError("broken"))
    restore()
    assert "ValueError: broken" in json.loads(stream.getvalue())["exception"]


@pytest.mark.parametrize(("level", "count"), [("debug", 4), ("info", 3), ("warning", 2), ("error", 1)])
def test_the_level_is_that_of_our_events(level: str, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(written(io.StringIO(), monkeypatch, level=level)) == count


def test_contextvars_are_in_the_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    with structlog.contextvars.bound_contextvars(request_id="r-1"):
        assert json.loads(written(io.StringIO(), monkeypatch, log_format="json")[0])["request_id"] == "r-1"


def test_a_configuration_can_be_taken_back() -> None:
    root, ours = logging.getLogger(), logging.getLogger("aiokafkapy")
    before = (list(root.handlers), root.level, ours.level)
    restore = configure_logging(level="debug")
    assert structlog.is_configured()
    restore()
    assert not structlog.is_configured()
    assert (list(root.handlers), root.level, ours.level) == before
    structlog.configure(processors=[structlog.processors.JSONRenderer()])
    configured = structlog.get_config()
    configure_logging()()
    assert structlog.get_config() == configured


@pytest.mark.parametrize("options", [{"log_format": "xml"}, {"level": "loud"}])
def test_a_word_that_is_neither_a_format_nor_a_level_is_refused(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"xml|loud"):
        configure_logging(**options)
    assert not structlog.is_configured()
