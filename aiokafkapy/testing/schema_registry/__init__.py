"""A schema registry for tests: in process, on a real socket, with Confluent's REST API and rules of compatibility.

HTTP requests with schemas, rules and keys come in; the registry's answers go out.

``registry`` and ``routes`` take a request, ``store`` decides it, ``formats`` reads its schemas, and the ``*_rules``,
one module for each format, compare them.
"""

from __future__ import annotations

from .errors import RegistryRefusal
from .registry import RegistryRequest, SchemaRegistry

__all__ = ["RegistryRefusal", "RegistryRequest", "SchemaRegistry"]
