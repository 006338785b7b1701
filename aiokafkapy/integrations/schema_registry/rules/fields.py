"""The fields of a message as rules see them: full name, type, tags.

Owns a field's tags, and the decision whether a rule applies to it. Pure; knows no format. Confluent's counterparts are
``FieldContext`` and ``WildcardMatcher``.

Rules: a walk never changes the given message, it returns another one; a field has the tags of its schema and those of
its full name in the schema's metadata; a rule without tags applies to every field.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from ..data_contracts import Metadata, Rule

__all__ = ["Field", "Visit", "Walk", "matches", "wants"]

PRIMITIVE: Final = frozenset({"INT", "LONG", "FLOAT", "DOUBLE", "BOOLEAN", "NULL", "STRING", "BYTES"})


@dataclass(slots=True)
class Field:
    """A field, or an element of one, that a walk visits. ``message`` is the message with the field, ``descriptor``
    Protobuf's descriptor of the field, ``logical_type`` Avro's.
    """

    full_name: str
    name: str
    type_name: str
    tags: frozenset[str]
    message: object
    descriptor: object = None
    logical_type: str = ""

    @property
    def is_primitive(self) -> bool:
        """True if it has neither fields nor elements."""
        return self.type_name in PRIMITIVE


Visit: TypeAlias = Callable[[Field, Any], object]
"""Returns the new value of a field; the same value leaves it unchanged."""

Walk: TypeAlias = Callable[[Any, Visit], object]
"""Visits the fields of a message, and returns the message with the visitor's results."""


def wants(rule: Rule, field: Field, metadata: Metadata | None) -> bool:
    """True if a rule applies to a field."""
    return not rule.tags or not rule.tags.isdisjoint(field.tags | _tags_of(field.full_name, metadata))


def matches(full_name: str, pattern: str) -> bool:
    """True if a name fits a pattern: ``?`` is one character, ``*`` any number of them between dots, ``**`` any."""
    return _expression(pattern).fullmatch(full_name) is not None


# internals


@lru_cache(maxsize=10_000)
def _tags_of(full_name: str, metadata: Metadata | None) -> frozenset[str]:
    found: frozenset[str] = frozenset()
    for pattern, tags in metadata.tags if metadata is not None else ():
        if matches(full_name, pattern):
            found |= tags
    return found


_PARTS: Final = {"**": ".*", "*": "[^.]*", "?": "[^.]"}


@lru_cache(maxsize=1_000)
def _expression(pattern: str) -> re.Pattern[str]:
    parts = re.split(r"(\\.|\*\*|\*|\?)", pattern.replace("**.*", "**"))
    return re.compile("".join(_PARTS.get(part) or re.escape(part.removeprefix("\\")) for part in parts))
