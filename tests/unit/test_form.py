"""aiokafkapy._form: one variable makes the whole core run interpreted."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path

import pytest

from aiokafkapy import _form
from aiokafkapy._form import INTERPRETED_VARIABLE, InterpretedFinder
from tests.forms import compiled_form

PROBE = """
import json, sys
from aiokafkapy import _form
from aiokafkapy.record import builder
print(json.dumps([_form.compiled, builder.__file__.endswith(".py"),
                  any(type(finder).__name__ == "InterpretedFinder" for finder in sys.meta_path)]))
"""


def probe(**variables: str) -> list[object]:
    environment = {key: value for key, value in os.environ.items() if key != INTERPRETED_VARIABLE} | variables
    result = subprocess.run([sys.executable, "-c", PROBE], env=environment, capture_output=True, text=True, check=True)
    found: list[object] = json.loads(result.stdout)
    return found


def test_the_variable_makes_the_process_run_interpreted() -> None:
    assert probe(**{INTERPRETED_VARIABLE: "1"}) == [False, True, True]


@pytest.mark.parametrize("value", ["0", ""])
def test_the_variable_may_say_no(value: str) -> None:
    assert probe(**{INTERPRETED_VARIABLE: value})[2] is False


def test_without_the_variable_compiled_modules_run_compiled() -> None:
    compiled_form("aiokafkapy.record.builder")
    assert probe() == [True, False, False]


def test_a_compiled_module_is_found_as_its_source(tmp_path: Path) -> None:
    source = tmp_path / "batch.py"
    source.write_text("")
    (tmp_path / f"batch{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    spec = InterpretedFinder().find_spec("aiokafkapy.somewhere.batch", [str(tmp_path)])
    assert spec is not None
    assert spec.origin == str(source)


def test_modules_without_a_source_or_an_extension_are_left_to_other_finders(tmp_path: Path) -> None:
    (tmp_path / f"kernel{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    (tmp_path / "plain.py").write_text("")
    finder = InterpretedFinder()
    assert finder.find_spec("aiokafkapy.kernel", [str(tmp_path)]) is None
    assert finder.find_spec("aiokafkapy.plain", [str(tmp_path)]) is None
    assert finder.find_spec("aiokafkapy.absent", [str(tmp_path)]) is None
    assert finder.find_spec("aiokafkapy", None) is None


def test_other_packages_are_left_to_others(tmp_path: Path) -> None:
    (tmp_path / "batch.py").write_text("")
    (tmp_path / f"batch{EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    assert InterpretedFinder().find_spec("other.batch", [str(tmp_path)]) is None


def test_is_put_in_place_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [])
    assert _form.install({INTERPRETED_VARIABLE: "1"})
    assert _form.install({INTERPRETED_VARIABLE: "1"})
    assert len(sys.meta_path) == 1
