"""The pages of the documentation: the ones written by hand, the parts generated from the code, and their snippets.

``python -m tests.documents`` writes the generated parts anew: state machines from their ``StateTable``s, and tables of
options from the configuration's fields. ``test_pages.py`` fails when a page is out of date.
"""

from __future__ import annotations

import enum
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from aiokafkapy import errors
from aiokafkapy.broker.config import config_model
from aiokafkapy.broker.coordination.classic_group import GROUP_STATES
from aiokafkapy.broker.coordination.consumer_group import MEMBER_STATES
from aiokafkapy.broker.handlers.dispatch_table import dispatch_table
from aiokafkapy.broker.network.client_connection import MUTE_STATES
from aiokafkapy.client.network_client_state import NETWORK_CLIENT_STATES
from aiokafkapy.client.nodes.connection_states import CONNECTION_STATES
from aiokafkapy.errors.remedies import REMEDIES
from aiokafkapy.migration.libraries import LIBRARIES, Library, option_advice
from aiokafkapy.producer.accumulator.producer_batch import BATCH_STATES
from aiokafkapy.producer.circuits.circuits import CIRCUIT_STATES
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.identity.transaction import TRANSACTION_STATES
from aiokafkapy.producer.identity.transaction_manager import TRANSACTION_MANAGER_STATES
from aiokafkapy.producer.state import PRODUCER_STATES
from aiokafkapy.security.tls_transport import TLS_STATES
from aiokafkapy.spark.options import JAVA_ONLY
from aiokafkapy.spark.sink.sink_options import REFUSED as REFUSED_TO_WRITE
from aiokafkapy.spark.source.source_options import REFUSED as REFUSED_TO_READ
from aiokafkapy.states import StateTable
from benchmarks.micro.instructions import KINDS_OF_WORK
from benchmarks.report import put_into_page

from .changed_options import CHANGED, translated_properties

__all__ = ["ADDRESS", "ROOT", "Snippet", "generated", "option_table", "pages", "snippets", "write"]

ROOT: Final = Path(__file__).parents[2]
DOCS: Final = ROOT / "docs"
ADDRESS: Final = "localhost:9092"
"""The broker's, in snippets."""
INSTRUCTIONS: Final = ROOT / "benchmarks" / "results" / "instructions.json"
MOVING: Final = "moving-over.md"

STATE_MACHINES: Final[tuple[StateTable[Any], ...]] = (
    PRODUCER_STATES,
    NETWORK_CLIENT_STATES,
    CONNECTION_STATES,
    TLS_STATES,
    BATCH_STATES,
    TRANSACTION_MANAGER_STATES,
    TRANSACTION_STATES,
    CIRCUIT_STATES,
    MUTE_STATES,
    GROUP_STATES,
    MEMBER_STATES,
)

_FENCE: Final = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Snippet:
    """A fenced block of a page."""

    page: str
    line: int
    language: str
    text: str

    @property
    def label(self) -> str:
        """The snippet's place, as a test's name shows it."""
        return f"{self.page}:{self.line}"


def pages() -> list[Path]:
    """Every page a reader is sent to."""
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "SECURITY.md", *sorted(DOCS.glob("*.md"))]


def snippets(language: str) -> list[Snippet]:
    """The blocks of one language, in the order of the pages."""
    return [snippet for page in pages() for snippet in _blocks(page) if snippet.language == language]


def generated() -> dict[tuple[Path, str], str]:
    """The generated parts, by page and marker."""
    return {
        (DOCS / "architecture.md", "state machines"): _state_machines(),
        (DOCS / "benchmarks.md", "instructions"): _instructions(),
        (DOCS / "configuration.md", "producer options"): option_table(ProducerConfig),
        (DOCS / "configuration.md", "broker options"): option_table(config_model()),
        (DOCS / "dev-broker.md", "APIs"): _apis(),
        (DOCS / "troubleshooting.md", "errors"): _errors(),
        **{(DOCS / MOVING, f"calls of {one.name}"): _calls(one) for one in LIBRARIES},
        **{(DOCS / MOVING, f"options of {one.name}"): _changed_options(one) for one in LIBRARIES},
        (DOCS / MOVING, "options of Spark"): _refused_options(),
    }


def write() -> None:
    """Put the generated parts into their pages."""
    for (page, name), text in generated().items():
        put_into_page(page, text, name)


