"""The inputs that are kept: one file of hexadecimal digits each, under ``corpus/<target>/``.

Findings of fuzzing are put there under a name that tells the fault, and every run of the tests replays it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

__all__ = ["CORPUS", "kept", "read", "write"]

CORPUS = Path(__file__).parent / "corpus"
_COLUMNS = 100


def kept(target: str) -> list[Path]:
    """The files of a target's inputs."""
    return sorted((CORPUS / target).glob("*.hex"))


def read(path: Path) -> bytes:
    """The input in a file."""
    return bytes.fromhex(path.read_text())


def write(folder: Path, data: bytes, name: str = "") -> Path:
    """Keep an input, under its digest if it has no name yet; returns the file."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name or hashlib.sha256(data).hexdigest()[:16]}.hex"
    digits = data.hex()
    path.write_text("".join(digits[at : at + _COLUMNS] + "\n" for at in range(0, len(digits), _COLUMNS)) or "\n")
    return path
