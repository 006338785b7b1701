"""Selects the form of the core: compiled, or the same modules interpreted.

The hot modules are compiled if a compiler was at hand when the package was built; each also exists as plain Python.
``AIOKAFKAPY_INTERPRETED=1`` in the environment, read once at import, makes the process use the plain form of all of
them: for debugging, for measuring, and so that both forms pass the same tests. It is all or nothing: compiled modules
know each other's memory layout, so a mixture could not work.

Most modules have one source, a ``.py`` with a ``.pxd`` beside it; a kernel has two, a ``.py`` and a ``.pyx`` of the
same name. Compiled, all of them lie in one file, ``_core``, which knows their names; ``CoreFinder`` finds them there
before their ``.py`` is found. ``compiled`` says which form runs. Nothing here knows the modules' work, and nothing else
decides between the forms. Java has no counterpart.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.machinery import ExtensionFileLoader, ModuleSpec
from types import ModuleType
from typing import Final, TypeVar

__all__ = [
    "INTERPRETED_VARIABLE",
    "CoreFinder",
    "cclass",
    "compiled",
    "final",
    "freelist",
    "install",
    "locals",
    "no_gc",
]

INTERPRETED_VARIABLE: Final = "AIOKAFKAPY_INTERPRETED"

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., object])


class CoreFinder:
    """Finds the compiled form of the modules that are in one file, whose ``.py`` would be found otherwise."""

    def __init__(self, file: str, modules: Collection[str]) -> None:
        self.file = file
        self.modules = modules

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the compiled form, or None to leave the module to the ordinary finders."""
        if fullname not in self.modules:
            return None
        spec = ModuleSpec(fullname, ExtensionFileLoader(fullname, self.file), origin=self.file)
        spec.has_location = True  # as importlib.util would do, which is not imported just for that
        return spec


def install(environment: Mapping[str, str]) -> bool:
    """Make later imports take the compiled form, if there is one and the environment does not refuse it; True if so.

    Raises ImportError if the core is there and cannot be loaded, because it was built for another system.
    """
    if environment.get(INTERPRETED_VARIABLE, "") not in ("", "0"):
        return False
    try:
        core = importlib.import_module("._core", __package__)
    except ModuleNotFoundError:
        return False
    if not any(isinstance(finder, CoreFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, CoreFinder(str(core.__file__), core.modules))
    return True


compiled: Final[bool] = install(os.environ)
"""True when the core runs compiled, False when interpreted (asked for, or not compiled at all)."""


# stand-ins for Cython's decorators, without effect, for the interpreted form


def freelist(_size: int) -> Callable[[type[T]], type[T]]:
    """In place of ``cython.freelist``."""
    return cclass


def cclass(kind: type[T]) -> type[T]:
    """In place of ``cython.cclass``, ``cython.final`` and ``cython.no_gc``."""
    return kind


def locals(**_types: object) -> Callable[[F], F]:  # noqa: A001  # the name is Cython's
    """In place of ``cython.locals``, as a decorator."""
    return _as_it_is


def _as_it_is(function: F) -> F:
    return function


final = no_gc = cclass
