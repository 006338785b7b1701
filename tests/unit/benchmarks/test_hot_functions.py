"""The list of the functions that a lone record runs: made from callgrind's files, it fits the core."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import aiokafkapy
from benchmarks.micro.hot_functions import FILE, LoneRuns, hot_functions, write_hot_functions

PACKAGE = Path(aiokafkapy.__file__ or "").parent
APPEND = "__pyx_f_10aiokafkapy_6record_7builder_append"
FREED = "__pyx_tp_dealloc_10aiokafkapy_8producer_8delivery_Delivery"
CALLGRIND = """version: 1
fl=(1) one.c
fn=(1) {append}
10 40
cfi=(2) two.c
cfn=(2) {freed}
calls=3 7
* 900
+2 2

fn=(2)
7 300
fn=(3) {append}.constprop.0
9 {more}
fn=(4) __Pyx_TypeTest
9 5000
totals: 1
"""


def written(path: Path, more: int) -> Path:
    path.write_text(CALLGRIND.format(append=APPEND, freed=FREED, more=more))
    return path


def test_a_function_is_hot_that_each_further_record_runs() -> None:
    short = {APPEND: 100, FREED: 50, "__Pyx_TypeTest": 10}
    long = {APPEND: 130, f"{APPEND}'2": 270, FREED: 349, "__Pyx_TypeTest": 9_000}
    assert hot_functions(short, long, 100) == {APPEND}
    assert hot_functions(short, long | {FREED: 350}, 100) == {APPEND, FREED}


def test_the_list_is_written_of_all_that_was_run(tmp_path: Path) -> None:
    short, long = (written(tmp_path / f"compiled.{part}", more) for part, more in ((1, 8), (2, 38)))
    other = tmp_path / "compiled.3"
    other.write_text(f"fn=(1) {APPEND}\n1 50\nfn=(2) {FREED}\n1 330\n")
    assert write_hot_functions([LoneRuns(short, long, 10)], tmp_path / "hot.txt") == [APPEND]
    runs = [LoneRuns(short, long, 10), LoneRuns(short, other, 10)]
    assert write_hot_functions(runs, tmp_path / "hot.txt") == [APPEND, FREED]
    assert (tmp_path / "hot.txt").read_text() == f"{APPEND}\n{FREED}\n"


def test_the_hot_functions_are_those_of_the_sources() -> None:
    listed = FILE.read_text().split()
    assert len(listed) > 100
    gone = [function for function in listed if not is_in_a_source(function)]
    assert gone == [], "python -m benchmarks instructions --hot lists them anew"
    assert not is_in_a_source("__pyx_f_10aiokafkapy_6record_7builder_18RecordBatchBuilder_no_such_method")


def is_in_a_source(function: str) -> bool:
    """Whether a function named like ``__pyx_f_10aiokafkapy_6record_7builder_18RecordBatchBuilder__append`` is there."""
    path, rest = PACKAGE.parent, re.sub(r"^__pyx_[a-z]+_(?:new_|dealloc_)?(?=\d)", "", function)
    while not path.with_suffix(".py").exists() and (part := re.match(r"(\d+)(.*)", rest)):
        length, rest = int(part[1]), part[2]
        path, rest = path / rest[:length], rest[length + 1 :]
    source = path.with_suffix(".pyx" if path.with_suffix(".pyx").exists() else ".py").read_text()
    names = [rest]
    if part := re.match(r"(\d+)([A-Z].*)", rest):
        length, rest = int(part[1]), part[2]
        names = [rest[:length], rest[length + 1 :]]
    # A function that Python calls has a number before its name.
    bare = [re.sub(r"^[\d_]*|_*$", "", name) for name in names]
    return all(re.search(rf"\b_*{name}_*\b", source) for name in bare)


@pytest.mark.skipif(sys.platform != "linux", reason="only ELF has a section for them")
@pytest.mark.skipif(shutil.which("nm") is None, reason="NO NM: binutils shows where a core's functions lie")
@pytest.mark.skipif(not aiokafkapy.compiled, reason="the core is not compiled")
def test_the_built_core_has_the_hot_functions_beside_one_another() -> None:
    (core,) = PACKAGE.glob("_core.*.so")
    found = subprocess.run(["nm", "--defined-only", core], capture_output=True, text=True, check=True)
    symbols = (line.split() for line in found.stdout.splitlines())
    places = {name: int(place, 16) for place, kind, name in symbols if kind in "tT"}
    hot = [places[function] for function in FILE.read_text().split() if function in places]
    everything = [place for name, place in places.items() if name.startswith("__pyx_f_")]
    assert len(hot) > 100
    assert max(hot) - min(hot) < (max(everything) - min(everything)) / 5
