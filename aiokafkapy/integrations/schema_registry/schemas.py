"""The schemas of a registry: plain values that know neither HTTP nor a format.

Confluent's counterparts are ``Schema``, ``SchemaReference`` and ``RegisteredSchema`` of the REST API's entities.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias, get_args

from ...common import JsonLike
from .data_contracts import Metadata, RuleSet

__all__ = ["RegisteredSchema", "Schema", "SchemaReference", "SchemaType"]

SchemaType: TypeAlias = Literal["AVRO", "JSON", "PROTOBUF"]


@dataclass(frozen=True, slots=True)
class SchemaReference:
    """A schema that another one uses: its name there, and the subject and version of its registration."""

    name: str
    subject: str
    version: int

    def to_json(self) -> dict[str, JsonLike]:
        """The form of the REST API."""
        return {"name": self.name, "subject": self.subject, "version": self.version}


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema's text, type, references, and data contract. Protobuf's text is a file descriptor in
    Base64.
    """

    text: str
    type: SchemaType = "AVRO"
    references: tuple[SchemaReference, ...] = ()
    rule_set: RuleSet | None = None
    metadata: Metadata | None = None

    def to_json(self) -> dict[str, JsonLike]:
        """The body of a request that has this schema."""
        body: dict[str, JsonLike] = {"schema": self.text}
        if self.type != "AVRO":  # the REST API's default, the only type that old registries know
            body["schemaType"] = self.type
        if self.references:
            body["references"] = [reference.to_json() for reference in self.references]
        if self.metadata is not None:
            body["metadata"] = self.metadata.to_json()
        if self.rule_set is not None:
            body["ruleSet"] = self.rule_set.to_json()
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Schema:
        """Read an answer of the REST API. Raises KeyError, TypeError, ValueError or AttributeError."""
        references = tuple(
            SchemaReference(str(one["name"]), str(one["subject"]), int(one["version"]))
            for one in body.get("references") or ()
        )
        text = body["schema"]
        kind: Any = body.get("schemaType") or "AVRO"
        if not isinstance(text, str) or kind not in get_args(SchemaType):
            raise ValueError(f"a schema of type {kind!r}, its text a {type(text).__name__}")
        return cls(text, kind, references).with_contract_of(body)

    def with_contract_of(self, body: Mapping[str, Any]) -> Schema:
        """The same schema with the data contract in an answer of the REST API, or its own if the answer has none.

        Raises TypeError, ValueError or AttributeError.
        """
        rule_set, metadata = body.get("ruleSet"), body.get("metadata")
        if not rule_set and not metadata:
            return self
        return replace(
            self,
            rule_set=RuleSet.from_json(rule_set) if rule_set else self.rule_set,
            metadata=Metadata.from_json(metadata) if metadata else self.metadata,
        )


@dataclass(frozen=True, slots=True)
class RegisteredSchema:
    """A schema with its id. ``subject`` and ``version`` are None if the registry did not tell them, and so is
    ``guid``, which registries tell since Confluent Platform 8.
    """

    id: int
    schema: Schema
    subject: str | None = None
    version: int | None = None
    guid: str | None = None
