"""Every handler by API key.

Owns the discovery of the handlers: each module of this package is imported when the table is first asked for. It stands
above all of them, and no handler may import it. Kafka's counterpart is the ``match`` in ``KafkaApis.handle``.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from pathlib import Path

from .registry import Handler, registered

__all__ = ["dispatch_table"]


@cache
def dispatch_table() -> Mapping[int, Handler]:
    """Every handler by API key; the first call imports the modules of this package."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        import_module(f"{__package__}.{module.name}")
    return registered()
