"""The names that an HTTP header may have."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["HEADER_NAME"]

HEADER_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
"""A token of RFC 9110, section 5.6.2."""
