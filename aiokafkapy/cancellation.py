"""``to_its_end``: work that a cancelled caller must not leave half done. Java has no counterpart.

Knows nothing of this package. Trio's counterpart is ``CancelScope(shield=True)``.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

__all__ = ["to_its_end"]

T = TypeVar("T")


async def to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """The result of ``work``. A call that is cancelled waits for its end all the same, and raises CancelledError then;
    a second cancellation abandons the work.
    """
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
