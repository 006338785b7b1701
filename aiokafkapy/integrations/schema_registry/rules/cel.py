"""CEL: conditions and transformations of messages (``CEL``) and of their fields (``CEL_FIELD``), over cel-python.

Owns an expression's variables and the conversion of its result. Confluent's counterparts are ``CelExecutor`` and
``CelFieldExecutor``.

Rules:

- An expression sees ``message``, and for a field ``value``, ``fullName``, ``name``, ``typeName``, ``tags`` and the
  field's ``message``; ``now`` is the time of the call.
- ``guard; expression`` runs the expression if the guard holds; otherwise a condition holds and data stays unchanged.
- Beside CEL's own functions there are ``isEmail``, ``isHostname``, ``isIpv4``, ``isIpv6``, ``isUri``, ``isUriRef`` and
  ``isUuid``, as in Confluent's clients. Their types ``decimals``, ``variants`` and ``timestamp`` are not
  available.
"""

from __future__ import annotations

import datetime
import ipaddress
import re
import uuid
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlsplit

from .fields import Field, Walk
from .running import PreparedRule, RuleContext, SchemaRules, on_fields

try:
    import celpy
    from celpy import celtypes
    from celpy.evaluation import CELEvalError
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "CEL needs cel-python: pip install 'aiokafkapy[schema-rules]'", name=missing.name
    ) from missing

__all__ = ["CelFieldRules", "CelRules"]

_EPOCH_DAY: Final = datetime.date(1970, 1, 1).toordinal()


class CelRules:
    """Runs rules of type ``CEL``, which see a whole message."""

    def __init__(self, rules: SchemaRules) -> None:
        self._rules = rules

    async def prepare(self, context: RuleContext) -> PreparedRule:
        """Compile the expression."""
        guard, expression = _compiled(context)
        is_condition = context.rule.kind == "CONDITION"

        def apply(message: object, walk: Walk | None) -> object:
            found = _evaluated(
                guard, expression, {"message": to_cel(message)}, is_condition=is_condition, otherwise=message
            )
            if is_condition or found is message or not _is_protobuf(message):
                return found
            from .protobuf_fields import message_of

            return message_of(type(message), found)

        return PreparedRule(apply)


class CelFieldRules:
    """Runs rules of type ``CEL_FIELD``, which see one field after another."""

    def __init__(self, rules: SchemaRules) -> None:
        self._rules = rules

    async def prepare(self, context: RuleContext) -> PreparedRule:
        """Compile the expression."""
        guard, expression = _compiled(context)
        is_condition = context.rule.kind == "CONDITION"

        def change(field: Field, value: object) -> object:
            if not field.is_primitive:
                return True if is_condition else value
            seen: dict[str, Any] = {
                "value": to_cel(value),
                "fullName": celtypes.StringType(field.full_name),
                "name": celtypes.StringType(field.name),
                "typeName": celtypes.StringType(field.type_name),
                "tags": celtypes.ListType([celtypes.StringType(tag) for tag in sorted(field.tags)]),
                "message": to_cel(field.message),
            }
            return _evaluated(guard, expression, seen, is_condition=is_condition, otherwise=value)

        return on_fields(context, change)


def to_cel(data: object) -> Any:
    """Data as CEL's own values. A value without a CEL type, such as a ``Decimal``, stays as it is."""
    if isinstance(data, Mapping):
        return celtypes.MapType({to_cel(name): to_cel(one) for name, one in data.items()})
    if isinstance(data, list):
        return celtypes.ListType([to_cel(one) for one in data])
    for kind, convert in _CONVERSIONS:
        if isinstance(data, kind):
            return convert(data)
    if _is_protobuf(data):
        from .protobuf_fields import plain_message

        return to_cel(plain_message(data))
    return data


