"""The dashboard and the alert rules: each metric in each expression is one that the collector has."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import pytest

from aiokafkapy.integrations.prometheus import KafkaCollector

from .pages import ROOT

FOLDER: Final = ROOT / "examples" / "grafana"
DASHBOARD: Final[dict[str, Any]] = json.loads((FOLDER / "aiokafkapy.json").read_text())
ALERTS: Final = (FOLDER / "alerts.yml").read_text()
NAMES: Final = {family.name + ("_total" if family.type == "counter" else "") for family in KafkaCollector().describe()}
LABELS: Final = {"client_id", "error", "node_id"}


def expressions() -> list[str]:
    """The expressions of the panels, of the variables, and of the rules."""
    panels = [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]
    queries = [each["query"]["query"] for each in DASHBOARD["templating"]["list"] if each["type"] == "query"]
    # An expression is a line, or the indented lines behind ``>-``; no YAML reader is needed for that.
    rules = re.findall(r"^ +expr: (?:>-\n((?: {10}.*\n)+)|(.*)\n)", ALERTS, re.MULTILINE)
    return [*panels, *queries, *(" ".join((folded or line).split()) for folded, line in rules)]


@pytest.mark.parametrize("expression", expressions())
def test_each_metric_of_an_expression_exists(expression: str) -> None:
    found = set(re.findall(r"kafka_producer_\w+", expression))
    assert found
    assert found <= NAMES
    for grouped in re.findall(r"by \(([^)]*)\)", expression):
        assert {label.strip() for label in grouped.split(",")} <= LABELS
    for rated in re.findall(r"(?:rate|increase)\((kafka_producer_\w+)", expression):
        assert rated.endswith("_total")
    assert expression.count("(") == expression.count(")")


def test_there_is_an_expression_and_a_remedy_for_each_rule() -> None:
    rules = ALERTS.count("- alert:")
    assert rules == ALERTS.count("  expr:") == ALERTS.count("  summary:") == ALERTS.count("  description:")
    assert len(expressions()) == rules + 1 + sum(len(panel["targets"]) for panel in DASHBOARD["panels"])


def test_the_panels_of_the_dashboard_do_not_lie_over_each_other() -> None:
    places = [tuple(panel["gridPos"].values()) for panel in DASHBOARD["panels"]]
    assert len({(x, y) for x, y, _, _ in places}) == len(places)
    assert all(x + width <= 24 for x, _, width, _ in places)
    assert [panel["id"] for panel in DASHBOARD["panels"]] == list(range(1, len(places) + 1))
