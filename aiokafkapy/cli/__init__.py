"""The command line: ``aiokafkapy broker | console | produce | read | topics | perf | doctor | record | replay | …``.

One file per command, with its options and its work; ``app`` assembles them, ``running`` runs a command's coroutine
(uvloop, signals, errors as one line), ``options`` has the shared options, ``sources`` and ``feeding`` read the input of
``produce``.

Rules, for every command:
- results go to stdout, everything else (progress, advice, errors) to stderr;
- an error is one line that says what to do, and never a traceback, if a user or a broker can cause it; the exit code is
  1 if the work failed, 2 if the command line was wrong, 130 if it was interrupted;
- the producer, the broker and the demo are imported by the command that needs them, so ``--help`` is quick.
"""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """The console script: run the command of ``sys.argv`` and exit with its code."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: pip install 'aiokafkapy[cli]'")
    from .app import app

    app(prog_name="aiokafkapy")
