"""Java's archive of Kafka's classes as loaded (JEP 350): with it a node, or a tool, needs half the time to start.

Owns the archive's file, in the folder of the jars that it was made from, one for each Java. It knows no cluster: code
that can start a node makes the archive, by a node that ends by itself. Other Java programs keep theirs by
``archive_at`` and ``make_archive_at``.

Rules: an archive is complete or absent. Without a fitting archive Java loads the classes as usual.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..servers.file_lock import locked
from .jars import fetch_jars, java_release

__all__ = ["archive_at", "archive_options", "make_archive", "make_archive_at"]


def archive_options(version: str) -> tuple[str, ...]:
    """Options of ``java`` that use the archive of this release's classes; empty without an archive."""
    return archive_at(_path(version))


def make_archive(version: str, run: Callable[[tuple[str, ...]], object]) -> None:
    """Make the archive unless it exists: ``run`` starts a node with these options, and lets it end by itself."""
    make_archive_at(_path(version), run)


def archive_at(path: Path) -> tuple[str, ...]:
    """Options of ``java`` that use the archive at this path; empty without one."""
    # Java reports faults on the standard output, where a tool's own output is expected.
    return (f"-XX:SharedArchiveFile={path}", "-Xlog:disable", "-Xlog:all=warning:stderr") if path.exists() else ()


def make_archive_at(path: Path, run: Callable[[tuple[str, ...]], object]) -> None:
    """Make an archive unless it exists: ``run`` starts Java with these options, and lets it end by itself."""
    if path.exists():
        return
    with locked(path.with_suffix(".lock")):
        if path.exists():  # another process made it while we waited
            return
        part = path.with_suffix(f".part-{os.getpid()}")
        try:
            run((f"-XX:ArchiveClassesAtExit={part}", "-Xlog:disable"))
            if part.exists():
                part.rename(path)
        finally:
            part.unlink(missing_ok=True)


def _path(version: str) -> Path:
    return fetch_jars(version) / f"classes-{java_release()}.jsa"
