import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiokafkapy.testing.servers.watchdog import Watchdog

WAITS_FOR_EVER = [sys.executable, "-c", "import signal; print(flush=True); signal.pause()"]


def _child() -> subprocess.Popen[bytes]:
    child = subprocess.Popen(WAITS_FOR_EVER, stdout=subprocess.PIPE, start_new_session=True)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def test_closing_kills_the_guarded_and_removes_the_directory(tmp_path: Path) -> None:
    directory = tmp_path / "guarded"
    (directory / "deep").mkdir(parents=True)
    watchdog = Watchdog(str(directory))
    with _child() as child:
        watchdog.guard(child.pid)
        watchdog.close(timeout=30)
        assert child.wait(30) == -9
    assert not directory.exists()
    watchdog.close()


def test_a_released_process_lives_on() -> None:
    with _child() as child:
        watchdog = Watchdog()
        watchdog.guard(child.pid)
        watchdog.release(child.pid)
        watchdog.close()
        assert child.poll() is None
        child.kill()


def test_the_death_of_the_owner_is_enough(tmp_path: Path) -> None:
    directory = tmp_path / "guarded"
    directory.mkdir()
    program = (
        "import os, signal, sys\n"
        "from aiokafkapy.testing.servers.watchdog import Watchdog\n"
        "watchdog = Watchdog(sys.argv[1]); watchdog.guard(int(sys.argv[2]))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    with _child() as child:
        owner = subprocess.run([sys.executable, "-c", program, str(directory), str(child.pid)], check=False)
        assert owner.returncode == -9
        assert child.wait(30) == -9


def test_needs_a_process_group_that_exists_only_until_it_is_gone() -> None:
    watchdog = Watchdog()
    with _child() as child:
        watchdog.guard(child.pid)
        child.kill()
    watchdog.close()
    with pytest.raises(ProcessLookupError):
        os.killpg(child.pid, 0)
