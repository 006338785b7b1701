"""Ships the package to executors that do not have it: one archive, and the settings that make Spark unpack and import
it.

Owns the contents: this package as installed, compiled core included, and the libraries that it needs. PySpark, PyArrow
and their dependencies must be on the executors, as any Spark job with Python needs them. Spark's own way for whole
environments is "Python Package Management" in its manual; this does the same for one package.

Rule: an archive is for executors with this platform and this version of Python: it has compiled code.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import sysconfig
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

__all__ = ["package_archive", "shipping_conf"]

NAME: Final = "aiokafkapy"
UNPACKED: Final = "aiokafkapy-packages"
"""The directory on the executors, below the working directory of each."""
NOT_SHIPPED: Final = frozenset({"typer", "rich"})
"""Modules that only the command line uses."""


def shipping_conf(directory: Path) -> dict[str, str]:
    """Settings for a session whose executors are other processes or machines: ``SparkSession.builder.config(map=…)``.

    Writes the archive into ``directory``, which must exist until the session ends.
    """
    archive = package_archive(directory)
    return {"spark.archives": f"{archive.resolve()}#{UNPACKED}", "spark.executorEnv.PYTHONPATH": UNPACKED}


def package_archive(directory: Path) -> Path:
    """Write the archive and return its path; an older one of the same name is replaced."""
    directory.mkdir(parents=True, exist_ok=True)
    version = importlib.metadata.version(NAME)
    python = f"py{sys.version_info.major}{sys.version_info.minor}"
    archive = directory / f"{NAME}-{version}-{python}-{sysconfig.get_platform()}.tar.gz"
    unfinished = archive.with_suffix(".part")
    with tarfile.open(unfinished, "w:gz", compresslevel=1) as target:
        for path, name in _files():
            target.add(path, name, recursive=False)
    unfinished.rename(archive)
    return archive


def _files() -> Iterator[tuple[Path, str]]:
    """Each file and its name in the archive."""
    # Not by the distribution's file list: an editable install has none.
    package = Path(__file__).parents[1]
    for path in sorted(package.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            yield path, f"{NAME}/{path.relative_to(package).as_posix()}"
    for distribution in _needed(NAME, {NAME}):
        for file in distribution.files or ():
            path = Path(str(file.locate()))
            if ".." not in file.parts and "__pycache__" not in file.parts and path.is_file():
                yield path, file.as_posix()


def _needed(name: str, seen: set[str]) -> Iterator[importlib.metadata.Distribution]:
    """The installed distributions that one needs, directly or not, each once, without extras."""
    for requirement in importlib.metadata.requires(name) or ():
        found = re.match(r"[A-Za-z0-9._-]+", requirement)
        if found is None or re.search(r"\bextra\s*==", requirement):
            continue
        needed = re.sub(r"[-_.]+", "-", found[0]).lower()
        if needed in seen or needed in NOT_SHIPPED:
            continue
        seen.add(needed)
        try:
            distribution = importlib.metadata.distribution(needed)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        yield distribution
        yield from _needed(needed, seen)
