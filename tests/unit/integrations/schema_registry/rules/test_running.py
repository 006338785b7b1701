"""aiokafkapy.integrations.schema_registry.rules.running: order, actions and failures of rules."""

from __future__ import annotations

from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry import (
    KeyManagementError,
    PreparedRule,
    Rule,
    RuleContext,
    RuleFailedError,
    Schema,
    SchemaRegistryClient,
    SchemaRules,
    SchemaRulesError,
)
from aiokafkapy.integrations.schema_registry.rules.fields import Field, Visit
from aiokafkapy.integrations.schema_registry.rules.running import on_fields

REGISTRY = SchemaRegistryClient("http://localhost:1")


class Adding:
    """Adds the rule's name to a text, or raises the given error."""

    def __init__(self, error: BaseException | None = None, *, when: str = "run") -> None:
        self.error = error
        self.when = when

    async def prepare(self, context: RuleContext) -> PreparedRule:
        if self.error is not None and self.when == "prepare":
            raise self.error

        def apply(message: Any, walk: Any) -> Any:
            if self.error is not None:
                raise self.error
            return None if context.rule.expr == "nothing" else message + context.rule.name

        return PreparedRule(apply)


async def run(*rules: Rule, executor: Any = None, mode: Any = "WRITE", skipped: str | None = None) -> Any:
    schema_rules = SchemaRules(executors={"ADD": executor or Adding()})
    prepared = await schema_rules.prepare(rules, mode, "orders-value", Schema("{}"), REGISTRY)
    return prepared("", skipped=skipped)


async def test_rules_run_in_order_and_one_is_skipped_that_refused_a_dead_letter() -> None:
    rules = (Rule("a", "ADD"), Rule("b", "add"), Rule("c", "ADD"))
    assert await run(*rules) == "abc"
    assert await run(*rules, skipped="b") == "ac"


async def test_a_failure_has_the_action_of_its_rule() -> None:
    failing = Adding(ZeroDivisionError("of the data"))
    with pytest.raises(RuleFailedError, match=r"'a' \(ADD, WRITE\) .*'orders-value': it failed: Zero") as one:
        await run(Rule("a", "ADD"), executor=failing)
    assert "of the data" not in str(one.value)
    assert isinstance(one.value.__cause__, ZeroDivisionError)
    assert not one.value.is_dead_letter
    assert await run(Rule("a", "ADD", on_failure="NONE"), executor=failing) == ""
    with pytest.raises(RuleFailedError) as two:
        await run(Rule("a", "ADD", on_failure="DLQ", params=(("dlq.topic", "dead"),)), executor=failing)
    assert two.value.is_dead_letter
    assert two.value.dead_letter_topic == "dead"
    assert dict(two.value.dead_letter_headers)["__rule.name"] == b"a"
    with pytest.raises(RuleFailedError, match="its onSuccess is DLQ") as three:
        await run(Rule("a", "ADD", on_success="DLQ"))
    assert three.value.is_dead_letter
    with pytest.raises(RuleFailedError, match="made nothing"):
        await run(Rule("a", "ADD", expr="nothing"))


async def test_a_failed_preparation_is_a_failure_too_and_is_tried_again_later() -> None:
    failing = Adding(ValueError("no"), when="prepare")
    with pytest.raises(RuleFailedError, match="it failed: ValueError"):
        await run(Rule("a", "ADD"), executor=failing)
    rules = SchemaRules(executors={"ADD": failing})
    prepared = await rules.prepare((Rule("a", "ADD", on_failure="NONE"),), "WRITE", "s", Schema("{}"), REGISTRY)
    assert prepared("x") == "x"
    assert prepared.seconds == 30.0


@pytest.mark.parametrize("when", ["prepare", "run"])
async def test_no_action_ignores_an_error_that_may_pass(when: str) -> None:
    with pytest.raises(KeyManagementError):
        await run(Rule("a", "ADD", on_failure="NONE"), executor=Adding(KeyManagementError("away"), when=when))


@pytest.mark.parametrize("rule", [Rule("a", "UNKNOWN"), Rule("a", "ADD", on_failure="RETRY")])
async def test_a_rule_without_an_executor_is_refused_before_any_data(rule: Rule) -> None:
    with pytest.raises(SchemaRulesError, match=r"'?a'?"):
        await run(rule)


async def test_an_executor_must_have_prepare() -> None:
    wrong: Any = {"ADD": len}
    with pytest.raises(ConfigurationError, match="has no prepare"):
        SchemaRules(executors=wrong)


class Marking:
    async def prepare(self, context: RuleContext) -> PreparedRule:
        return on_fields(context, lambda field, value: f"{value}{context.rule.name}")


def walk(message: Any, visit: Visit) -> Any:
    return visit(Field("r.f", "f", "STRING", frozenset({"PII"}), message), message)


@pytest.mark.parametrize("mode", ["WRITE", "READ"])
async def test_only_the_first_of_field_rules_with_the_same_tags_is_run(mode: Any) -> None:
    tags = frozenset({"PII"})
    rules = [Rule(name, "MARK", "WRITEREAD", tags=tags) for name in "ab"] + [Rule("c", "MARK", "WRITEREAD")]
    ordered = rules if mode == "WRITE" else rules[::-1]
    schema_rules = SchemaRules(executors={"MARK": Marking()})
    prepared = await schema_rules.prepare(ordered, mode, "s", Schema("{}"), REGISTRY)
    assert sorted(prepared("", walk)) == ["a", "c"]


async def test_a_rule_of_fields_cannot_be_run_on_bytes() -> None:
    prepared = await SchemaRules(executors={"MARK": Marking()}).prepare(
        (Rule("a", "MARK"),), "WRITE", "s", Schema("{}"), REGISTRY
    )
    with pytest.raises(RuleFailedError, match="bytes have none"):
        prepared(b"")
