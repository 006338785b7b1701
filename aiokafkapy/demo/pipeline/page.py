"""The HTML report: one file with the pictures in it, the counts, and the checks.

Owns the layout; every number comes from the ``PipelineReport``.
"""

from __future__ import annotations

import base64
import html
from pathlib import Path
from string import Template
from typing import Final

from .report import PipelineReport
from .results import RESULTS

__all__ = ["write_page"]


def write_page(report: PipelineReport, pictures: dict[str, Path], path: Path) -> None:
    """Write the report to ``path``."""
    figures = "\n".join(_figure(report, result.name, result.title, pictures[result.name]) for result in RESULTS)
    page = _PAGE.substitute(
        verdict="All checks hold" if report.has_passed else "NOT all checks hold",
        tone="good" if report.has_passed else "bad",
        facts="\n".join(_row(name, value) for name, value in report.facts().items()),
        checks="\n".join(
            f'<tr class="{"good" if check.passed else "bad"}"><td>{"✓" if check.passed else "✗"}</td>'
            f"<td>{html.escape(check.name)}</td><td>{html.escape(check.detail)}</td></tr>"
            for check in report.checks
        ),
        steps="\n".join(_row(name, f"{seconds:.1f} s") for name, seconds in report.outcome.seconds.items()),
        figures=figures,
    )
    path.write_text(page, encoding="utf-8")


def _row(name: str, value: str) -> str:
    return f"<tr><td>{html.escape(name)}</td><td>{html.escape(value)}</td></tr>"


def _figure(report: PipelineReport, name: str, title: str, picture: Path) -> str:
    data = base64.b64encode(picture.read_bytes()).decode()
    caption = f"{report.rows[name]:,} rows, read back from topic {report.topic}.{name}"
    return (
        f'<figure><img alt="{html.escape(title)}" src="data:image/png;base64,{data}">'
        f"<figcaption>{html.escape(caption)}</figcaption></figure>"
    )


_PAGE: Final = Template(
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Flights through Kafka and Spark</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; color: #222; max-width: 1000px; margin: 2em auto; padding: 0 1em }
h1 { font-size: 1.5em; margin-bottom: 0 } h2 { font-size: 1.1em; margin-top: 2em; color: #1b3a57 }
p.good, tr.good td:first-child { color: #2d6a4f } p.bad, tr.bad td { color: #c1121f; font-weight: 600 }
table { border-collapse: collapse; width: 100% } td { border-bottom: 1px solid #ddd; padding: .25em .8em .25em 0 }
figure { margin: 1.5em 0 } img { width: 100%; border: 1px solid #eee } figcaption { color: #666; font-size: .9em }
</style>
</head>
<body>
<h1>Flights through Kafka and Spark</h1>
<p class="$tone">$verdict.</p>
<table>
$facts
</table>
<h2>Checks</h2>
<table>
$checks
</table>
<h2>Results</h2>
$figures
<h2>Time</h2>
<table>
$steps
</table>
</body>
</html>
"""
)
