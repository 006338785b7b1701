"""The build of the compiled core; everything else about the package is in pyproject.toml.

The core is every `.pyx` in the package, and every `.py` with a `.pxd` beside it, which has its types. It is wanted,
never needed: each module also runs interpreted, from its `.py`. So without Cython, without a compiler
(`CC=/bin/false`), or when a module does not compile, the install still succeeds, and says so loudly on standard error
(`pip -v` shows it; `aiokafkapy.compiled` tells afterwards).

Rule: all or nothing. The compiled modules cimport one another, so a half-built core would fail at import; when one
module fails, those already built are withdrawn, and so are older ones beside the sources of an editable install.
`AIOKAFKAPY_NO_EXTENSIONS=1` leaves the core uncompiled on purpose.

One extension for each module, not a few large ones. Measured with all objects linked into one, 51 modules on 2 cores:
importing them all takes at best 19 ms of 524 less, within what runs differ by, and the process 1.4 MB of 56 less; a
build, which is 200 s of CPU, saves the links, 2.5 s. What the compiler needs for a module whatever is in it, 0.9 s,
would only go with the sources merged: then modules mirror the rooms no longer, and each change compiles all of them.

Beside it one module of the package is installed once more, at the top level, where Spark looks for data sources. An
editable install gets a copy too: it is found by its file, which the import hook for a package mapped elsewhere has not.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py

ROOT = Path(__file__).resolve().parent
PACKAGE = "aiokafkapy"
MAPPED = {"aiokafkapy/spark/_register/__init__.py": "pyspark_aiokafkapy/__init__.py"}
"""Modules that are installed at the top level too: source → its place beside the package."""


DIRECTIVES = {
    "language_level": 3,
    # Types are in the `.pxd` alone: an annotation that says `int` means Python's, of any size.
    "annotation_typing": False,
    # What threads share is in `record/builder.pyx`, `deliveries/shortcuts.pyx` and `protocol/produce_*.py`: see there.
    "freethreading_compatible": True,
}
"""What Cython is told of every module; a byte kernel says in its `.pyx` what it leaves unchecked beside that."""


def core_sources() -> list[Path]:
    """Paths, relative to the project, of the modules that are compiled where possible."""
    kernels = set((ROOT / PACKAGE).rglob("*.pyx"))
    typed = {path.with_suffix(".py") for path in (ROOT / PACKAGE).rglob("*.pxd")}
    found = kernels | {path for path in typed if path.exists() and path.with_suffix(".pyx") not in kernels}
    return sorted(path.relative_to(ROOT) for path in found)


def core_extensions() -> list[Extension]:
    """One optional extension per core module; none when the environment says so."""
    if os.environ.get("AIOKAFKAPY_NO_EXTENSIONS", "") not in ("", "0"):
        return []
    return [
        Extension(".".join(path.with_suffix("").parts), [path.as_posix()], optional=True) for path in core_sources()
    ]


class BuildCore(build_ext):
    """`build_ext` that yields the whole core or none of it, and never fails the install."""

    def build_extensions(self) -> None:
        self.parallel = os.cpu_count()
        try:
            self._translate()
            for extension in self.extensions:
                self._output(extension).unlink(missing_ok=True)
                if self.compiler.compiler_type == "unix":
                    # Some Pythons are built with less, and all with -g, which makes the files five times as large.
                    extension.extra_compile_args = ["-O3", "-g0"]
            super().build_extensions()
            # An optional extension that does not compile is only warned about: look at what is there.
            missing = [extension.name for extension in self.extensions if not self._output(extension).exists()]
            reason = f"not compiled: {', '.join(missing)}" if missing else ""
        except Exception as error:  # whatever a tool chain may raise, the interpreted form is still good
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self._withdraw(reason)

    def _translate(self) -> None:
        """Turn the sources into C, below build/, so that nothing is left beside them."""
        from Cython.Build import cythonize

        originals = {extension.name: extension for extension in self.extensions}
        plain = [Extension(name, list(extension.sources)) for name, extension in originals.items()]
        for translated in cythonize(
            plain,
            build_dir=str(ROOT / "build" / "cython"),
            compiler_directives=DIRECTIVES,
            nthreads=os.cpu_count() or 1,
        ):
            originals[translated.name].sources = translated.sources

    def _withdraw(self, reason: str) -> None:
        for extension in self.extensions:
            self._output(extension).unlink(missing_ok=True)
            (ROOT / self.get_ext_filename(extension.name)).unlink(missing_ok=True)
        bar = "*" * 100
        print(
            f"{bar}\n{PACKAGE}: installing WITHOUT the compiled core: it works the same, but slower.\n{reason}\n{bar}",
            file=sys.stderr,
            flush=True,
        )

    def _output(self, extension: Extension) -> Path:
        return Path(self.get_ext_fullpath(extension.name))


class BuildModules(build_py):
    """`build_py` that also installs what is `MAPPED`."""

    def run(self) -> None:
        super().run()
        for source, target in self._mapped():
            self.mkpath(str(target.parent))
            self.copy_file(str(ROOT / source), str(target))

    def get_outputs(self, include_bytecode: bool = True) -> list[str]:
        return [*super().get_outputs(include_bytecode), *(str(target) for _, target in self._mapped())]

    def _mapped(self) -> list[tuple[str, Path]]:
        # The modules of an editable install stay where they are; its wheel is filled directly.
        folder = self.get_finalized_command("install").install_lib if self.editable_mode else self.build_lib
        return [(source, Path(folder, target)) for source, target in MAPPED.items()]


setup(ext_modules=core_extensions(), cmdclass={"build_ext": BuildCore, "build_py": BuildModules})
