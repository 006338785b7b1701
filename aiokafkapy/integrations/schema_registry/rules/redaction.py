"""Data without the values that a schema's rules encrypt, for a dead letter.

Owns the choice of hidden data: the fields with a rule's tags, and all data that the schema does not describe. Knows no
format: it uses the same walk as the rules.
"""

from __future__ import annotations

from datetime import date, time
from decimal import Decimal
from typing import Final
from uuid import UUID

from ..data_contracts import Metadata, Rule
from .fields import Field, Visit, Walk, wants

__all__ = ["redacted", "redaction"]

_REDACTED: Final = "<REDACTED>"
_SEEN: Final = object()
_TEXTS: Final = frozenset({"STRING", "ENUM"})
_RAW: Final = frozenset({"BYTES", "FIXED"})
_OTHERS: Final = (bool, int, float, Decimal, UUID, date, time)


def redacted(walk: Walk, message: object, tags: frozenset[str], metadata: Metadata | None) -> object:
    """The message without the data of fields that have one of the tags; with no tags, of all fields.

    Data that is in no field of the schema, or has another shape than its field, may be secret: it is hidden too. None
    if all of it is hidden.
    """
    visit = redaction(tags, metadata)
    hidden = walk(message, visit)
    if hasattr(message, "DESCRIPTOR"):  # a Protobuf message: it has its schema's fields, and no other shapes
        return hidden
    rule = Rule("redact", "REDACT", tags=tags)

    def mark(field: Field, value: object) -> object:
        is_known = wants(rule, field, metadata) or _is_of_type(value, field.type_name)
        return _SEEN if is_known else value

    made = _of_seen(hidden, walk(message, mark))
    return None if made == _REDACTED else made


def redaction(tags: frozenset[str], metadata: Metadata | None) -> Visit:
    """Hides the values of fields that have one of the tags; with no tags, of all fields."""
    rule = Rule("redact", "REDACT", tags=tags)

    def visit(field: Field, value: object) -> object:
        if value is None or not wants(rule, field, metadata):
            return value
        return {"STRING": _REDACTED, "BYTES": _REDACTED.encode()}.get(field.type_name)

    return visit


def _is_of_type(value: object, type_name: str) -> bool:
    """True if a value roughly fits its field's type: not text in place of a number, and without parts."""
    if isinstance(value, str):
        return type_name in _TEXTS
    if isinstance(value, (bytes, bytearray)):
        return type_name in _RAW
    return isinstance(value, _OTHERS) and (type_name not in _TEXTS or isinstance(value, UUID))


def _of_seen(hidden: object, marked: object) -> object:
    """The hidden data, where the walk has marked it."""
    if marked is _SEEN or marked is None:
        return hidden
    if isinstance(hidden, tuple) and len(hidden) == 2 and not isinstance(marked, tuple):
        hidden = hidden[1]  # of a union's named branch
    if isinstance(hidden, dict) and isinstance(marked, dict) and hidden.keys() == marked.keys():
        return {name: _of_seen(one, marked[name]) for name, one in hidden.items()}
    if isinstance(hidden, list) and isinstance(marked, list) and len(hidden) == len(marked):
        return [_of_seen(one, other) for one, other in zip(hidden, marked, strict=True)]
    return _REDACTED
