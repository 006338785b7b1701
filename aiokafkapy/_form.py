"""Which form of the core runs: compiled, or the same modules interpreted.

The hot modules are compiled where a compiler was at hand when the package was built; each also exists as plain Python.
``AIOKAFKAPY_INTERPRETED=1`` in the environment, read once at import, makes the process use the plain form of all of
them: for debugging, for measuring, and so that both forms pass the same tests. It is all or nothing: compiled modules
know each other's memory layout, so a mixture could not work.

Most modules have one source, a ``.py`` with a ``.pxd`` beside it; a kernel has two, a ``.py`` and a ``.pyx`` of the
same name. ``compiled`` says which form runs. Nothing here knows the modules' work, and nothing else decides between the
forms. Java has no counterpart.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import EXTENSION_SUFFIXES, ModuleSpec, PathFinder
from types import ModuleType
from typing import Final, TypeVar

__all__ = [
    "INTERPRETED_VARIABLE",
    "InterpretedFinder",
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

_PACKAGE: Final = __name__.rpartition(".")[0]


class InterpretedFinder:
    """Finds the ``.py`` of a module of this package where an extension module beside it would be taken first."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The spec of the interpreted form, or None to leave the module to the ordinary finders."""
        if path is None or not fullname.startswith(f"{_PACKAGE}."):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.origin is None or not spec.origin.endswith(tuple(EXTENSION_SUFFIXES)):
            return None
        # Not needed where the core is compiled, and slower to import than this package.
        from importlib.util import spec_from_file_location
        from pathlib import Path

        source = Path(spec.origin).with_name(fullname.rpartition(".")[2] + ".py")
        return spec_from_file_location(fullname, source) if source.exists() else None


def install(environment: dict[str, str] | os._Environ[str]) -> bool:
    """Make later imports take the interpreted form if the environment asks for it; True if it does."""
    if environment.get(INTERPRETED_VARIABLE, "") in ("", "0"):
        return False
    if not any(isinstance(finder, InterpretedFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, InterpretedFinder())
    return True


def _is_compiled(part: str, module: str) -> bool:
    places = [f"{place}/{part}" for place in sys.modules[_PACKAGE].__path__]
    spec = PathFinder.find_spec(f"{_PACKAGE}.{part}.{module}", places)
    return spec is not None and str(spec.origin).endswith(tuple(EXTENSION_SUFFIXES))


compiled: Final[bool] = not install(os.environ) and _is_compiled("record", "builder")
"""True when the core runs compiled, False when interpreted (asked for, or not compiled at all)."""


# No-op stand-ins for Cython's decorators, for the interpreted form.


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
