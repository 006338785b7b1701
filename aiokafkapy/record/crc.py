"""CRC-32C for the whole package.

Loads the library ``crc32c`` with the first checksum, and only its extension module: the import of the package itself
reads its metadata and makes a command line, which takes as long as importing all of ``record``. Kafka's counterpart is
``Crc32C``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..common import Buffer

__all__ = ["crc32c", "library_crc32c"]


def crc32c(data: Buffer, crc: int = 0) -> int:
    """The checksum of ``data``, continuing from ``crc``, the checksum of the bytes before it."""
    return library_crc32c()(data, crc)


@cache
def library_crc32c() -> Callable[[Buffer, int], int]:
    """The library's function, for callers that keep it."""
    found = find_spec("crc32c")
    parts = None if found is None else PathFinder.find_spec("crc32c._crc32c", found.submodule_search_locations)
    if parts is None or parts.loader is None:  # a later release may have another layout
        from crc32c import crc32c

        return crc32c
    extension = module_from_spec(parts)
    parts.loader.exec_module(extension)
    function: Callable[[Buffer, int], int] = extension.crc32c
    return function
