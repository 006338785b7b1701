"""aiokafkapy._form: the compiled core is one file; one variable makes the process run interpreted."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES, PathFinder
from pathlib import Path

import pytest

from aiokafkapy import _form
from aiokafkapy._form import INTERPRETED_VARIABLE, CoreFinder
from tests.forms import compiled_form

PROBE = """
import json, sys
from aiokafkapy import _form
from aiokafkapy.record import builder
print(json.dumps([_form.compiled, builder.__file__.endswith(".py"),
                  any(type(finder).__name__ == "CoreFinder" for finder in sys.meta_path)]))
"""


def probe(**variables: str) -> list[object]:
    environment = {key: value for key, value in os.environ.items() if key != INTERPRETED_VARIABLE} | variables
    result = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True)
    found: list[object] = json.loads(result.stdout)
    return found


def test_the_variable_makes_the_process_run_interpreted() -> None:
    assert probe(**{INTERPRETED_VARIABLE: "1"}) == [False, True, False]


@pytest.mark.parametrize("value", ["0", ""])
def test_the_variable_may_say_no(value: str) -> None:
    assert probe(**{INTERPRETED_VARIABLE: value}) == probe()


def test_without_the_variable_compiled_modules_run_compiled() -> None:
    compiled_form("aiokafkapy.record.builder")
    assert probe() == [True, False, True]


def test_the_core_has_each_module_that_setup_compiles() -> None:
    compiled_form("aiokafkapy.record.builder")
    modules = importlib.import_module("aiokafkapy._core").modules
    package = Path(_form.__file__).parent
    typed = {path.with_suffix("") for suffix in ("pyx", "pxd") for path in package.rglob(f"*.{suffix}")}
    wanted = {".".join(path.relative_to(package.parent).parts) for path in typed if path.with_suffix(".py").exists()}
    assert modules == wanted


def test_each_module_of_the_core_comes_from_one_file_and_has_a_source_as_well() -> None:
    compiled_form("aiokafkapy.record.builder")
    core = importlib.import_module("aiokafkapy._core")
    files = {importlib.import_module(name).__file__ for name in core.modules}
    assert files == {core.__file__}
    assert not [name for name in core.modules if PathFinder.find_spec(name, package_path(name)) is None]


def package_path(name: str) -> list[str]:
    return list(importlib.import_module(name.rpartition(".")[0]).__path__)


def test_modules_that_are_not_in_the_core_are_left_to_other_finders() -> None:
    finder = CoreFinder("core.so", {"aiokafkapy.somewhere.batch"})
    spec = finder.find_spec("aiokafkapy.somewhere.batch", [])
    assert spec is not None
    assert (spec.origin, spec.has_location) == ("core.so", True)
    assert finder.find_spec("aiokafkapy.somewhere", []) is None
    assert finder.find_spec("other.batch", None) is None


def test_the_finder_is_put_in_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled_form("aiokafkapy.record.builder")
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before = len(sys.meta_path)
    assert _form.install({})
    assert _form.install({INTERPRETED_VARIABLE: "0"})
    assert len(sys.meta_path) == before
    assert not _form.install({INTERPRETED_VARIABLE: "1"})


def test_a_core_for_another_system_is_reported_and_not_ignored(tmp_path: Path) -> None:
    """Otherwise a service would only be slower, and nobody would know."""
    package = tmp_path / "aiokafkapy"
    shutil.copytree(Path(_form.__file__).parent, package, ignore=shutil.ignore_patterns("*.so", "*.pyd", "__pycache__"))
    (package / f"_core{EXTENSION_SUFFIXES[0]}").write_bytes(b"of another system")
    environment = {key: value for key, value in os.environ.items() if key != INTERPRETED_VARIABLE}
    done = subprocess.run(
        [sys.executable, "-c", "import aiokafkapy"],
        cwd=tmp_path,
        env=environment | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "ImportError" in done.stderr
    assert "_core" in done.stderr
