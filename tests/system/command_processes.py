"""The commands as processes, and a broker that is one."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["Cluster", "PROGRAM", "TIMEOUT", "start_broker", "stop"]

PROGRAM = [sys.executable, "-m", "aiokafkapy"]
TIMEOUT = 60


@dataclass(frozen=True)
class Cluster:
    servers: str

    def run(self, *arguments: str, given: str | bytes | None = None, code: int = 0) -> subprocess.CompletedProcess[str]:
        data = given.encode() if isinstance(given, str) else given
        done = subprocess.run(
            [*PROGRAM, *arguments], input=data, capture_output=True, env=self.environment, timeout=TIMEOUT, check=False
        )
        result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
        assert result.returncode == code, result
        assert "Traceback" not in result.stderr, result.stderr
        return result

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        pipe = subprocess.PIPE
        return subprocess.Popen([*PROGRAM, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, env=self.environment)

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "AIOKAFKAPY_BOOTSTRAP_SERVERS": self.servers}

    def read(self, topic: str, *arguments: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.run("read", topic, *arguments).stdout.splitlines()]


def start_broker(*arguments: str) -> tuple[subprocess.Popen[bytes], str]:
    process = subprocess.Popen([*PROGRAM, "broker", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    return process, process.stdout.readline().decode().strip()


def stop(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> tuple[str, str]:
    if process.poll() is None:
        process.send_signal(number)
    try:
        out, err = process.communicate(timeout=TIMEOUT)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise
    return out.decode(), err.decode()
