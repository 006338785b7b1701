"""Finds the lines of source code that change when a program moves over, by its syntax tree; nothing is run, nothing is
written.

Owns the patterns: imports and constructors of other clients' producers, their options, calls on objects that were
constructed, imports of their errors, and Spark's ``format("kafka")`` with the options beside it. The words are
``libraries``'s and Spark's own.

Rules:

- A producer is known by the name that it was assigned to, as a variable or an attribute, anywhere in the file, or by an
  annotation. An object that is handed on under another name is not followed, so a line that is not listed may have to
  change all the same.
- A file that is not Python, or cannot be read, is a finding of its own: the others are still looked at.
"""

from __future__ import annotations

import ast
import difflib
import errno
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from .. import errors
from ..spark.options import JAVA_ONLY
from ..spark.sink.sink_options import REFUSED as REFUSED_TO_WRITE
from ..spark.source.source_options import REFUSED as REFUSED_TO_READ
from .libraries import LIBRARIES, Library, option_advice

__all__ = ["Change", "changes_by_file", "changes_in"]

_PASSED_OVER: Final = frozenset({"__pycache__", "node_modules", "site-packages", "build", "dist"})
_CONNECTOR: Final = re.compile(r"spark-(sql|streaming)-kafka-0-10")
_REFUSED_BY_SPARK: Final[Mapping[str, str]] = {**REFUSED_TO_READ, **REFUSED_TO_WRITE, **JAVA_ONLY}
_SPARK_FORMAT: Final = 'write format("aiokafkapy"); options keep their names'
_SPARK_JAR: Final = "leave the connector's jar out: pip install 'aiokafkapy[spark]', on driver and executors"


class Change(NamedTuple):
    """A line that changes: its text, and the replacement."""

    path: str
    line: int
    found: str
    advice: str


def changes_by_file(paths: Iterable[Path]) -> Iterator[list[Change]]:
    """The changes in each of these files, and in each ``.py`` file below these folders, in order; an empty list for a
    file without one. Environments, caches and hidden folders are passed over, and so is anything that is not a file,
    such as a broken link.
    """
    for path in paths:
        for file in _files(path):
            try:
                if not stat.S_ISREG(file.stat().st_mode):  # a pipe, which reading would wait for
                    raise OSError(errno.EINVAL, "it is not a regular file")
                source = file.read_bytes()
            except OSError as error:
                yield [Change(str(file), 1, "it cannot be read", f"look at it by hand ({error.strerror})")]
            else:
                yield changes_in(source, str(file))


