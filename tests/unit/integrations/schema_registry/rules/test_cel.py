"""aiokafkapy.integrations.schema_registry.rules.cel: the variables of expressions, and the conversion of their
results.
"""

from __future__ import annotations

import datetime
import uuid
from decimal import Decimal
from typing import Any

import pytest

from aiokafkapy.integrations.schema_registry import Rule, Schema, SchemaRegistryClient, SchemaRules
from aiokafkapy.integrations.schema_registry.errors import RuleFailedError

cel = pytest.importorskip("aiokafkapy.integrations.schema_registry.rules.cel", exc_type=ModuleNotFoundError)

DATA: dict[str, Any] = {
    "text": "a",
    "number": 3,
    "half": 0.5,
    "yes": True,
    "nothing": None,
    "bytes": b"\x01",
    "list": [1, {"a": False}],
    "when": datetime.datetime(2026, 11, 25, tzinfo=datetime.UTC),
}


async def run(expression: str, data: Any, kind: Any = "TRANSFORM") -> Any:
    rule = Rule("r", "CEL", "WRITE", kind, expression)
    prepared = await SchemaRules().prepare((rule,), "WRITE", "s", Schema("{}"), SchemaRegistryClient("http://h:1"))
    return prepared(data)


async def test_data_goes_through_and_keeps_its_plain_types() -> None:
    found = await run("message", DATA)
    assert found == DATA
    for name in ("text", "number", "half", "yes", "nothing", "bytes"):
        assert type(found[name]) is type(DATA[name])
    assert type(found) is dict
    assert type(found["list"][1]["a"]) is bool


@pytest.mark.parametrize(
    ("expression", "holds"),
    [
        ("message.number > 2 && message.yes", True),
        ("message.list.exists(one, one == 1)", True),
        ("has(message.text) && !has(message.more)", True),
        ("message.nothing == null", True),
        ("message.when < now", True),
        ("message.number > 100 ; false", True),  # the guard does not hold
        (" ; message.number > 100", False),
        ("isEmail('ann@example.com') && !isEmail('ann@') && !isEmail('a b@example.com')", True),
        ("isIpv4('10.0.0.1') && !isIpv4('10.0.0') && isIpv6('::1') && !isIpv6('10.0.0.1')", True),
        (
            "isHostname('a-b.example') && !isHostname('-a.example') && !isHostname('a..b')",
            True,
        ),
        ("isUri('https://example.com/a') && !isUri('/a') && isUriRef('/a')", True),
        ("isUuid('3b241101-e2bb-4255-8caf-4136c566a962') && !isUuid('3b24')", True),
    ],
)
async def test_conditions(expression: str, holds: bool) -> None:
    if holds:
        assert await run(expression, DATA, "CONDITION") is DATA
    else:
        with pytest.raises(RuleFailedError, match="does not hold"):
            await run(expression, DATA, "CONDITION")


@pytest.mark.parametrize("expression", ["", "message.", "1 +", None])
async def test_an_expression_that_cannot_be_read_is_an_error_when_it_is_prepared(expression: Any) -> None:
    with pytest.raises(RuleFailedError, match="it failed"):
        await run(expression, DATA)


async def test_a_failure_says_its_class_and_no_data() -> None:
    with pytest.raises(RuleFailedError, match="it failed: CELEvalError") as caught:
        await run("message.secret", {"password": "hunter2"})
    assert "hunter2" not in str(caught.value)
    with pytest.raises(RuleFailedError, match="it made nothing"):
        await run("null", DATA)


def test_a_day_is_a_number_a_uuid_a_text_and_a_decimal_itself() -> None:
    one = uuid.uuid4()
    assert cel.to_cel(datetime.date(1970, 1, 2)) == 1
    assert cel.to_cel(one) == str(one)
    assert cel.to_cel(Decimal("1.5")) == Decimal("1.5")
