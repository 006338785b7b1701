"""The types beside a compiled module name the fields that its classes have: one truth, held in two files."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "aiokafkapy"
# A kernel has two sources, and keeps its data in other fields in each.
TYPED = sorted(
    path
    for path in PACKAGE.rglob("*.pxd")
    if path.with_suffix(".py").exists() and not path.with_suffix(".pyx").exists()
)

_CLASS = re.compile(r"^cdef class (\w+)(?:\((\w+)\))?:\n((?:(?:[ ]{4}.*)?\n)+)", re.MULTILINE)
_FIELD = re.compile(r"^    cdef (?:(?:readonly|public) )?(?:[\w.]+(?: [\w.]+)*? \*?)?(\w+(?:, \w+)*)$", re.MULTILINE)


def typed_fields(source: str) -> dict[str, set[str]]:
    """The fields of each class of a ``.pxd``."""
    found = {}
    for name, _, body in _CLASS.findall(source):
        found[name] = {field.strip() for names in _FIELD.findall(body) for field in names.split(",")}
    return found


def plain_fields(source: str) -> dict[str, set[str]]:
    """The fields of each class of a module: its slots or, where it has none, the attributes that its ``__init__``
    sets.
    """
    found = {}
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            fields = _slots(node)
            found[node.name] = _set_by_init(node) if fields is None else fields
    return found


def _slots(node: ast.ClassDef) -> set[str] | None:
    for statement in node.body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__slots__":
            value = ast.literal_eval(statement.value)
            return {value} if isinstance(value, str) else set(value)
    return None


def _set_by_init(node: ast.ClassDef) -> set[str]:
    return {
        target.attr
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
        for target in ast.walk(method)
        if isinstance(target, ast.Attribute)
        and isinstance(target.ctx, ast.Store)
        and isinstance(target.value, ast.Name)
        and target.value.id == "self"
    }


@pytest.mark.parametrize("path", TYPED, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_compiled_class_has_the_fields_of_its_plain_form(path: Path) -> None:
    plain = plain_fields(path.with_suffix(".py").read_text())
    for name, fields in typed_fields(path.read_text()).items():
        assert fields == plain[name], name


def test_fields_are_found() -> None:
    source = "cdef class Batch:\n    # Why.\n    cdef readonly long order\n    cdef object a, b\n\n    cpdef f(self)\n"
    assert typed_fields(source) == {"Batch": {"order", "a", "b"}}
