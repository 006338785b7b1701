"""Valid requests and responses of every API and version, filled at random as far as their schemas let them be.

Kafka's own schemas, as kio has them, give the fields; names that the fuzzed state knows (topic "t", group
"g") come up often, so that handlers go on past their first check.
"""

from __future__ import annotations

import dataclasses
import random
import uuid
from collections.abc import Sequence
from typing import Any, Final

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, get_schema_field_type, is_optional

from aiokafkapy.protocol.api import ApiKey, request_class, response_class, schema_versions
from aiokafkapy.protocol.entities import build
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

__all__ = ["EVERY_VERSION", "GROUP", "TOPIC", "batch", "fill", "request", "response"]

TOPIC: Final = "t"
GROUP: Final = "g"
EVERY_VERSION: Final = [
    (int(api), version) for api in ApiKey for version in range(schema_versions(api)[0], schema_versions(api)[1] + 1)
]
_STRINGS: Final = (TOPIC, TOPIC, GROUP, "", "range", "consumer", "é", "x" * 60)
_INTEGERS: Final = (0, 0, 0, 1, 1, 2, -1, 3, 100, 127)


def batch(chance: random.Random) -> bytes:
    """A record batch of a few records, in any codec."""
    builder = RecordBatchBuilder(1 << 20)
    for n in range(chance.choice((1, 1, 2, 5, 30))):
        key = chance.choice((None, b"", b"key %d" % n))
        headers = chance.choice((None, [("name", b"value"), ("é", None)]))
        builder.try_append(1_700_000_000_000 + n, key, chance.choice((None, b"value" * n)), headers)
    codec = chance.choice(list(Compression))
    if codec is Compression.NONE:
        builder.seal(codec)
    else:
        builder.seal(codec, compress(codec, builder.records_view()))
    if chance.random() < 0.5:
        builder.stamp(chance.choice((0, 1)), 0, chance.choice((0, 0, 30)))
    return b"".join(builder.buffers())


def request(api_key: int, version: int, chance: random.Random) -> Any:
    """A request's body."""
    return fill(request_class(api_key, version), chance)


def response(api_key: int, version: int, chance: random.Random) -> Any:
    """A response's body."""
    return fill(response_class(api_key, version), chance)


def fill(entity: Any, chance: random.Random) -> Any:
    """An instance of one of kio's dataclasses with something in each field."""
    return build(entity, {field.name: _value(field, chance) for field in dataclasses.fields(entity)})


def _value(field: dataclasses.Field[Any], chance: random.Random) -> Any:
    kind = classify_field(field)
    if is_optional(field) and chance.random() < 0.2:
        return None
    if isinstance(kind, EntityField | EntityTupleField):
        if not kind.is_array:
            return fill(kind.type_, chance)
        return [fill(kind.type_, chance) for _ in range(chance.choice((0, 1, 1, 2)))]
    type_name = get_schema_field_type(field)
    if kind.is_array:
        return [_primitive(type_name, chance) for _ in range(chance.choice((0, 1, 2, 3)))]
    return _primitive(type_name, chance)


def _primitive(type_name: str, chance: random.Random) -> Any:
    if type_name == "string":
        return chance.choice(_STRINGS)
    if type_name in ("bytes", "records"):
        return batch(chance) if type_name == "records" else chance.randbytes(chance.randrange(20))
    if type_name == "uuid":
        return chance.choice((None, uuid.UUID(int=chance.getrandbits(128))))
    if type_name == "bool":
        return chance.random() < 0.5
    if type_name == "error_code":
        return chance.choice((0, 0, 0, 3, 6, 45, 87))
    if type_name == "float64":
        return chance.choice((0.0, 1.5, float("inf")))
    if type_name in ("timedelta_i32", "timedelta_i64"):
        return chance.choice((0, 1, 30_000))
    if type_name == "datetime_i64":
        return chance.choice((0, 1_700_000_000_000))  # not -1, no time: kio's writer has no word for it
    return _integer(type_name, chance, _INTEGERS)


def _integer(type_name: str, chance: random.Random, choices: Sequence[int]) -> int:
    value = chance.choice(choices)
    return max(0, value) if type_name.startswith("u") else value
