"""``aiokafkapy.testing.servers.processes``: a process that was stopped does nothing any more."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aiokafkapy.testing.servers.processes import stop_process

THREADS = """
import threading, time
def work():
    while True: time.sleep(0)
for _ in range(8): threading.Thread(target=work, daemon=True).start()
print("ready", flush=True)
work()
"""


@pytest.fixture
def child() -> Iterator[subprocess.Popen[str]]:
    """A process of nine busy threads."""
    with subprocess.Popen([sys.executable, "-c", THREADS], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def states(process: subprocess.Popen[str]) -> set[str]:
    """The states of all its threads, from /proc."""
    stats = [path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/stat")]
    assert len(stats) == 9
    return {stat.rpartition(")")[2].split()[0] for stat in stats}


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs Linux's /proc")
def test_every_thread_has_stopped_when_it_returns_each_time(child: subprocess.Popen[str]) -> None:
    for _ in range(20):
        stop_process(child.pid)
        assert states(child) == {"T"}
        child.send_signal(signal.SIGCONT)
    assert child.poll() is None


def test_a_process_that_has_ended_is_left_alone(child: subprocess.Popen[str]) -> None:
    child.kill()
    stop_process(child.pid)  # not asked for its exit status yet
    child.wait()
    stop_process(child.pid)


def test_a_process_that_does_not_stop_is_an_error_in_time(
    child: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.kill", lambda *_: None)
    with pytest.raises(TimeoutError, match=rf"{child.pid} has not stopped within 0.05 s"):
        stop_process(child.pid, 0.05)
