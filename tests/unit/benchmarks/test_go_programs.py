"""benchmarks.go_programs: a program is compiled once; where that is not possible, its users do without it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from benchmarks.go_programs import built
from benchmarks.measurement import SkippedError

GO = """\
#!/bin/sh
[ "$1 $2 $4" = "build -o ." ] || { echo "asked for: $*"; exit 2; }
[ -e broken ] && { echo "no such module"; exit 1; }
pwd > "$3"
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of the program's sources; ``go`` is a script that writes the folder's name."""
    folder, bin_folder = tmp_path / "sources", tmp_path / "bin"
    folder.mkdir()
    bin_folder.mkdir()
    (folder / "go.mod").touch()
    (bin_folder / "go").write_text(GO)
    (bin_folder / "go").chmod(0o700)
    monkeypatch.delenv("AIOKAFKAPY_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(bin_folder))
    return folder


async def test_a_program_is_compiled_in_its_folder_into_the_cache(folder: Path, tmp_path: Path) -> None:
    program = await built("name", folder)
    assert program == tmp_path / "cache" / "aiokafkapy" / "name"
    assert program.read_text().strip() == str(folder)


@pytest.mark.parametrize(("age", "is_compiled"), [(1, False), (-1, True)])
async def test_a_program_is_compiled_again_when_its_folder_has_changed(
    folder: Path, age: int, is_compiled: bool
) -> None:
    program = await built("name", folder)
    program.write_text("the former one")
    written = program.stat().st_mtime
    os.utime(folder / "go.mod", (written - age, written - age))
    await built("name", folder)
    assert (program.read_text() != "the former one") is is_compiled


async def test_a_program_that_cannot_be_compiled_is_left_out_with_the_reason(folder: Path) -> None:
    (folder / "broken").touch()
    with pytest.raises(SkippedError, match="name cannot be built here: no such module"):
        await built("name", folder)


async def test_without_go_it_is_left_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(SkippedError, match="name needs Go, and there is none"):
        await built("name", folder)
