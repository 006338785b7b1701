from __future__ import annotations

import subprocess
import sys

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


def test_it_is_left_to_typer_s_callback_where_typer_reads_the_command_line() -> None:
    assert _handlers_of_a_run("broker", "--port", "0") == ["_FirstRecord"]
    assert "_FirstRecord" not in _handlers_of_a_run("--log-level", "error", "broker", "--port", "0")


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