def option_table(config: type[BaseModel]) -> str:
    """All options of a configuration, with their defaults and descriptions."""
    lines = ["| option | default | |", "|---|---|---|"]
    for name, field in config.model_fields.items():
        description = " ".join((field.description or "").split()).replace("|", "\\|")
        lines.append(f"| `{name}` | {_default(field)} | {description} |")
    return "\n".join(lines)


# internals


def _blocks(page: Path) -> Iterator[Snippet]:
    text = page.read_text()
    for found in _FENCE.finditer(text):
        line = text.count("\n", 0, found.start()) + 1
        yield Snippet(str(page.relative_to(ROOT)), line, found[1], found[2])


def _instructions() -> str:
    """The recorded instructions of a record, for each Python and form that they were counted with; and its turns of the
    loop, tasks, futures and allocations.
    """
    recorded = json.loads(INSTRUCTIONS.read_text())
    labels = list(dict.fromkeys(label for counted in recorded.values() for label in counted["figures"]))

    def table(name: str, cell: Callable[[dict[str, Any], str], str]) -> list[str]:
        rows = (
            f"| {label} | {' | '.join(cell(counted, label) for counted in recorded.values())} |" for label in labels
        )
        return [f"| {name} | {' | '.join(recorded)} |", "|---" * (len(recorded) + 1) + "|", *rows]

    def instructions(counted: dict[str, Any], label: str) -> str:
        return f"{counted['figures'][label]:,.0f}" if label in counted["figures"] else ""

    def work(counted: dict[str, Any], label: str) -> str:
        of_label = counted.get("work", {}).get(label, {})
        return " · ".join(f"{of_label[kind]:,.3g}" for kind in KINDS_OF_WORK if kind in of_label)

    return "\n".join([*table("", instructions), "", *table(" · ".join(KINDS_OF_WORK), work)])


def _state_machines() -> str:
    return "\n\n".join(f"### {table.name}\n\n```mermaid\n{table.diagram()}\n```" for table in STATE_MACHINES)


def _errors() -> str:
    """Every error with its meaning and its remedy: those of this side, then those of brokers, by code."""
    found: dict[str, type[errors.KafkaError]] = {name: getattr(errors, name) for name in REMEDIES}
    ordered = sorted(found.items(), key=lambda pair: (pair[1].code is not None, pair[1].code or 0, pair[0]))
    lines = ["| error | code | | what to do |", "|---|---|---|---|"]
    for name, kind in ordered:
        means = ", ".join(word for word in ("retriable", "abortable", "fatal") if getattr(kind, word))
        code = "" if kind.code is None else str(kind.code)
        lines.append(f"| `{name}` | {code} | {means} | {kind.remedy} |")
    return "\n".join(lines)


def _apis() -> str:
    """Every API of the dev broker, with the lines of its handler's docstring."""
    lines = ["| API | key | versions | all but |", "|---|---|---|---|"]
    for key, handler in sorted(dispatch_table().items()):
        module = sys.modules[handler.handle.__module__]
        text = " ".join((module.__doc__ or "").split()).replace("``", "`")
        name, dropped = text.partition(" (")[0], text.partition(" dropped: ")[2].partition(" notes: ")[0]
        versions = f"{handler.min_version}\u2013{handler.max_version}"
        limits = "" if dropped == "nothing" else dropped
        lines.append(f"| {name} | {key} | {versions} | {limits} |")
    return "\n".join(lines)


def _calls(library: Library) -> str:
    return _table(f"{library.name}", ((f"`{name}`", text) for name, text in library.calls.items()))


def _changed_options(library: Library) -> str:
    rows = [(f"`{name}`", option_advice(library, name) or "") for name in CHANGED[library.name]]
    if library.takes_properties:
        rows += [(f"`{name}`", text) for name, text in translated_properties().items()]
    return _table("option", rows)


def _refused_options() -> str:
    refused = {**REFUSED_TO_READ, **REFUSED_TO_WRITE, **JAVA_ONLY}
    return _table("refused", ((f"`kafka.{name}`", text) for name, text in sorted(refused.items())))


def _table(heading: str, rows: Iterable[tuple[str, str]]) -> str:
    lines = [f"| {heading} | write |", "|---|---|"]
    return "\n".join([*lines, *(f"| {name} | {text.replace('|', chr(92) + '|')} |" for name, text in rows)])


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, enum.Enum):
        value = value.value
    return "" if value in (None, (), {}) else f"`{value!r}`"
