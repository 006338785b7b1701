"""``AUTO``: an option's value with which the producer itself chooses, and goes on choosing.

Owns the word: the options take it, and the parts that choose look for it. Java has none.
"""

from __future__ import annotations

from typing import Final

__all__ = ["AUTO"]

AUTO: Final = "auto"
"""For ``compression_type``, ``linger_ms`` and ``max_in_flight_requests_per_connection``."""
