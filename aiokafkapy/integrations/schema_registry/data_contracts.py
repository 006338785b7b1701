"""The data contracts of a registry: the rules and the metadata of a schema, as plain values.

Confluent's counterparts are ``Rule``, ``RuleSet`` and ``Metadata`` of the REST API's entities. The executors of rules
are in ``rules``; here are only their definitions.

Rules: values are hashable, for a schema with its contract is a cache key; other fields of a registry's answer are not
kept; a rule with a kind or mode that is not Confluent's is an error when it is read, with the value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from ...common import JsonLike

__all__ = ["Metadata", "Rule", "RuleKind", "RuleMode", "RuleSet", "RunMode"]

RuleKind: TypeAlias = Literal["CONDITION", "TRANSFORM"]
RunMode: TypeAlias = Literal["WRITE", "READ", "UPGRADE", "DOWNGRADE"]
"""The moment at which rules are run."""
RuleMode: TypeAlias = Literal["WRITE", "READ", "WRITEREAD", "UPGRADE", "DOWNGRADE", "UPDOWN"]
"""The moments at which a rule is to be run."""

_BOTH = {"WRITEREAD": ("WRITE", "READ"), "UPDOWN": ("UPGRADE", "DOWNGRADE")}


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule. ``type`` names its executor: ``CEL``, ``CEL_FIELD``, ``JSONATA``, ``ENCRYPT``, ``ENCRYPT_PAYLOAD``.

    ``on_success`` and ``on_failure`` are ``NONE``, ``ERROR`` or ``DLQ``, or two of them with a comma for the two modes
    of ``WRITEREAD`` and ``UPDOWN``. ``params`` are pairs of name and value.
    """

    name: str
    type: str
    mode: RuleMode = "WRITE"
    kind: RuleKind = "TRANSFORM"
    expr: str | None = None
    tags: frozenset[str] = frozenset()
    params: tuple[tuple[str, str], ...] = ()
    on_success: str | None = None
    on_failure: str | None = None
    doc: str | None = None
    disabled: bool = False

    def runs_in(self, mode: RunMode) -> bool:
        """True if it is run in this mode."""
        return not self.disabled and mode in _BOTH.get(self.mode, (self.mode,))

    def action(self, mode: RunMode, *, is_success: bool) -> str:
        """The action after the rule; by default ``NONE`` after a success and ``ERROR`` after a failure."""
        said = self.on_success if is_success else self.on_failure
        if not said:
            return "NONE" if is_success else "ERROR"
        both = _BOTH.get(self.mode)
        if both is not None and "," in said:
            said = said.split(",")[both.index(mode)]
        return said.strip()

    def to_json(self) -> dict[str, JsonLike]:
        """The form of the REST API."""
        body: dict[str, JsonLike] = {"name": self.name, "kind": self.kind, "mode": self.mode, "type": self.type}
        optional: dict[str, JsonLike] = {
            "doc": self.doc,
            "tags": sorted(self.tags) or None,
            "params": dict(self.params) or None,
            "expr": self.expr,
            "onSuccess": self.on_success,
            "onFailure": self.on_failure,
        }
        return body | {name: one for name, one in optional.items() if one is not None} | {"disabled": self.disabled}

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Rule:
        """Read the form of the REST API. Raises TypeError, ValueError, AttributeError."""
        kind: Any = body.get("kind") or "TRANSFORM"
        mode: Any = body.get("mode") or "WRITE"
        if kind not in get_args(RuleKind) or mode not in get_args(RuleMode):
            raise ValueError(f"the rule {body.get('name')!r} is of kind {kind!r} and mode {mode!r}")
        return cls(
            str(body.get("name") or ""),
            str(body.get("type") or ""),
            mode,
            kind,
            body.get("expr"),
            frozenset(map(str, body.get("tags") or ())),
            _pairs(body.get("params")),
            body.get("onSuccess"),
            body.get("onFailure"),
            body.get("doc"),
            bool(body.get("disabled")),
        )


@dataclass(frozen=True, slots=True)
class RuleSet:
    """The rules of a schema: for its data, for their bytes, and for migrations between versions.

    ``enable_at`` names the place where they run; they run here if it is None, ``ALL`` or ``CLIENT``.
    """

    domain_rules: tuple[Rule, ...] = ()
    migration_rules: tuple[Rule, ...] = ()
    encoding_rules: tuple[Rule, ...] = ()
    enable_at: str | None = None

    def domain(self, mode: RunMode) -> tuple[Rule, ...]:
        """The rules of data to run in this mode, in order: readers run them backwards."""
        return self._chosen(self.domain_rules, mode)

    def encoding(self, mode: RunMode) -> tuple[Rule, ...]:
        """The rules of bytes to run in this mode, in order."""
        return self._chosen(self.encoding_rules, mode)

    def migration(self, mode: RunMode) -> tuple[Rule, ...]:
        """The rules that lead to this version (``UPGRADE``), or back from it (``DOWNGRADE``), in order."""
        return self._chosen(self.migration_rules, mode)

    def _chosen(self, rules: tuple[Rule, ...], mode: RunMode) -> tuple[Rule, ...]:
        if self.enable_at not in (None, "", "ALL", "CLIENT"):
            return ()
        chosen = [rule for rule in rules if rule.runs_in(mode)]
        return tuple(reversed(chosen) if mode in ("READ", "DOWNGRADE") else chosen)

    def to_json(self) -> dict[str, JsonLike]:
        """The form of the REST API."""
        body: dict[str, JsonLike] = {
            "domainRules": [rule.to_json() for rule in self.domain_rules],
            "migrationRules": [rule.to_json() for rule in self.migration_rules],
        }
        if self.encoding_rules:
            body["encodingRules"] = [rule.to_json() for rule in self.encoding_rules]
        if self.enable_at is not None:
            body["enableAt"] = self.enable_at
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> RuleSet:
        """Read the form of the REST API. Raises TypeError, ValueError, AttributeError."""
        domain, migration, encoding = (
            tuple(Rule.from_json(one) for one in body.get(name) or ())
            for name in ("domainRules", "migrationRules", "encodingRules")
        )
        return cls(domain, migration, encoding, body.get("enableAt"))


@dataclass(frozen=True, slots=True)
class Metadata:
    """The other parts of a schema's contract: tags of fields, by patterns of their full names, and properties, which
    rules have for parameters.
    """

    tags: tuple[tuple[str, frozenset[str]], ...] = ()
    properties: tuple[tuple[str, str], ...] = ()
    sensitive: frozenset[str] = frozenset()

    def to_json(self) -> dict[str, JsonLike]:
        """The form of the REST API."""
        body: dict[str, JsonLike] = {}
        if self.tags:
            body["tags"] = {pattern: sorted(names) for pattern, names in self.tags}
        if self.properties:
            body["properties"] = dict(self.properties)
        if self.sensitive:
            body["sensitive"] = sorted(self.sensitive)
        return body

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Metadata:
        """Read the form of the REST API. Raises TypeError, AttributeError."""
        tags = tuple((str(pattern), frozenset(map(str, names))) for pattern, names in (body.get("tags") or {}).items())
        return cls(tags, _pairs(body.get("properties")), frozenset(map(str, body.get("sensitive") or ())))


def _pairs(given: Mapping[str, object] | None) -> tuple[tuple[str, str], ...]:
    pairs: Iterable[tuple[str, object]] = (given or {}).items()
    return tuple((str(name), str(value)) for name, value in pairs)
