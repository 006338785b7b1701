"""aiokafkapy.integrations.schema_registry.rules.fields: patterns of names, and tags."""

from __future__ import annotations

import pytest

from aiokafkapy.integrations.schema_registry import Metadata, Rule
from aiokafkapy.integrations.schema_registry.rules.fields import Field, matches, wants


@pytest.mark.parametrize(
    ("name", "pattern", "does"),
    [
        ("eve", "eve*", True),
        ("alice.bob.eve", "a*.bob.eve", True),
        ("alice.bob.eve", "a*.bob.e*", True),
        ("alice.bob.eve", "a*", False),
        ("alice.bob.eve", "a**", True),
        ("alice.bob.eve", "alice.bob*", False),
        ("alice.bob.eve", "alice.bob**", True),
        ("alice.bob.eve", "**.*", True),
        ("alice.bob", "alice?bob", False),
        ("alice.bob", "alic?.b?b", True),
        ("a+b", "a+b", True),
        ("aab", "a+b", False),
        ("a(b", "a(b", True),
    ],
)
def test_names_fit_patterns_as_confluents_clients_have_it(name: str, pattern: str, does: bool) -> None:
    assert matches(name, pattern) is does


def test_a_rule_wants_fields_with_one_of_its_tags_of_the_schema_or_the_metadata() -> None:
    field = Field("Order.name", "name", "STRING", frozenset({"PII"}), {})
    metadata = Metadata((("*.name", frozenset({"LOUD"})),))
    for tags, is_wanted in ((set(), True), ({"PII"}, True), ({"LOUD"}, True), ({"OTHER"}, False)):
        assert wants(Rule("r", "CEL_FIELD", tags=frozenset(tags)), field, metadata) is is_wanted
    assert not wants(Rule("r", "CEL_FIELD", tags=frozenset({"LOUD"})), field, None)
