"""The site is built without a warning, has every page, and fetches nothing when it is read."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .pages import DOCS, ROOT

FETCHED = re.compile(r"<(?:script|link|img|iframe|source)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^\"' >]*")
FETCHED_BY_STYLES = re.compile(r"url\(\s*[\"']?(?:https?:)?//[^)]*\)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("mkdocs")
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)],
        cwd=ROOT,
        env=os.environ | {"NO_MKDOCS_2_WARNING": "1", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    return folder


def test_each_page_of_the_repository_is_in_it(site: Path) -> None:
    for page in DOCS.glob("*.md"):
        assert (site / f"{page.stem}.html").exists(), page.name
    for name in ("index", "changes", "contributing", "vulnerabilities"):
        assert (site / f"{name}.html").exists(), name


def test_the_reference_has_calls_options_and_errors(site: Path) -> None:
    producer = (site / "reference" / "producer.html").read_text()
    for call in ("send", "enqueue", "send_nowait", "open_table_send", "transaction"):
        assert f'id="aiokafkapy.KafkaProducer.{call}"' in producer, call
    assert "returns when the table's rows are in batches" in producer
    options = (site / "reference" / "options.html").read_text()
    assert "delivery_timeout_ms" in options
    assert 'id="aiokafkapy.ProducerConfig.from_url"' in options
    assert "NotLeaderOrFollowerError" in (site / "reference" / "errors.html").read_text()


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    fetched = {found for page in site.rglob("*.html") for found in FETCHED.findall(page.read_text())}
    fetched |= {found for style in site.rglob("*.css") for found in FETCHED_BY_STYLES.findall(style.read_text())}
    assert fetched == set()


def test_state_machines_need_no_program_to_draw_them(site: Path) -> None:
    text = (site / "architecture.html").read_text()
    assert "mermaid" not in text
    assert "AUTHENTICATION_FAILED" in text
