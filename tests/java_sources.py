"""Java sources of tests, compiled with nothing but a Java runtime: by Eclipse's compiler, a jar from Maven Central.

CI installs no JDK, so neither ``javac`` nor ``java File.java`` (JEP 330) is there. The compiler is fetched once, as
Kafka's jars are.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Final

from aiokafkapy.testing.kafka_jars import Artifact, KafkaUnavailableError, gather_jars
from aiokafkapy.testing.kafka_tools import QUICK_JVM

__all__ = ["COMPILER", "compiled_into"]

COMPILER: Final = Artifact("org.eclipse.jdt", "ecj", "3.33.0")
"""It runs on Java 17, as Kafka does."""


def compiled_into(directory: Path, source: Path, jars: Path) -> Path:
    """Compile a source against the jars of a directory; returns ``directory``, which has the classes then.

    Raises KafkaUnavailableError when the compiler cannot be had, and RuntimeError with its words on the source.
    """
    # Unlike Java's own, this compiler takes no pattern for a class path.
    class_path = os.pathsep.join(map(str, sorted(jars.glob("*.jar"))))
    compiler = gather_jars("ecj-3.33.0", [COMPILER], "Eclipse's Java compiler", with_dependencies=False)
    command = ["java", *QUICK_JVM, "-jar", str(next(compiler.glob("*.jar"))), "-17", "-proc:none", "-nowarn"]
    command += ["-cp", class_path, "-d", str(directory), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{source.name} does not compile:\n{done.stdout}{done.stderr}")
    return directory


if __name__ == "__main__":  # fetches the compiler, and makes no class
    try:
        print(gather_jars("ecj-3.33.0", [COMPILER], "Eclipse's Java compiler", with_dependencies=False))
    except KafkaUnavailableError as error:
        raise SystemExit(str(error)) from None
