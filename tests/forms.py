"""Loads both forms of a module into one process for comparison: compiled and plain Python.

Rule: a plain kernel uses plain kernels only, as in an interpreted process.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from unittest import mock

import pytest

__all__ = ["compiled_form", "plain_form"]

KERNELS = ("aiokafkapy.record.builder", "aiokafkapy.record.arrow_rows", "aiokafkapy.record.record_columns")
"""The kernels, in order of dependency."""


def compiled_form(name: str) -> ModuleType:
    """The compiled module; the test is skipped with a reason if the core is not compiled."""
    module = importlib.import_module(name)
    if not str(module.__file__).endswith(tuple(EXTENSION_SUFFIXES)):
        pytest.skip(f"{name} IS NOT COMPILED HERE: its compiled form goes untested, and is compared to nothing")
    return module


@cache
def plain_form(name: str) -> ModuleType:
    """The module from its plain Python, whichever form runs."""
    module = importlib.import_module(name)
    package, _, last = name.rpartition(".")
    source = Path(importlib.import_module(package).__path__[0]) / f"{last}.py"
    if Path(str(module.__file__)) == source:
        return module
    spec = spec_from_file_location(f"{name}_plain", source)
    assert spec is not None
    assert spec.loader is not None
    plain = module_from_spec(spec)
    below = KERNELS[: KERNELS.index(name)] if name in KERNELS else KERNELS
    with mock.patch.dict(sys.modules, {kernel: plain_form(kernel) for kernel in below}):
        spec.loader.exec_module(plain)
    return plain
