"""The pages as a site: hooks of MkDocs, which ``mkdocs.yml`` names.

Owns the site's parts beside docs/: the README as its first page, the other pages of the root, pictures, and the
reference, whose pages name objects for mkdocstrings. Links between pages are written for readers of the repository,
and lead to the same pages here; those to code and tests, which the site lacks, become their text.

Rule: the site is read from the disk: no page makes a browser fetch anything from elsewhere. So state machines, diagrams
in Mermaid where a server draws them, are tables of states and their successors.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from mkdocs.structure.files import File, Files
from pydantic import BaseModel

from aiokafkapy import errors
from aiokafkapy.broker.config import config_model
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.reader.config import ReaderConfig
from tests.documents.pages import option_table

__all__ = ["on_config", "on_files", "on_page_markdown"]

ROOT: Final = Path(__file__).parents[2]
GUIDES: Final = "How to"
"""The section of the navigation for readers' tasks."""
OF_THE_ROOT: Final = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
    "SECURITY.md": "vulnerabilities.md",
}
"""The places of pages beside docs/ in the site."""
REFERENCE: Final = {
    "producer": ("The producer", ["aiokafkapy.KafkaProducer", "aiokafkapy.BlockingProducer"]),
    "records": (
        "Records and outcomes",
        [
            *("aiokafkapy.ProducerRecord", "aiokafkapy.RecordMetadata", "aiokafkapy.TableMetadata"),
            *("aiokafkapy.Delivery", "aiokafkapy.TopicPartition", "aiokafkapy.ConsumedRecord"),
            *("aiokafkapy.Partitioner", "aiokafkapy.DefaultPartitioner", "aiokafkapy.RoundRobinPartitioner"),
            *("aiokafkapy.ProducerInterceptor", "aiokafkapy.ProducerStatistics", "aiokafkapy.ProducerHealth"),
        ],
    ),
    "broker": (
        "The dev broker",
        [
            *("aiokafkapy.broker.DevBroker", "aiokafkapy.broker.controls.Controls"),
            *(
                "aiokafkapy.broker.FaultSchedule",
                "aiokafkapy.broker.faults.playback.Playback",
                "aiokafkapy.console.Console",
            ),
        ],
    ),
    "reader": ("The reader", ["aiokafkapy.reader.PartitionReader"]),
    "admin": ("Administration", ["aiokafkapy.admin.TopicAdmin", "aiokafkapy.admin.Doctor", "aiokafkapy.admin.Finding"]),
    "integrations": ("Integrations", ["aiokafkapy.integrations.fastapi", "aiokafkapy.integrations.aiohttp"]),
    "testing": ("Testing", ["aiokafkapy.testing.pytest_plugin", "aiokafkapy.testing.clock"]),
}
_LINK: Final = re.compile(r"(?P<text>!?\[(?:[^\[\]]|\[[^\]]*\])*\])\((?P<target>[^):#\s]+)(?P<anchor>#[^)\s]*)?\)")
_HOW_MADE: Final = """\
    options:
      inherited_members: true
      members: [from_properties, from_url, from_env, with_credentials]
"""
_MERMAID: Final = re.compile(r"^```mermaid\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def on_config(config: Any) -> Any:
    """Put pages of docs/ that the navigation does not name behind its pages for tasks, by their headings."""
    named = set(_named(config.nav))
    guides: list[Any] = next(section[GUIDES] for section in config.nav if GUIDES in section)
    for page in sorted((ROOT / "docs").glob("*.md")):
        if page.name not in named:
            heading = page.read_text().partition("\n")[0].removeprefix("# ")
            guides.append({heading: page.name})
    return config


def on_files(files: Files, config: Any) -> Files:
    """Add the pages of the root, the reference, and the pictures that pages show."""
    for source, place in OF_THE_ROOT.items():
        files.append(File.generated(config, place, content=(ROOT / source).read_text()))
    for name, (title, objects) in REFERENCE.items():
        files.append(File.generated(config, f"reference/{name}.md", content=_reference(title, objects)))
    files.append(File.generated(config, "reference/errors.md", content=_errors()))
    files.append(File.generated(config, "reference/options.md", content=_options()))
    for picture in (ROOT / "benchmarks" / "results").glob("*.png"):
        files.append(File.generated(config, f"pictures/{picture.name}", abs_src_path=str(picture)))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """The page with links to the places of things in the site, and state machines as tables."""
    place = page.file.src_uri
    source = next((name for name, one in OF_THE_ROOT.items() if one == place), f"docs/{place}")

    def link(found: re.Match[str]) -> str:
        return _link(found, Path(source).parent, place)

    return _LINK.sub(link, _MERMAID.sub(lambda found: _transitions(found[1]), markdown))


# internals


def _named(entry: Any) -> Iterator[str]:
    """The files that a part of the navigation names."""
    if isinstance(entry, str):
        yield entry
    for part in entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ():
        yield from _named(part)


def _link(found: re.Match[str], folder: Path, place: str) -> str:
    target = os.path.normpath(folder / found["target"])
    there = OF_THE_ROOT.get(target)
    if target.startswith("docs/") and target.endswith(".md"):
        there = target.removeprefix("docs/")
    elif target.endswith(".png"):
        there = f"pictures/{Path(target).name}"
    if there is None:
        return found["text"].removeprefix("!")[1:-1]
    relative = os.path.relpath(there, Path(place).parent)
    return f"{found['text']}({relative}{found['anchor'] or ''})"


def _transitions(diagram: str) -> str:
    followers: dict[str, list[str]] = {}
    for state, follower in re.findall(r"(\S+) --> (\S+)", diagram):
        followers.setdefault(state.replace("[*]", "begins as"), []).append(follower.replace("[*]", "ends"))
    rows = (f"| {state} | {', '.join(sorted(found))} |" for state, found in followers.items())
    return "\n".join(["| state | what may follow |", "|---|---|", *rows])


def _reference(title: str, objects: list[str]) -> str:
    # Members of a class's private bases are its own to its callers.
    blocks = (f"::: {name}\n    options:\n      inherited_members: true" for name in objects)
    return "\n\n".join([f"# {title}", *blocks])


def _options() -> str:
    configurations: dict[str, tuple[str | None, type[BaseModel]]] = {
        "The producer": ("aiokafkapy.ProducerConfig", ProducerConfig),
        "The reader": ("aiokafkapy.reader.ReaderConfig", ReaderConfig),
        "The dev broker": (None, config_model()),
    }
    parts = ["# Options", "Kafka's names are these with dots for underscores."]
    for title, (name, config) in configurations.items():
        parts += [f"## {title}", *([f"::: {name}\n{_HOW_MADE}"] if name is not None else []), option_table(config)]
    return "\n\n".join(parts)


def _errors() -> str:
    """The errors of the package, each with the first line of its docstring."""
    rows = []
    for name in sorted(dir(errors)):
        error = getattr(errors, name)
        if isinstance(error, type) and issubclass(error, errors.KafkaError):
            text = (error.__doc__ or "").strip().partition("\n")[0].replace("|", "\\|")
            rows.append(f"| `{name}` | {getattr(error, 'code', None) or ''} | {text} |")
    heading = ["# Errors", "All of them are in `aiokafkapy.errors`, with Kafka's names and codes.", ""]
    return "\n".join([*heading, "| error | code | |", "|---|---|---|", *rows])
