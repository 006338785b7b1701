"""The machine on which figures were measured: processor, cores, kernel, versions, and whether anything else was
running.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import subprocess
import sysconfig
from pathlib import Path
from typing import Any, Final

import aiokafkapy

from .clients.java import KAFKA_VERSION

__all__ = ["describe", "in_words", "load_average", "python_is_optimized"]

PACKAGES: Final = ("uvloop", "aiokafka", "confluent-kafka", "kafka-python", "kio", "cramjam", "crc32c", "pyarrow")


def describe() -> dict[str, Any]:
    """Machine and versions, for the results."""
    return {
        "cpu": _first(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo")),
        "cores": os.cpu_count(),
        "memory_gb": round(int(_first(r"MemTotal:\s*(\d+)", Path("/proc/meminfo")) or 0) / 1024**2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "python_is_optimized": python_is_optimized(),
        "java": _java(),
        "kafka": KAFKA_VERSION,
        "librdkafka": _librdkafka(),
        "aiokafkapy": aiokafkapy.__version__,
        "commit": _commit(),
        "compiled": aiokafkapy.compiled,
        **{name: _version(name) for name in PACKAGES},
    }


def in_words(machine: dict[str, Any]) -> str:
    """One sentence for people."""
    peers = ", ".join(f"{name} {machine[name]}" for name in ("aiokafka", "confluent-kafka", "kafka-python"))
    return (
        f"{machine['cpu'] or 'unknown processor'}, {machine['cores']} cores shared with the broker (Apache Kafka "
        f"{machine['kafka']}, one node, logs on tmpfs), Linux {machine['kernel']}, Python {machine['python']}"
        f"{'' if machine.get('python_is_optimized', True) else ' (built without optimizations)'}, "
        f"uvloop {machine['uvloop']}, {peers}"
    )


def python_is_optimized() -> bool:
    """False for a Python built without the compiler's profile, as ``configure`` does unless it is told to. Python code
    then takes a quarter longer, and code in C does not.
    """
    arguments = sysconfig.get_config_var("CONFIG_ARGS") or ""
    # Debian runs the steps itself, and leaves the flag out of the recorded options.
    return "--enable-optimizations" in arguments or not sysconfig.get_config_var("PGO_PROF_USE_FLAG")


def load_average() -> float:
    """The load of the last minute; more than a little before the start means that other programs are at work."""
    return os.getloadavg()[0]


# internals


def _first(pattern: str, path: Path) -> str:
    try:
        found = re.search(pattern, path.read_text())
    except OSError:
        return ""
    return found[1].strip() if found else ""


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _librdkafka() -> str:
    try:
        import confluent_kafka
    except ImportError:
        return ""
    return str(confluent_kafka.libversion()[0])


def _java() -> str:
    return _said("java", "-version").partition("\n")[0]


def _commit() -> str:
    return _said("git", "-C", str(Path(__file__).parent), "rev-parse", "--short", "HEAD")


def _said(*command: str) -> str:
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return done.stdout.strip()
