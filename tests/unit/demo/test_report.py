"""The demo's report shows the figures of its ledger."""

from __future__ import annotations

import json

from aiokafkapy.demo.ledger import Check
from aiokafkapy.demo.report import Load, Report, percentile_ms, render


def make_report(*, passed: bool = True) -> Report:
    report = Report("embedded broker with 3 nodes", "flights", 1_000)
    report.http = Load(200, 2.0, clients=8, http_p50_ms=1.5, http_p99_ms=4.0, send_p50_ms=0.5, send_p99_ms=2.0)
    report.http.take_metrics({"batch-total": 150.0, "produce-request-total": 90.0, "byte-total": 80_000.0})
    report.direct = Load(800, 0.5)
    report.read_back = Load(1_000, 0.1)
    report.checks = [Check("none twice", passed, "0 twice")]
    return report


def test_the_text_has_rates_latencies_batches_and_checks() -> None:
    text = render(make_report())
    assert "1,000 flights, topic flights, embedded broker with 3 nodes" in text
    assert "100 a second" in text
    assert "p50 0.5 ms, p99 2.0 ms" in text
    assert "150 batches in 90 requests, 0.1 MB" in text
    assert "All checks hold." in text


def test_a_check_that_fails_is_shown_and_is_the_verdict() -> None:
    report = make_report(passed=False)
    assert not report.has_passed
    assert "FAILED  none twice" in render(report)
    assert "NOT all checks hold." in render(report)


def test_an_interrupted_report_says_so() -> None:
    report = make_report()
    report.was_interrupted = True
    assert "Interrupted." in render(report)
    assert "before the interruption" in render(report)


def test_no_checks_is_not_a_pass() -> None:
    assert not Report("c", "t", 0).has_passed


def test_json_has_the_measurements_and_leaves_out_the_rest() -> None:
    found = json.loads(json.dumps(make_report().as_json()))
    assert found["passed"] is True
    assert found["http"]["rate"] == 100.0
    assert "send_p50_ms" not in found["direct"]


def test_percentiles_are_of_the_ordered_values() -> None:
    seconds = [number / 1000 for number in range(1, 101)]
    assert percentile_ms(seconds, 0.5) == 51.0
    assert percentile_ms(seconds, 0.99) == 100.0
    assert percentile_ms([], 0.5) is None
