"""Warnings are seen where nobody configured logging, and nothing is added where somebody did."""

from __future__ import annotations

import subprocess
import sys

BEGIN = """
import logging
from aiokafkapy.observability import get_logger
from aiokafkapy.spark.worker.worker_log import show_warnings
"""
WARN = "show_warnings(); show_warnings(); get_logger('aiokafkapy.spark.x').warning('it.happened', topic='t')"


def stderr_of(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stderr


def test_a_warning_is_written_once() -> None:
    assert stderr_of(BEGIN + WARN).count("WARNING aiokafkapy.spark.x: it.happened topic=") == 1


def test_an_application_that_has_a_log_keeps_it_as_it_is() -> None:
    told = stderr_of(BEGIN + "logging.basicConfig(format='mine %(message)s'); " + WARN)
    assert told.startswith("mine it.happened")
    assert len(told.splitlines()) == 1
