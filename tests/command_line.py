"""The commands, run in this process."""

from __future__ import annotations

from typer.testing import CliRunner, Result

from aiokafkapy.cli.app import app_for

__all__ = ["invoked"]


def invoked(*words: str) -> Result:
    """The outcome of ``aiokafkapy`` with these words."""
    return CliRunner().invoke(app_for(words), words)
