"""The longest that a batch gathers if ``linger_ms`` is not a number.

Owns these two numbers: the options name them, and the accumulator, which knows no options, keeps them. Java has none.
"""

from __future__ import annotations

from typing import Final

__all__ = ["ADAPTIVE_LINGER_MS", "AUTO_LINGER_MS"]

ADAPTIVE_LINGER_MS: Final = 5
"""With ``linger_ms=None``, while the batch's leader is busy."""
AUTO_LINGER_MS: Final = 20
"""With ``linger_ms="auto"``."""