def changes_in(source: str | bytes, path: str = "<source>") -> list[Change]:
    """The changes of one program, by its lines."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the program's own escapes
            found = set(_Program(ast.parse(source)).changes())
    except (
        SyntaxError,
        ValueError,
        RecursionError,
        MemoryError,
    ) as error:  # the last two: expressions that are too deep
        line = getattr(error, "lineno", None) or 1
        why = str(error) or "its expressions are too deep"
        return [Change(path, line, "not Python that this version can read", f"look at it by hand ({why})")]
    return [Change(path, *one) for one in sorted(found)]


# internals


_Found = tuple[int, str, str]


def _files(path: Path) -> Iterator[Path]:
    if not path.is_dir():
        yield path
        return
    for folder, folders, files in os.walk(path):
        folders[:] = sorted(
            name
            for name in folders
            if name not in _PASSED_OVER and not name.startswith(".") and not (Path(folder, name, "pyvenv.cfg")).exists()
        )
        found = (Path(folder, name) for name in sorted(files) if name.endswith(".py"))
        yield from (file for file in found if file.is_file())  # not a pipe, which reading would wait for


class _Program:
    """One program's tree, with the names that it gives to imports and to objects it constructs."""

    def __init__(self, tree: ast.Module) -> None:
        self._nodes = list(ast.walk(tree))
        self._imported = dict(self._imports())
        self._dictionaries: dict[str, list[ast.Dict]] = {}
        for node in sorted((one for one in self._nodes if isinstance(one, ast.Assign)), key=_position):
            for target in node.targets:
                if isinstance(target, ast.Name) and isinstance(node.value, ast.Dict):
                    self._dictionaries.setdefault(target.id, []).append(node.value)
        self._producers = dict(self._named_producers())

    def changes(self) -> Iterator[_Found]:
        """Everything that is found, in no order."""
        for node in self._nodes:
            if isinstance(node, ast.ImportFrom):
                yield from self._of_import(node)
            elif isinstance(node, ast.Call):
                yield from self._of_call(node)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                jar = _CONNECTOR.search(node.value)
                if jar is not None:
                    yield node.lineno, jar[0], _SPARK_JAR

    # names

    def _imports(self) -> Iterator[tuple[str, str]]:
        """The full name behind each imported name."""
        for node in self._nodes:
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield (alias.asname, alias.name) if alias.asname else ((alias.name.partition(".")[0],) * 2)
            elif isinstance(node, ast.ImportFrom) and not node.level:
                for alias in node.names:
                    yield alias.asname or alias.name, f"{node.module}.{alias.name}"

    def _full_name(self, node: ast.expr | None) -> str:
        """``aiokafka.AIOKafkaProducer`` of an expression that names it, imported in any way."""
        if isinstance(node, ast.Subscript):
            return self._full_name(node.value)
        if isinstance(node, ast.Attribute):
            return f"{self._full_name(node.value)}.{node.attr}"
        return self._imported.get(node.id, node.id) if isinstance(node, ast.Name) else ""

    def _library_of(self, node: ast.expr | None) -> Library | None:
        name = self._full_name(node)
        return next((library for library in LIBRARIES if name in library.producers), None)

    def _named_producers(self) -> Iterator[tuple[str, Library]]:
        """Variables and attributes that hold a producer, by their last name."""
        for node in self._nodes:
            targets: list[ast.expr] = []
            value: ast.expr | None = None
            annotation: ast.expr | None = None
            if isinstance(node, ast.Assign):
                targets, value = node.targets, node.value
            elif isinstance(node, ast.AnnAssign):
                targets, value, annotation = [node.target], node.value, node.annotation
            elif isinstance(node, ast.NamedExpr):
                targets, value = [node.target], node.value
            elif isinstance(node, ast.withitem) and node.optional_vars is not None:
                targets, value = [node.optional_vars], node.context_expr
            elif isinstance(node, ast.arg):
                library = self._annotated(node.annotation)
                if library is not None:
                    yield node.arg, library
            library = self._library_of(value.func) if isinstance(value, ast.Call) else None
            library = library or self._annotated(annotation)
            if library is not None:
                yield from ((_last_name(target), library) for target in targets)

    def _annotated(self, annotation: ast.expr | None) -> Library | None:
        """The library of an annotation that names a producer, also as ``Producer | None`` or ``Optional[Producer]``."""
        written = _text(annotation) if annotation is not None else None
        if written is not None:
            try:
                annotation = ast.parse(written, mode="eval").body
            except SyntaxError:
                return None
        parts = [] if annotation is None else [node for node in ast.walk(annotation) if isinstance(node, ast.expr)]
        return next((library for part in parts if (library := self._library_of(part)) is not None), None)

    # changes

    def _of_import(self, node: ast.ImportFrom) -> Iterator[_Found]:
        if node.level:
            return
        for alias in node.names:
            library = next((one for one in LIBRARIES if f"{node.module}.{alias.name}" in one.producers), None)
            if library is not None:
                yield node.lineno, f"from {node.module} import {alias.name}", "from aiokafkapy import KafkaProducer"
            if any(node.module in one.errors for one in LIBRARIES):
                yield node.lineno, f"from {node.module} import {alias.name}", _error_advice(alias.name)

    def _of_call(self, call: ast.Call) -> Iterator[_Found]:
        library = self._library_of(call.func)
        if library is not None:
            yield call.lineno, f"{_last_name(call.func)}(…)", library.constructor
            for line, name in self._options(call, library):
                advice = option_advice(library, name)
                if advice is not None:
                    yield line, f"option {name}", advice
        if isinstance(call.func, ast.Attribute):
            owner = self._producers.get(_last_name(call.func.value))
            if owner is not None:
                yield from _of_method(call, call.func, owner)
            is_text = isinstance(call.func.value, ast.Constant | ast.JoinedStr)  # whose format() is its own
            if call.func.attr == "format" and not is_text and [_text(one) for one in call.args] == ["kafka"]:
                yield call.func.end_lineno or call.lineno, 'format("kafka")', _SPARK_FORMAT
            if call.func.attr in ("option", "options"):
                yield from self._of_spark_options(call)

    def _options(self, call: ast.Call, library: Library) -> Iterator[tuple[int, str]]:
        """The options of a constructor, with their lines: keywords, and a dictionary if the constructor takes one."""
        for keyword in call.keywords:
            if keyword.arg is not None and not (library.takes_properties and keyword.arg in ("logger", "loop")):
                yield keyword.value.lineno, keyword.arg
        starred = [keyword.value for keyword in call.keywords if keyword.arg is None]
        for given in [*starred, *(call.args[:1] if library.takes_properties else ())]:
            yield from self._keys(given)

    def _keys(self, node: ast.expr) -> Iterator[tuple[int, str]]:
        """The keys of a dictionary that the expression is, or names; also the keys of dictionaries that it takes in by
        name, each once: ``conf = {**conf, …}`` has the keys of the earlier ``conf``.
        """
        seen: list[ast.Dict] = []
        waiting: list[tuple[ast.expr, ast.Dict | None]] = [(node, None)]
        while waiting:
            given, taker = waiting.pop()
            dictionary = self._assigned(given.id, taker) if isinstance(given, ast.Name) else given
            if not isinstance(dictionary, ast.Dict) or dictionary in seen:
                continue
            seen.append(dictionary)
            for key, value in zip(dictionary.keys, dictionary.values, strict=True):
                if key is None:
                    waiting.append((value, dictionary))
                elif (name := _text(key)) is not None:
                    yield key.lineno, name

    def _assigned(self, name: str, taker: ast.Dict | None) -> ast.Dict | None:
        """The last dictionary of this name; if ``taker`` takes it in, the last before ``taker``, if there is one."""
        found = self._dictionaries.get(name, [])
        earlier = [one for one in found if taker is not None and _position(one) < _position(taker)]
        return next(reversed(earlier or found), None)

    def _of_spark_options(self, call: ast.Call) -> Iterator[_Found]:
        """Options that are refused beside ``format("kafka")``, whether it reads or writes."""
        assert isinstance(call.func, ast.Attribute)
        given: list[tuple[int, str]] = []
        if call.args and (name := _text(call.args[0])) is not None:
            given.append((call.args[0].lineno, name))
        for keyword in call.keywords:
            given += self._keys(keyword.value) if keyword.arg is None else []
        for line, name in given:
            plain = name.lower().removeprefix("kafka.")
            instead = _REFUSED_BY_SPARK.get(plain)
            if name.lower().startswith("kafka.") and instead is not None:
                yield line, f"option {name}", f"it is refused; expected is {instead}"


def _of_method(call: ast.Call, method: ast.Attribute, library: Library) -> Iterator[_Found]:
    line = method.end_lineno or call.lineno
    advice = library.calls.get(method.attr)
    if advice is not None:
        yield line, f".{method.attr}(…)", advice
    for keyword in call.keywords:
        if keyword.arg is not None and keyword.arg in library.arguments:
            yield keyword.value.lineno, f"argument {keyword.arg}", library.arguments[keyword.arg]


def _error_advice(name: str) -> str:
    known = [one for one in dir(errors) if one.endswith("Error")]
    if name in known:
        return f"from aiokafkapy.errors import {name}, for the producer's errors"
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.6)
    return "the producer raises those of aiokafkapy.errors" + (f": {near[0]}?" if near else "")


def _position(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _last_name(node: ast.expr) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.expr) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
