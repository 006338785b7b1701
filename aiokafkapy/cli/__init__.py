"""The command line: ``aiokafkapy broker | console | produce | read | topics | perf | doctor | record | replay | …``.

One file per command, with its options and its work; ``entry`` is the entry point, ``app`` assembles the commands,
``running`` runs a command's coroutine (uvloop, signals, errors as one line), ``options`` has the shared options,
``input_lines``, ``sources`` and ``input_queue`` read the input of ``produce``.

The words of a command line, the environment's variables, files and stdin come in; results, advice, and an exit code go
out.

Rules, for every command:
- results go to stdout, everything else (progress, advice, errors) to stderr;
- an error is one line that says what to do, and never a traceback, if a user or a broker can cause it; the exit code is
  1 if the work failed, 2 if the command line was wrong, 130 if it was interrupted;
- the producer, the broker and the demo are imported by the command that needs them, so ``--help`` is quick;
- ``broker`` with plain options runs without typer (``declared_options``).
"""

from __future__ import annotations

from .entry import main

__all__ = ["main"]
