"""``raise_soon``: ends a program at the request of an application's code in the middle of a client's work.

Raised there, KeyboardInterrupt or SystemExit would leave the work half done, and a program that goes on, as an
interactive one does, would wait for it forever. Kafka has no counterpart: in Java an exception ends one thread.
"""

from __future__ import annotations

import asyncio

__all__ = ["raise_soon"]


def raise_soon(error: BaseException) -> None:
    """Raise ``error`` out of the running loop, in its next turn; at once if no loop runs."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        raise error from None
    loop.call_soon(_raise, error)


# internals


def _raise(error: BaseException) -> None:
    raise error
