"""A schema registry for tests: in process, on a real socket, with Confluent's REST API and rules of compatibility.

A request comes in by ``registry`` and ``routes``, is decided by ``store``, and its schemas are read by ``formats`` and
compared by the ``*_rules``, one for each format.
"""

from __future__ import annotations

from .errors import RegistryRefusal
from .registry import RegistryRequest, SchemaRegistry

__all__ = ["RegistryRefusal", "RegistryRequest", "SchemaRegistry"]
