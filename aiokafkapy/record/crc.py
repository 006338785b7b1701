"""CRC-32C, of which everybody in the package asks here.

Owns when the library `crc32c` is imported: with the first checksum, for its import reads the metadata of its own
package, which takes as long as all of `record`. Kafka's counterpart is `Crc32C`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .encoding import Buffer

__all__ = ["crc32c", "library_crc32c"]


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The checksum of `data`, or of what has the checksum `crc` and `data` after it."""
    return library_crc32c()(data, crc)


@cache
def library_crc32c() -> Callable[[Buffer, int], int]:
    """The library's function, for who keeps it."""
    from crc32c import crc32c

    return crc32c
