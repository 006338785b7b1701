"""The build of the compiled core; everything else about the package is in pyproject.toml.

The core is every ``.pyx`` in the package, and every ``.py`` with a ``.pxd`` beside it, which has its types. The core is
wanted, never needed: each module also runs interpreted, from its ``.py``. So without Cython, without a compiler
(``CC=/bin/false``), or when a module does not compile, the install still succeeds, and says so loudly on standard error
(``pip -v`` shows it; ``aiokafkapy.compiled`` tells afterwards).

The whole core is linked into one file, ``_core``, with the names of its modules in ``modules``, where ``_form`` finds
them. A file for each module costs a lone await on a real broker a tenth of its CPU: the code and data of forty files
are spread over pages of their own, which a processor has to look up anew after each wait. For the same reason the
functions that a lone record runs, ``hot_functions.txt``, lie beside one another in it, and cost another tenth less.
What only an error runs lies elsewhere.

Rule: all or nothing, for the modules cimport one another. When one does not compile, no core is left, nor an older one
beside the sources of an editable install. ``AIOKAFKAPY_NO_EXTENSIONS=1`` leaves the core uncompiled on purpose.

Beside it one module of the package is installed once more, at the top level, where Spark looks for data sources. An
editable install gets a copy too: Spark finds it by its file, and an editable install's import hook provides none.
"""

from __future__ import annotations

import os
import re
import sys
from multiprocessing.pool import ThreadPool
from pathlib import Path
from sysconfig import get_config_var

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.modified import newer_group

ROOT = Path(__file__).resolve().parent
BUILD = ROOT / "build" / "cython"
PACKAGE = "aiokafkapy"
CORE = f"{PACKAGE}._core"
HOT = ROOT / PACKAGE / "hot_functions.txt"
"""The C functions that a lone record runs: ``python -m benchmarks instructions --hot`` writes them."""
HOT_ATTRIBUTE, COLD_ATTRIBUTE = "__attribute__((hot)) ", "__attribute__((cold)) "
DECLARED = re.compile(r"^static [^;{}()]*?\b(?:(__pyx_\w+)|(__Pyx_AddTraceback|__Pyx_Raise\w*))\(", re.MULTILINE)
MAPPED = {"aiokafkapy/spark/_register/__init__.py": "pyspark_aiokafkapy/__init__.py"}
"""Modules that are installed at the top level too: source → place beside the package."""


DIRECTIVES = {
    "language_level": 3,
    # Types are in the ``.pxd`` alone: an annotation that says ``int`` means Python's, of any size.
    "annotation_typing": False,
    # ``record/builder.pyx``, ``deliveries/shortcuts.pyx`` and ``protocol/produce_*.py`` say what threads share.
    "freethreading_compatible": True,
}
"""The directives of every module."""
BYTE_KERNEL = {"boundscheck": False, "wraparound": False, "cdivision": True, "initializedcheck": False}
"""Loops over bytes check their bounds themselves."""
PLAIN_FUNCTIONS = {"binding": False}
"""Plain C functions, which a task calls faster."""
OWN_DIRECTIVES = {
    f"{PACKAGE}/record/arrow_rows.pyx": BYTE_KERNEL,
    f"{PACKAGE}/record/builder.pyx": BYTE_KERNEL,
    f"{PACKAGE}/record/record_columns.pyx": BYTE_KERNEL,
    f"{PACKAGE}/producer/deliveries/waiter.pyx": PLAIN_FUNCTIONS,
}
"""The directives that a module has beside those of every module."""


def core_sources() -> list[Path]:
    """Paths, relative to the project, of the modules that are compiled where possible."""
    kernels = set((ROOT / PACKAGE).rglob("*.pyx"))
    typed = {path.with_suffix(".py") for path in (ROOT / PACKAGE).rglob("*.pxd")}
    found = kernels | {path for path in typed if path.exists() and path.with_suffix(".pyx") not in kernels}
    return sorted(path.relative_to(ROOT) for path in found)


def core_extensions() -> list[Extension]:
    """The one extension, or none when the environment says so. Optional: a build goes on where it is withdrawn."""
    if os.environ.get("AIOKAFKAPY_NO_EXTENSIONS", "") not in ("", "0"):
        return []
    return [Extension(CORE, [path.as_posix() for path in core_sources()], optional=True)]


