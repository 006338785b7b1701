"""aiokafkapy.integrations.schema_registry.data_contracts: rules, as the REST API writes them."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.integrations.schema_registry import Metadata, Rule, RuleSet, Schema

FIRST = Rule("first", "CEL", "WRITE")
BOTH = Rule("both", "ENCRYPT", "WRITEREAD", tags=frozenset({"PII"}), params=(("encrypt.kek.name", "kek"),))
LAST = Rule("last", "CEL", "READ", "CONDITION", "true", on_failure="DLQ", doc="why", disabled=False)
OFF = Rule("off", "CEL", "WRITE", disabled=True)


def test_readers_run_rules_backwards_and_none_that_is_disabled_or_of_another_mode() -> None:
    rules = RuleSet((FIRST, OFF, BOTH, LAST), migration_rules=(Rule("up", "JSONATA", "UPDOWN"),))
    assert [rule.name for rule in rules.domain("WRITE")] == ["first", "both"]
    assert [rule.name for rule in rules.domain("READ")] == ["last", "both"]
    assert [rule.name for rule in rules.migration("UPGRADE")] == ["up"]
    assert [rule.name for rule in rules.migration("DOWNGRADE")] == ["up"]
    assert rules.encoding("WRITE") == ()


@pytest.mark.parametrize(("place", "is_run"), [(None, True), ("ALL", True), ("CLIENT", True), ("CLUSTER", False)])
def test_rules_are_run_where_they_are_enabled(place: str | None, is_run: bool) -> None:
    assert bool(RuleSet((FIRST,), enable_at=place).domain("WRITE")) is is_run


def test_actions_have_defaults_and_two_of_them_are_for_the_two_modes() -> None:
    assert (FIRST.action("WRITE", is_success=True), FIRST.action("WRITE", is_success=False)) == ("NONE", "ERROR")
    both = Rule("both", "CEL", "WRITEREAD", on_failure="ERROR,NONE", on_success="NONE, DLQ")
    assert (both.action("WRITE", is_success=False), both.action("READ", is_success=False)) == ("ERROR", "NONE")
    assert (both.action("WRITE", is_success=True), both.action("READ", is_success=True)) == ("NONE", "DLQ")


def test_a_schema_with_its_contract_comes_back_from_json_and_is_hashable() -> None:
    metadata = Metadata((("**.ssn", frozenset({"PII"})),), (("owner", "me"),), frozenset({"owner"}))
    rules = RuleSet((FIRST, BOTH, LAST, OFF), (Rule("up", "JSONATA", "UPGRADE", expr="$"),), (BOTH,), "CLIENT")
    schema = Schema('"string"', rule_set=rules, metadata=metadata)
    assert Schema.from_json(schema.to_json()) == schema
    assert hash(Schema.from_json(schema.to_json())) == hash(schema)
    assert "ruleSet" not in Schema('"string"').to_json()


@pytest.mark.parametrize("wrong", [{"mode": "SOMETIMES"}, {"kind": "MAYBE"}])
def test_an_invalid_rule_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="'odd'"):
        Rule.from_json({"name": "odd", "type": "CEL"} | wrong)
