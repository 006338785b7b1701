"""Programs in Go that measurements need, compiled once into a cache folder.

A program is a folder with its sources, a ``go.mod`` and a ``go.sum``. Without Go, or without its modules, the
measurements that need the program are left out.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from aiokafkapy.testing.kafka.jars import cache_directory

from .measurement import SkippedError, completed

__all__ = ["built"]

BUILD_TIMEOUT: Final = 600.0


async def built(name: str, folder: Path) -> Path:
    """The program, compiled when it is not there yet, or older than its folder's files. SkippedError without Go."""
    program = cache_directory() / name
    if _is_current(program, folder):
        return program
    if (go := shutil.which("go")) is None:
        raise SkippedError(f"{name} needs Go, and there is none")
    program.parent.mkdir(parents=True, exist_ok=True)
    environment = os.environ | {"GOFLAGS": "-mod=readonly", "GOTOOLCHAIN": "local", "CGO_ENABLED": "0"}
    command = [go, "build", "-o", str(program), "."]
    status, output, errors = await completed(command, BUILD_TIMEOUT, cwd=folder, env=environment)
    if status != 0:
        said = (output + errors).decode(errors="replace").strip()
        raise SkippedError(f"{name} cannot be built here: {said[-300:]}")
    return program


def _is_current(program: Path, folder: Path) -> bool:
    newest = max(path.stat().st_mtime for path in folder.iterdir())
    return program.exists() and program.stat().st_mtime > newest
