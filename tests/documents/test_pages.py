"""The pages are true: generated parts are current, links lead somewhere, and named things exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from .pages import ROOT, generated, pages, snippets

LONGEST_README = 200
"""Lines, as many as a newcomer reads in five minutes."""
FOR_OUR_OWN_WORK = {"bench", "dev", "docs", "test"}

PAGES = pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)


@pytest.mark.parametrize(("place", "text"), generated().items(), ids=lambda value: "")
def test_a_generated_part_agrees_with_the_code(place: tuple[Path, str], text: str) -> None:
    page, name = place
    assert f"<!-- {name} -->\n{text}\n<!-- /{name} -->" in page.read_text(), "run `python -m tests.documents`"


def test_the_readme_is_read_in_five_minutes() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) < LONGEST_README


def test_the_readme_names_every_extra() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    found = re.search(r"Extras: (.*?)\. In a clone", (ROOT / "README.md").read_text(), re.DOTALL)
    assert found is not None
    assert set(re.findall(r"`([\w-]+)`", found[1])) == extras.keys() - FOR_OUR_OWN_WORK


@PAGES
def test_links_lead_to_files(page: Path) -> None:
    for target in re.findall(r"\]\(([^):#]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


@PAGES
def test_tests_that_a_row_names_are_in_the_file_before_them(page: Path) -> None:
    for line in page.read_text().splitlines():
        source = ""
        for target, test in re.findall(r"\]\(([^):#]+)\)|`(test_\w+)`", line):
            if target:
                source = (page.parent / target).read_text() if target.endswith(".py") else ""
            else:
                assert f"def {test}(" in source, test


@PAGES
def test_names_in_files_are_there(page: Path) -> None:
    """``file.py: Class.method``: the file is in the package, by the path given, and has the names."""
    for path, names in re.findall(r"`([\w/]+\.pyx?): ([\w.]+)`", page.read_text()):
        source = (ROOT / "aiokafkapy" / path).read_text()
        for name in names.split("."):
            assert re.search(
                rf"\b(class|def|cpdef|cdef|async def)\b[^\n]*\b{name}\b|^{name}\b", source, re.MULTILINE
            ), f"{path}: {name}"


def test_commands_of_the_package_exist() -> None:
    pytest.importorskip("typer")
    from aiokafkapy.cli.app import COMMANDS

    for snippet in snippets("console"):
        for name in re.findall(r"^\$ aiokafkapy ([a-z]+)", snippet.text, re.MULTILINE):
            assert name in COMMANDS, f"{snippet.label}: {name}"


def test_targets_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for page in pages():
        for name in re.findall(r"`(?:[A-Z_]+=\S+ )*make ([a-z-]+)", page.read_text()):
            assert name in targets, f"{page.name}: make {name}"


def test_the_map_names_every_room() -> None:
    """Packages, and their rooms, of the package; each stands in the row of its own package."""
    text = (ROOT / "docs" / "architecture.md").read_text()
    table = text.partition("## Where things are")[2].partition("\n## ")[0]
    rows = [row for row in table.splitlines() if row.startswith("|")]
    package = ROOT / "aiokafkapy"
    rooms = [path.parent.relative_to(package).parts for path in package.glob("*/**/__init__.py")]
    missing = {
        "/".join(room)
        for room in rooms
        if not room[-1].startswith("_")
        and not any(f"`{room[0]}/`" in row.split("|")[1] and f"`{room[-1]}/`" in row for row in rows)
    }
    assert missing == set()
