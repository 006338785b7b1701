"""``python -m benchmarks`` leaves no process behind when it is ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORKER = """\
import os, pathlib, time
pathlib.Path("starting").write_text(str(os.getpid()))
os.rename("starting", "started")
time.sleep(60)
"""
PROGRAM = """\
import signal, sys
signal.signal(signal.SIGINT, getattr(signal, sys.argv[1]))
from benchmarks import __main__ as command
from benchmarks.measurement import Measurement, figures_of

class Runner:
    def __init__(self, *_, **__): pass
    async def run(self):
        await figures_of("worker", Measurement(group="", workload="", client="", count=1), "", "")

command.Runner = Runner
sys.argv[1:] = ["--quick"]
sys.exit(command.main())
"""


# A shell's background job, as this run may be one, ignores SIGINT.
@pytest.mark.parametrize(("number", "on_sigint"), [(signal.SIGINT, "default_int_handler"), (signal.SIGTERM, "SIG_IGN")])
def test_the_worker_ends_with_the_command(number: signal.Signals, on_sigint: str, tmp_path: Path) -> None:
    (tmp_path / "worker.py").write_text(WORKER)
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{tmp_path}"}
    with subprocess.Popen([sys.executable, "-c", PROGRAM, on_sigint], cwd=tmp_path, env=environment) as command:
        while not (tmp_path / "started").exists():
            assert command.poll() is None
            time.sleep(0.01)
        command.send_signal(number)
        assert command.wait(30) == 130
    with pytest.raises(ProcessLookupError):
        os.kill(int((tmp_path / "started").read_text()), 0)