class BuildCore(build_ext):
    """``build_ext`` that yields the whole core or none of it, and never fails the install."""

    def build_extensions(self) -> None:
        try:
            (extension,) = self.extensions
            units = self._translate(extension.sources)
            with ThreadPool() as pool:
                extension.extra_objects = [one for objects in pool.map(self._compile, units) for one in objects]
            extension.sources = []
            self._remove(is_core_kept=True)
            linked = Path(self.get_ext_fullpath(CORE))
            linked.unlink(missing_ok=True)
            super().build_extensions()
            # An optional extension that does not link is only warned about: look for the file.
            reason = "" if linked.exists() else "not linked"
        except Exception as error:  # whatever a tool chain may raise, the interpreted form is still good
            reason = f"{type(error).__name__}: {error}"
        if reason:
            self._withdraw(reason)

    def _translate(self, sources: list[str]) -> list[str]:
        """Turn the sources into C, below build/, so that nothing is left beside them."""
        from Cython.Build import cythonize

        names = {".".join(Path(source).with_suffix("").parts): source for source in sources}
        text = f"modules = frozenset({sorted(names)})\n"
        BUILD.mkdir(parents=True, exist_ok=True)
        inventory = BUILD / f"{CORE.rpartition('.')[2]}.pyx"
        if not inventory.exists() or inventory.read_text() != text:
            inventory.write_text(text)
        names[CORE] = inventory.relative_to(ROOT).as_posix()
        made = []
        for own in ({}, BYTE_KERNEL, PLAIN_FUNCTIONS):
            made += cythonize(
                [Extension(name, [source]) for name, source in names.items() if OWN_DIRECTIVES.get(source, {}) == own],
                build_dir=str(BUILD),
                compiler_directives=DIRECTIVES | own,
                nthreads=os.cpu_count() or 1,
            )
        return [source for extension in made for source in extension.sources]

    def _compile(self, source: str) -> list[str]:
        """Compile one file, unless that was done; return its object."""
        made = self.compiler.object_filenames([source], output_dir=self.build_temp)
        if not self.force and not newer_group([source, __file__, HOT], made[0]):
            return made
        flags = []
        if self.compiler.compiler_type == "unix":
            self._mark(Path(source))
            # Outside loops over bytes the time goes into fetching code, so that less of it is faster. Some Pythons are
            # built with less, and all with -g, which makes the files five times as large.
            module = Path(source).resolve().relative_to(BUILD).with_suffix(".pyx").as_posix()
            flags = ["-O3" if OWN_DIRECTIVES.get(module) is BYTE_KERNEL else "-O2", "-g0"]
        return self.compiler.compile([source], output_dir=self.build_temp, extra_postargs=flags)

    @staticmethod
    def _mark(source: Path) -> None:
        """Give the functions of ``HOT``, and those that raise, attributes by which GCC and Clang put the code of the
        former together, and that which leads to the latter elsewhere.
        """
        text = source.read_text()
        bare = text.replace(HOT_ATTRIBUTE, "").replace(COLD_ATTRIBUTE, "")  # of an earlier list
        attributes = dict.fromkeys(HOT.read_text().split(), HOT_ATTRIBUTE)
        marked = DECLARED.sub(
            lambda found: (COLD_ATTRIBUTE if found[2] else attributes.get(found[1], "")) + found[0], bare
        )
        if marked != text:
            source.write_text(marked)

    def _remove(self, *, is_core_kept: bool) -> None:
        """Remove the files built for this Python: modules of an older core would be found beside their sources. The
        core itself may be an editable install's, while a wheel is built.
        """
        core = Path(self.get_ext_filename(CORE)).name
        for place in {Path(self.get_ext_fullpath(CORE)).parent, ROOT / PACKAGE}:
            for old in place.rglob(f"*{get_config_var('EXT_SUFFIX')}"):
                if old.name != core or not is_core_kept:
                    old.unlink()

    def _withdraw(self, reason: str) -> None:
        self._remove(is_core_kept=False)
        bar = "*" * 100
        print(
            f"{bar}\n{PACKAGE}: installing WITHOUT the compiled core: it works the same, but slower.\n{reason}\n{bar}",
            file=sys.stderr,
            flush=True,
        )


class BuildModules(build_py):
    """``build_py`` that also installs the modules of ``MAPPED``."""

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
