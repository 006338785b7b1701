"""The command line: ``aiokafkapy broker | console | produce | read | topics | perf | doctor | record | replay | …``.

One file per command, with its options and its work; ``app`` assembles them, ``running`` runs a command's coroutine
(uvloop, signals, errors as one line), ``options`` has the shared options, ``input_lines``, ``sources`` and
``input_queue`` read the input of ``produce``.

Comes in: the words of a command line, the environment's variables, files and stdin. Goes out: results, advice, and an
exit code.

Rules, for every command:
- results go to stdout, everything else (progress, advice, errors) to stderr;
- an error is one line that says what to do, and never a traceback, if a user or a broker can cause it; the exit code is
  1 if the work failed, 2 if the command line was wrong, 130 if it was interrupted;
- the producer, the broker and the demo are imported by the command that needs them, so ``--help`` is quick;
- ``broker`` with plain options runs without typer (``declared_options``).
"""

from __future__ import annotations

import sys

from .streams import prepare_streams

__all__ = ["main"]


def main() -> None:
    """The console script: run the command of ``sys.argv`` and exit with its code."""
    prepare_streams()
    if sys.argv[1:2] == ["broker"]:
        _run_broker(sys.argv[2:])
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ModuleNotFoundError as error:
        sys.exit(f"error: the command line needs {error.name}: pip install 'aiokafkapy[cli]'")
    from .app import app_for

    app_for(sys.argv[1:])(prog_name="aiokafkapy")


def _run_broker(words: list[str]) -> None:
    """Run the broker, and exit, if its options are plain: it is ready before typer is imported."""
    from .broker import broker
    from .declared_options import parsed

    arguments = parsed(broker, words)
    if arguments is not None:
        try:
            broker(**arguments)
        except Exception as error:
            typer = sys.modules.get("typer")
            if typer is None or not isinstance(error, typer.BadParameter):
                raise  # else typer reads it again, and says how it is used
