"""benchmarks.micro.callgrind: costs and calls, from files as callgrind writes them."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.micro.callgrind import read_calls, read_costs

# Two functions and a variant of the first, which calls the second three times, at a cost of 900, and once more.
FILE = """\
version: 1
fl=(1) one.c
fn=(1) append
10 40
cfi=(2) two.c
cfn=(2) free
calls=3 7
* 900
+2 2

fn=(2)
7 300
fn=(3) append.constprop.0
9 8
cfn=(2)
calls=1 7
* 300
fn=(4) __Pyx_TypeTest
9 5000
totals: 1
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "compiled.1"
    path.write_text(FILE)
    return path


def test_a_function_s_cost_is_its_own_and_not_that_of_the_functions_it_calls(file: Path) -> None:
    assert read_costs(file) == {"append": 42, "free": 300, "append.constprop.0": 8, "__Pyx_TypeTest": 5000}


def test_a_call_counts_for_the_function_that_is_called(file: Path) -> None:
    assert read_calls(file) == {"free": 4}
