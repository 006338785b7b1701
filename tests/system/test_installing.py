"""The promises of installing: a wheel's own test passes, and the configuration of wheels says what the classifiers
do.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import aiokafkapy

ROOT = Path(__file__).parents[2]


def test_the_test_of_a_wheel_passes_outside_of_the_tree(tmp_path: Path) -> None:
    wanted = ["--compiled"] if aiokafkapy.compiled else []
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "smoke.py"), *wanted],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1001 records there and back" in done.stdout


def test_the_test_of_a_wheel_fails_without_a_compiled_core(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "smoke.py"), "--compiled"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT), "AIOKAFKAPY_INTERPRETED": "1"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 1
    assert "is not compiled" in done.stderr


def test_wheels_are_built_for_each_python_that_is_claimed() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())
    claimed = {
        "cp" + release.replace(".", "")
        for line in found["project"]["classifiers"]
        for release in re.findall(r"Python :: (3\.\d+)$", line)
    }
    built = {name.removesuffix("-*") for name in found["tool"]["cibuildwheel"]["build"]}
    assert built == claimed | {"cp314t"}
