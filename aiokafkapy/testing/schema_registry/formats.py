"""The schemas of the registry in memory: parsed, compared, put into one form.

Owns the equality of schemas, their validity, and the choice of rules that compare two. Pure. Confluent's counterpart is
``ParsedSchema`` with its providers.

Rule: Protobuf comes as a file descriptor in Base64, as Python's clients send it, and is returned in that form; a text,
as Java's clients send it, is refused, for no parser here reads that language.
"""

from __future__ import annotations

import base64
import copy
import dataclasses
import hashlib
import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...common import JsonObject, JsonValue
from .avro_rules import avro_problems
from .errors import RegistryRefusal, invalid_schema
from .json_rules import json_problems
from .problems import Problem
from .protobuf_rules import protobuf_problems

__all__ = ["ParsedSchema", "parse"]


@dataclass(frozen=True)
class ParsedSchema:
    """A valid schema. ``identity`` is equal for equal schemas; ``content`` is the argument of its format's rules.
    ``rule_set`` and ``metadata`` are its data contract, unchanged.
    """

    kind: str
    text: str
    references: tuple[tuple[str, str, int], ...]
    identity: str
    content: Any
    uses: Mapping[str, JsonValue]
    rule_set: JsonObject | None = None
    metadata: JsonObject | None = None

    def with_contract(self, rule_set: JsonObject | None, metadata: JsonObject | None) -> ParsedSchema:
        """This schema with a data contract, which is another schema."""
        if rule_set is None and metadata is None:
            return self
        contract = json.dumps([rule_set, metadata], sort_keys=True)
        identity = f"{self.identity}\n{contract}"
        return dataclasses.replace(self, rule_set=rule_set, metadata=metadata, identity=identity)

    @property
    def guid(self) -> str:
        """A GUID that is the same for equal schemas, in every registry."""
        return str(uuid.UUID(bytes=hashlib.md5(self.identity.encode(), usedforsecurity=False).digest()))

    def problems_reading(self, writer: ParsedSchema) -> list[Problem]:
        """The reasons why this schema cannot read data of ``writer``."""
        if self.kind != writer.kind:
            return [Problem("TYPE_MISMATCH", f"The {{reader}} schema is {self.kind}, the {{writer}} one {writer.kind}")]
        if self.kind == "PROTOBUF":
            return protobuf_problems(self.content, writer.content)
        mine, theirs = copy.deepcopy(self.content), copy.deepcopy(writer.content)
        if self.kind == "JSON":
            return json_problems(mine, theirs, {**writer.uses, **self.uses})
        return avro_problems(mine, theirs, {**writer.uses, **self.uses})


def parse(
    kind: JsonValue,
    text: str,
    references: Sequence[tuple[str, str, int]],
    referred: Mapping[str, ParsedSchema],
    *,
    normalize: bool = False,
) -> ParsedSchema:
    """Read a schema. ``referred`` are the schemas of its references, by name. Raises RegistryRefusal (42201)."""
    if not isinstance(kind, str) or kind not in ("AVRO", "JSON", "PROTOBUF"):
        raise RegistryRefusal(422, f"Invalid schema type {kind}")
    try:
        if kind == "PROTOBUF":
            return _parse_protobuf(text, references)
        content = _json_of(kind, text)
        uses: Mapping[str, JsonValue]
        uses = _check_avro(content, referred) if kind == "AVRO" else _check_json(content, referred)
    except Exception as error:  # an error of the parser: fastavro, jsonschema, protobuf
        raise invalid_schema(kind, text, error) from error
    # The order of a record's fields has a meaning, the order of an object's keys has none.
    form = json.dumps(content, sort_keys=normalize or kind == "AVRO", separators=(",", ":"))
    kept = form if normalize else text
    return ParsedSchema(kind, kept, tuple(references), _identity(kind, form, references), content, uses)


def _identity(kind: str, form: str, references: Sequence[tuple[str, str, int]]) -> str:
    return "\n".join([kind, form, *(f"{name} {subject} {version}" for name, subject, version in sorted(references))])


def _json_of(kind: str, text: str) -> JsonValue:
    try:
        content: JsonValue = json.loads(text)
    except ValueError:
        if kind == "AVRO" and text.replace(".", "").replace("_", "").isalnum():
            return text  # a bare name, as Avro takes it
        raise
    return content


def _check_avro(content: Any, referred: Mapping[str, ParsedSchema]) -> dict[str, JsonObject]:
    import fastavro

    named: dict[str, JsonObject] = {}
    for one in referred.values():
        fastavro.parse_schema(copy.deepcopy(one.content), named_schemas=named)
    known = {name: copy.deepcopy(schema) for name, schema in named.items()}
    fastavro.parse_schema(copy.deepcopy(content), named_schemas=named)
    return known


def _check_json(content: JsonValue, referred: Mapping[str, ParsedSchema]) -> dict[str, JsonValue]:
    from jsonschema.validators import validator_for

    if not isinstance(content, (dict, bool)):
        raise ValueError(f"a JSON Schema is an object or a boolean, not {type(content).__name__}")
    if isinstance(content, dict):
        validator_for(content).check_schema(content)
    uses: dict[str, JsonValue] = {}
    for name, one in referred.items():
        uses |= {name: one.content, **one.uses}
    return uses


def _parse_protobuf(text: str, references: Sequence[tuple[str, str, int]]) -> ParsedSchema:
    from google.protobuf import descriptor_pb2

    content = descriptor_pb2.FileDescriptorProto()
    try:
        content.ParseFromString(base64.b64decode(text.encode("ascii"), validate=True))
    except Exception as error:
        raise ValueError(
            "this registry reads Protobuf as a file descriptor in Base64 only, as Python's clients send it"
        ) from error
    nameless = descriptor_pb2.FileDescriptorProto()
    nameless.CopyFrom(content)
    nameless.name = ""
    form = base64.b64encode(nameless.SerializeToString(deterministic=True)).decode("ascii")
    return ParsedSchema("PROTOBUF", text, tuple(references), _identity("PROTOBUF", form, references), content, {})
