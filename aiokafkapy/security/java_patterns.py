"""Java's replacements, as Kafka's mapping rules have them, for Python's ``re``.

Owns the difference: Java writes ``$1`` where Python writes ``\\1``, and a backslash stands for itself here.
"""

from __future__ import annotations

import re

__all__ = ["compile_rule"]


def compile_rule(pattern: str, replacement: str) -> tuple[re.Pattern[str], str]:
    """The pattern, and the replacement for ``re.sub`` or ``Match.expand``. Raises ValueError, with words for a user."""
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is not a regular expression: {error}") from None
    for number in re.findall(r"\$(\d)", replacement):
        if int(number) > compiled.groups:
            raise ValueError(f"${number} is more than the pattern's {compiled.groups} groups")
    return compiled, re.sub(r"\$(\d)", r"\\g<\1>", replacement.replace("\\", "\\\\"))