def from_cel(found: object) -> object:
    """A result as plain data: neither fastavro nor json know CEL's own values."""
    if isinstance(found, Mapping):
        return {from_cel(name): from_cel(one) for name, one in found.items()}
    if isinstance(found, (list, tuple)):
        return [from_cel(one) for one in found]
    for kind, convert in _RESULTS:
        if isinstance(found, kind):
            return convert(found)
    return found


# internals


_CONVERSIONS: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (str, celtypes.StringType),
    (bytes, celtypes.BytesType),
    (bool, celtypes.BoolType),  # before int, its base class
    (int, celtypes.IntType),
    (float, celtypes.DoubleType),
    (datetime.datetime, celtypes.TimestampType),
    (datetime.timedelta, celtypes.DurationType),
    (datetime.date, lambda day: celtypes.IntType(day.toordinal() - _EPOCH_DAY)),  # as Avro writes one
    (uuid.UUID, lambda one: celtypes.StringType(str(one))),
)

_RESULTS: Final[tuple[tuple[type, Callable[[Any], object]], ...]] = (
    (celtypes.BoolType, bool),
    (celtypes.IntType, int),
    (celtypes.UintType, int),
    (celtypes.DoubleType, float),
    (celtypes.StringType, str),
    (celtypes.BytesType, bytes),
)


def _is_protobuf(data: object) -> bool:
    return hasattr(data, "DESCRIPTOR")


def _compiled(context: RuleContext) -> tuple[celpy.Runner | None, celpy.Runner]:
    """Guard and expression, ready to run; None for a missing guard."""
    text = context.rule.expr
    if not text:
        raise ValueError("it has no expr")
    guard, semicolon, rest = text.partition(";")
    if not semicolon:
        return None, _program(text)
    return _program(guard) if guard.strip() else None, _program(rest)


@lru_cache(maxsize=1_000)
def _program(text: str) -> celpy.Runner:
    environment = celpy.Environment()
    return environment.program(environment.compile(text), functions=_FUNCTIONS)


def _evaluated(
    guard: celpy.Runner | None, expression: celpy.Runner, seen: dict[str, Any], *, is_condition: bool, otherwise: object
) -> object:
    """The expression's result for these variables."""
    seen["now"] = celtypes.TimestampType(datetime.datetime.now(tz=datetime.UTC))
    if guard is not None and not bool(guard.evaluate(seen)):
        return True if is_condition else otherwise
    found = from_cel(expression.evaluate(seen))
    return bool(found) if is_condition else found


def _text_test(test: Callable[[str], object]) -> Any:
    def function(value: object) -> celtypes.BoolType:
        if not isinstance(value, celtypes.StringType):
            raise CELEvalError("a string is needed")
        try:
            return celtypes.BoolType(bool(test(str(value))))
        except ValueError:
            return celtypes.BoolType(False)

    return function


_LABEL: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?")


def _is_hostname(host: str) -> bool:
    labels = host.removesuffix(".").split(".")
    return len(host) <= 253 and all(map(_LABEL.fullmatch, labels)) and not labels[-1].isdigit()


def _is_email(address: str) -> bool:
    name, at, host = address.rpartition("@")
    is_name = re.fullmatch(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}", name) is not None
    return bool(at) and len(address) <= 254 and is_name and _is_hostname(host)


def _is_uri(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and parts.netloc and parts.path)


def _is_uri_reference(text: str) -> bool:
    parts = urlsplit(text)
    return bool(parts.scheme and parts.path) or not parts.fragment


_FUNCTIONS: Final = {
    "isEmail": _text_test(_is_email),
    "isHostname": _text_test(_is_hostname),
    "isIpv4": _text_test(lambda text: ipaddress.IPv4Address(text) is not None),
    "isIpv6": _text_test(lambda text: ipaddress.IPv6Address(text) is not None),
    "isUri": _text_test(_is_uri),
    "isUriRef": _text_test(_is_uri_reference),
    "isUuid": _text_test(lambda text: uuid.UUID(text) is not None),
}
