"""The entry of the command line."""

from __future__ import annotations

import sys

import pytest

from aiokafkapy import cli
from aiokafkapy.cli import entry


def test_the_console_script_and_the_package_begin_at_the_same_place() -> None:
    assert cli.main is entry.main


@pytest.mark.parametrize("missing", ["rich", "typer"])
def test_without_the_extra_one_line_says_how_to_get_it(missing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["aiokafkapy", "topics"])
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SystemExit, match=rf"the command line needs {missing}: pip install 'aiokafkapy\[cli\]'"):
        entry.main()
