"""CRC-32C for the whole package.

Imports the library ``crc32c`` with the first checksum, since its import reads its own package metadata, which takes as
long as importing all of ``record``. Kafka's counterpart is ``Crc32C``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .encoding import Buffer

__all__ = ["crc32c", "library_crc32c"]


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The checksum of ``data``, continuing from ``crc``, the checksum of the bytes before it."""
    return library_crc32c()(data, crc)


@cache
def library_crc32c() -> Callable[[Buffer, int], int]:
    """The library's function, for callers that keep it."""
    from crc32c import crc32c

    return crc32c
