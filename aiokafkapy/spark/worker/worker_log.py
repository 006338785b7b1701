"""Makes our warnings visible: a Python worker of Spark configures no logging, so they would be lost.

Owns one handler, which writes warnings to the worker's stderr: that goes to the log of the driver or executor. Spark's
connector logs through the JVM's log4j.

Rule: if the application has its own handlers, in a worker or because this is not a worker, none is added.
"""

from __future__ import annotations

import logging

__all__ = ["show_warnings", "stderr_handler"]


def show_warnings() -> None:
    """Write our warnings to stderr, unless another handler takes them. Idempotent."""
    ours = logging.getLogger("aiokafkapy")
    handlers = [*logging.getLogger().handlers, *ours.handlers]
    if any(not isinstance(handler, logging.NullHandler) for handler in handlers):
        return
    handler = stderr_handler()
    handler.setLevel(logging.WARNING)
    ours.addHandler(handler)


def stderr_handler() -> logging.Handler:
    """Writes our lines to standard error, each with its time, level and logger."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    return handler
