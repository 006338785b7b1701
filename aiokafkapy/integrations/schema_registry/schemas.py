"""Schemas as a registry has them: plain values that know neither HTTP nor a format.

Confluent's counterparts are ``Schema``, ``SchemaReference`` and ``RegisteredSchema`` of the REST API's entities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

__all__ = ["RegisteredSchema", "Schema", "SchemaReference", "SchemaType", "write_rules_of"]

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses: by which name, and where it is registered."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, Any]:
        """As the REST API writes it."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, its type, and what it refers to. Protobuf's text is a file descriptor in Base64."""

    text: str
    type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """The body of a request that has this schema."""
        body: dict[str, Any] = {"schema": self.text}
        if self.type != "AVRO":  # the REST API's default, which old registries know alone
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [reference.to_json() for reference in self.references]
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Schema:
        """Read an answer of the REST API. Raises KeyError, TypeError or ValueError."""
        references = tuple(
            SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in body.get("references") or ()
        )
        text = body["schema"]
        kind: Any = body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or kind not in get_args(SchemaType):
            raise ValueError(f"a schema of type {kind!r}, its text a {type(text).__name__}")
        return cls(text, kind, references)


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id. ``subject`` and ``version`` are None where the registry did not say them, and so is
    ``guid``, which registries tell since Confluent Platform 8. ``write_rules`` are the rules of its data contract that
    a writer has to run, each by its name and type.
    """

    id: int
    schema: Schema
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
    write_rules: tuple[str, ...] = ()


def write_rules_of(body: Mapping[str, Any]) -> tuple[str, ...]:
    """The rules for writers in an answer of the REST API that has a schema. Raises TypeError or AttributeError.

    Confluent's counterpart is ``RuleSet``: of its ``RuleMode`` a writer runs WRITE and WRITEREAD.
    """
    rule_set = body.get("ruleSet") or {}
    return tuple(
        f"{rule.get('name')} ({rule.get('type')})"
        for kind in ("domainRules", "encodingRules")
        for rule in rule_set.get(kind) or ()
        if rule.get("mode") in ("WRITE", "WRITEREAD") and not rule.get("disabled")
    )
