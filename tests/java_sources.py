"""Java sources of tests, compiled with nothing but a Java runtime: by Eclipse's compiler, a jar from Maven Central.

CI installs no JDK, so neither ``javac`` nor ``java File.java`` (JEP 330) is there. The compiler is fetched once, as
Kafka's jars are.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aiokafkapy.testing.kafka.jars import Artifact, KafkaUnavailableError, cache_directory, gather_jars
from aiokafkapy.testing.kafka.tools import QUICK_JVM
from aiokafkapy.testing.servers.file_lock import locked

__all__ = ["COMPILER", "compiled"]

VERSION: Final = "3.33.0"
COMPILER: Final = Artifact("org.eclipse.jdt", "ecj", VERSION)
"""It runs on Java 17, as Kafka does."""


def compiled(source: Path, jars: Path | None = None) -> Path:
    """The folder of a source's classes, compiled against the jars of a directory, once for these and for all processes.

    Raises KafkaUnavailableError when the compiler cannot be had, and RuntimeError with its words on the source.
    """
    # Unlike Java's own, this compiler takes no pattern for a class path.
    needed = sorted(jars.glob("*.jar")) if jars is not None else []
    name = hashlib.sha256(source.read_bytes() + "".join(jar.name for jar in needed).encode()).hexdigest()[:16]
    path = cache_directory() / "classes-of-tests" / f"{source.stem}-{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with locked(path.with_name(path.name + ".lock")):
        if not path.is_dir():
            with tempfile.TemporaryDirectory(dir=path.parent, prefix=f"{path.name}.part-") as scratch:
                classes = Path(scratch, "classes")
                _compile(source, needed, classes)
                classes.rename(path)
    return path


def _compile(source: Path, jars: Sequence[Path], classes: Path) -> None:
    compiler = _compiler()
    command = ["java", *QUICK_JVM, "-jar", str(next(compiler.glob("*.jar"))), "-17", "-proc:none", "-nowarn"]
    command += ["-cp", os.pathsep.join(map(str, jars)), "-d", str(classes), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{done.stdout}{done.stderr}")


def _compiler() -> Path:
    """The folder with the compiler's jar."""
    return gather_jars(f"ecj-{VERSION}", [COMPILER], "Eclipse's Java compiler", with_dependencies=False)


if __name__ == "__main__":  # fetches the compiler, and makes no class
    try:
        print(_compiler())
    except KafkaUnavailableError as error:
        raise SystemExit(str(error)) from None
