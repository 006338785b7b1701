"""A command's reports to the user: its exit codes, its error, and lines on stderr.

It imports no event loop: a command line is read without one.
"""

from __future__ import annotations

import sys
from typing import Final

__all__ = ["EXIT_FAILED", "EXIT_INTERRUPTED", "EXIT_OK", "EXIT_USAGE", "CommandError", "say"]

EXIT_OK: Final = 0
EXIT_FAILED: Final = 1
EXIT_USAGE: Final = 2
EXIT_INTERRUPTED: Final = 130
"""The exit code 128 + SIGINT, as in shells."""


class CommandError(Exception):
    """A command cannot do its work; the text is for the user and says what to do."""

    def __init__(self, message: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.exit_code = exit_code


def say(text: str) -> None:
    """Print a line for the user to stderr; stdout is for results."""
    print(text, file=sys.stderr, flush=True)
