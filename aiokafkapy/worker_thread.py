"""``run_in_thread``: work that would hold the event loop for too long, in a thread of its own; ``done_here`` without.

Knows nothing of the work. Not in the loop's default executor: that has few threads, and a user's blocking calls
(``asyncio.to_thread``) may hold all of them for any time, so that a connection, its credentials or metadata would wait
for them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar, TypeVarTuple

__all__ = ["done_here", "run_in_thread"]

T = TypeVar("T")
Arguments = TypeVarTuple("Arguments")


def run_in_thread(
    loop: asyncio.AbstractEventLoop, function: Callable[[*Arguments], T], *args: *Arguments
) -> asyncio.Future[T]:
    """The outcome of ``function(*args)``, run in a thread that ends with it; here and now if none can be started.

    Cancel the future before the loop is closed: after that the outcome reaches nobody.
    """
    from concurrent.futures import ThreadPoolExecutor  # imports queue as well; most clients need neither

    executor = ThreadPoolExecutor(1, thread_name_prefix="aiokafkapy")
    try:
        return loop.run_in_executor(executor, _outcome, function, *args)
    except RuntimeError:  # the limit of threads is reached, or the interpreter ends
        return done_here(loop, function, *args)
    finally:
        executor.shutdown(wait=False)


def done_here(
    loop: asyncio.AbstractEventLoop, function: Callable[[*Arguments], T], *args: *Arguments
) -> asyncio.Future[T]:
    """The outcome of ``function(*args)``, run here and now."""
    outcome: asyncio.Future[T] = loop.create_future()
    try:
        outcome.set_result(_outcome(function, *args))
    except Exception as error:
        outcome.set_exception(error)
    return outcome


def _outcome(function: Callable[[*Arguments], T], *args: *Arguments) -> T:
    """Replace a StopIteration, as a coroutine does: no future takes one, so it would never be done."""
    try:
        return function(*args)
    except StopIteration as error:
        raise RuntimeError(f"{getattr(function, '__name__', 'the function')} raised StopIteration") from error
