from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from aiokafkapy.cli.late_logging import configure_late
from aiokafkapy.observability import get_logger
from aiokafkapy.observability.programs import configure_logging

PROGRAM = """\
import logging, sys
from aiokafkapy.cli.late_logging import configure_late
from aiokafkapy.observability import get_logger
configure_late()
print("structlog" in sys.modules)
get_logger("aiokafkapy.broker").warning("broker.strange", node=3)
logging.getLogger("other").warning("of %s", "another library")
get_logger("aiokafkapy.broker").info("broker.quiet")
get_logger("aiokafkapy.broker").warning("broker.again", node=4)
print("structlog" in sys.modules, len(logging.getLogger().handlers))
"""


def test_the_first_line_of_the_log_configures_it() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True", "1"]
    lines = done.stderr.splitlines()
    assert len(lines) == 3
    expected = (["broker.strange", "node=3"], ["of another library"], ["broker.again", "node=4"])
    for line, words in zip(lines, expected, strict=True):
        assert "[warning" in line
        assert all(word in line for word in words)


def test_a_first_event_has_its_fields_in_json_and_its_level() -> None:
    program = PROGRAM.replace("configure_late()", 'configure_late("json", "info")')
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert [line["event"] for line in lines] == ["broker.strange", "of another library", "broker.quiet", "broker.again"]
    assert [line.get("node") for line in lines] == [3, None, None, 4]


@pytest.mark.parametrize("logs", [False, True])
def test_late_logging_can_be_taken_back(logs: bool, capsys: pytest.CaptureFixture[str]) -> None:
    root, ours = logging.getLogger(), logging.getLogger("aiokafkapy")
    before = list(root.handlers), ours.level
    restore = configure_late(level="debug")
    if logs:
        get_logger().debug("a.first")
    restore()
    assert (list(root.handlers), ours.level) == before
    get_logger().debug("a.second")
    assert ("a.first" in capsys.readouterr().err) is logs


def test_threads_that_log_first_at_the_same_time_configure_it_once() -> None:
    root = logging.getLogger()
    before = list(root.handlers)
    restore = configure_late()
    together = threading.Barrier(8)

    def log(number: int) -> None:
        together.wait()
        logging.getLogger("other" if number % 2 else "aiokafkapy.broker").warning("of thread %s", number)

    threads = [threading.Thread(target=log, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    added = [type(handler).__name__ for handler in root.handlers if handler not in before]
    restore()
    assert added == ["_StandardError"]
    assert root.handlers == before


def test_an_event_that_another_thread_logs_meanwhile_waits_for_the_form(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    logger = get_logger("aiokafkapy.broker")
    other = threading.Thread(target=lambda: logger.warning("broker.again", node=4))

    def configure_slowly(log_format: str, level: str) -> Callable[[], None]:
        other.start()
        other.join(0.2)
        return configure_logging(log_format, level)

    monkeypatch.setattr("aiokafkapy.cli.late_logging.configure_logging", configure_slowly)
    restore = configure_late("json")
    logger.warning("broker.strange", node=3)
    other.join()
    restore()
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert {(line["event"], line["node"]) for line in lines} == {("broker.strange", 3), ("broker.again", 4)}
    assert len(lines) == 2


def test_logging_is_set_up_once_by_any_reader_of_the_command_line() -> None:
    assert _handlers_of_a_run("broker", "--port", "0") == ["_FirstRecord"]
    assert _handlers_of_a_run("--log-level", "error", "broker", "--port", "0") == ["_FirstRecord"]


def _handlers_of_a_run(*words: str) -> list[str]:
    program = f"""\
import logging, sys
from aiokafkapy.cli import main, running
def run(command):
    print(*(type(handler).__name__ for handler in logging.getLogger().handlers))
    sys.exit()
running.run = run
sys.argv[:] = ["aiokafkapy", *{words!r}]
main()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.split()
