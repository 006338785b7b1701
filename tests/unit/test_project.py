"""Rules that hold for the whole tree: linters, types, layers, public names, and the cost of importing."""

from __future__ import annotations

import ast
import functools
import gc
import importlib
import inspect
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

import aiokafkapy
import aiokafkapy.testing

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "aiokafkapy"
SCRIPTS = Path(sysconfig.get_path("scripts"))

# Modules that neither ``import aiokafkapy`` nor making a producer loads.
NOT_IMPORTED = (
    "aiohttp",
    "aiokafkapy.broker",
    "aiokafkapy.cli",
    "aiokafkapy.console",
    "aiokafkapy.integrations",
    "aiokafkapy.producer.spool",
    "aiokafkapy.reader",
    "aiokafkapy.spark",
    "aiokafkapy.testing",
    "aiokafkapy.typed",
    "cramjam",
    "crc32c",
    "fastapi",
    "litestar",
    "fastavro",
    "google.protobuf",
    "httpx",
    "jsonschema",
    "opentelemetry",
    "prometheus_client",
    "pyarrow",
    "pyspark",
    "rich",
    "sqlalchemy",
    "starlette",
    "structlog",
    "typer",
    "uvicorn",
    "uvloop",
)

PUBLIC_NAMES = {
    "BlockingProducer",
    "BytesWithHeaders",
    "CircuitBreaker",
    "ConsumedRecord",
    "DefaultPartitioner",
    "Delivery",
    "Headers",
    "KafkaProducer",
    "Node",
    "Observer",
    "PartitionInfo",
    "PartitionMetadata",
    "Partitioner",
    "PreparedTxnState",
    "ProducerConfig",
    "ProducerHealth",
    "ProducerInterceptor",
    "ProducerRecord",
    "ProducerStatistics",
    "RecordMetadata",
    "RoundRobinPartitioner",
    "Serializer",
    "TableMetadata",
    "TopicOptions",
    "TopicPartition",
    "compiled",
    "deadline",
    "errors",
    "json_serializer",
    "raise_all",
    "string_serializer",
}


@pytest.fixture(scope="module", autouse=True)
def _trees_are_let_go() -> Iterator[None]:
    """The trees have millions of nodes, and each garbage collection of a later test would take seconds for them."""
    gc.disable()
    yield
    _parsed.cache_clear()
    gc.enable()


def _check(*command: str, **variables: str) -> None:
    environment = os.environ | variables
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"


def _sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), _parsed(path)


@functools.cache
def _parsed(path: Path) -> ast.Module:
    # Many tests look at all of the thousand files.
    return ast.parse(path.read_text())


def test_ruff_finds_nothing_and_would_format_nothing_otherwise() -> None:
    _check(str(SCRIPTS / "ruff"), "check", "--quiet", ".")
    _check(str(SCRIPTS / "ruff"), "format", "--check", "--quiet", ".")


def test_imports_keep_to_the_layers() -> None:
    _check(str(SCRIPTS / "lint-imports"))


NO_CLAIM = {
    "aiokafkapy/integrations/asgi.py",  # pure ASGI: no framework
}


def test_a_module_that_is_pure_by_its_own_words_is_in_a_contract() -> None:
    """``Pure``, with a capital, begins a module's claim of itself; ``a pure function`` is said of a part."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    held = {
        module
        for contract in contracts
        if {"asyncio", "time"} <= set(contract.get("forbidden_modules", ()))
        for module in contract["source_modules"]
    }
    claimed = {
        name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") + "."
        for name, tree in _sources("aiokafkapy")
        if re.search(r"\bPure\b", ast.get_docstring(tree) or "")
    }
    free = {name for name, module in claimed.items() if not any(module.startswith(f"{room}.") for room in held)}
    assert free == NO_CLAIM


# Spark installs it at the top level; the job's function is pickled and imports in an executor.
MAY_IMPORT_BY_FULL_NAME = {"aiokafkapy/spark/_register/__init__.py", "aiokafkapy/demo/pipeline/job.py"}


def test_the_package_imports_its_own_modules_relatively() -> None:
    absolute = [
        f"{name}:{node.lineno}"
        for name, tree in _sources("aiokafkapy")
        if name not in MAY_IMPORT_BY_FULL_NAME
        for node in _statements(tree)
        if isinstance(node, ast.stmt) and any(module.partition(".")[0] == "aiokafkapy" for module in _imported(node))
    ]
    assert absolute == []


def _imported(node: ast.stmt) -> list[str]:
    """The modules that a statement imports by their full names."""
    if isinstance(node, ast.ImportFrom):
        return [node.module or ""] if node.level == 0 else []
    return [alias.name for alias in node.names] if isinstance(node, ast.Import) else []


def test_the_public_names_are_these() -> None:
    assert set(aiokafkapy.__all__) == PUBLIC_NAMES
    for name in PUBLIC_NAMES:
        assert getattr(aiokafkapy, name) is not None
    assert set(dir(aiokafkapy)) >= PUBLIC_NAMES
    with pytest.raises(AttributeError, match="nonsense"):
        aiokafkapy.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_names_of_the_edges_are_where_the_documents_say() -> None:
    for module, names in {
        "aiokafkapy.admin": ["Doctor", "TopicAdmin"],
        "aiokafkapy.broker": ["DevBroker", "FaultSchedule"],
        "aiokafkapy.console": ["Console"],
        "aiokafkapy.integrations.aiohttp": ["PRODUCER", "setup_kafka"],
        "aiokafkapy.integrations.fastapi": ["ProducerDep", "health_router", "kafka_lifespan"],
        "aiokafkapy.integrations.schema_registry": ["AvroSerializer", "JsonSchemaSerializer", "SchemaRegistryClient"],
        "aiokafkapy.integrations.outbox": ["Outbox", "OutboxRelay", "outbox_table"],
        "aiokafkapy.reader": ["PartitionReader", "ReaderConfig"],
        "aiokafkapy.spark": ["KafkaDataSource", "OptionError"],
        "aiokafkapy.testing": [
            "ApacheKafka",
            "FaultProxy",
            "KafkaSecurity",
            "MockProducer",
            "TestCertificates",
            "VirtualClock",
            "assert_produced",
        ],
        "aiokafkapy.testing.schema_registry": ["SchemaRegistry"],
        "aiokafkapy.testing.fault_proxy": ["Answer", "FaultProxy", "Hold", "Request", "SentBatch"],
        "aiokafkapy.typed": ["CloudEvents", "DeadLetters", "Topic"],
    }.items():
        for name in names:
            assert hasattr(importlib.import_module(module), name), f"{module}.{name}"


def test_every_public_call_of_the_package_documents_its_promises() -> None:
    for name in PUBLIC_NAMES - {"Headers", "Serializer", "compiled", "errors"}:  # types and values have no docstring
        public = getattr(aiokafkapy, name)
        assert inspect.getdoc(public), name
        if inspect.isclass(public):
            for attribute, value in vars(public).items():
                if not attribute.startswith("_") and inspect.isfunction(value):
                    assert inspect.getdoc(value), f"{name}.{attribute}"


def test_every_module_documents_its_purpose() -> None:
    silent = [name for name, tree in _sources("aiokafkapy") if not ast.get_docstring(tree)]
    assert silent == []


OF_NO_MODULE = {
    # of several modules together
    "broker/handlers/test_error_responses.py",
    "broker/handlers/test_rights.py",
    "broker/handlers/test_group_members.py",
    "broker/storage/test_kill_at_any_byte.py",
    "cli/test_commands.py",
    "client/test_network_client_invariants.py",
    "producer/accumulator/test_append_rows.py",
    # the bytes of both forms of a module whose other test is of its names
    "record/test_builder_bytes.py",
    # of the whole package, and of the tests themselves
    "test_chains.py",
    "test_shared.py",
    "test_compiled_types.py",
    "test_edges.py",
    "test_sharing.py",
    "test_form.py",
    "test_project.py",
    "test_public_api.py",
}


def test_a_unit_test_lies_where_its_module_does() -> None:
    modules = {
        folder: [path.relative_to(folder) for path in folder.rglob("*.py")] for folder in (PACKAGE, ROOT / "benchmarks")
    }
    astray = set()
    for path in (ROOT / "tests" / "unit").rglob("test_*.py"):
        place = path.relative_to(ROOT / "tests" / "unit")
        folder = ROOT / "benchmarks" if place.parts[0] == "benchmarks" else PACKAGE
        room = place.parent.relative_to("benchmarks") if folder != PACKAGE else place.parent
        module = path.name.removeprefix("test_").removesuffix(".py")
        if (
            not any(found.stem == module and found.is_relative_to(room) for found in modules[folder])
            and not (folder / room / module).is_dir()
        ):
            astray.add(place.as_posix())
    assert astray == OF_NO_MODULE


# One class for each of Kafka's codes; the face of the producer, whose methods are a call and its promises.
MAY_BE_LONG = ("aiokafkapy/errors/", "aiokafkapy/producer/producer.py")


@pytest.mark.parametrize(("folder", "most"), [("aiokafkapy", 700), ("tests", 900)])
def test_modules_stay_short(folder: str, most: int) -> None:
    """500 lines are the hint to look for a second idea in a module. One that has none may breathe up to the limit."""
    lengths = {name: len((ROOT / name).read_text().splitlines()) for name, _ in _sources(folder)}
    assert {name: lines for name, lines in lengths.items() if lines > most and not name.startswith(MAY_BE_LONG)} == {}


def test_functions_stay_short() -> None:
    """The count is from ``def`` to the last line, parameters too: commands with many options give their types names."""
    long = []
    for name, tree in _sources("aiokafkapy", "benchmarks", "examples", "tests"):
        for node in _statements(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or node.lineno) - node.lineno + 1
                if lines > 60:
                    long.append(f"{name}:{node.lineno} {node.name}: {lines} lines")
    assert long == []


def _statements(block: ast.AST) -> Iterator[ast.AST]:
    """All within a block: a fifth of the nodes that ``ast.walk`` finds."""
    for node in ast.iter_child_nodes(block):
        if not isinstance(node, ast.expr):
            yield node
            yield from _statements(node)


# Handed over as callbacks, whose callers give no names; calls of Spark's and of Kerberos' library; ``flexible`` and the
# like of the codecs, where a name costs.
MAY_BE_POSITIONAL = {
    "aiokafkapy/broker/handlers/alter_configs.py": {"_replace"},
    "aiokafkapy/broker/handlers/incremental_alter_configs.py": {"_alter_broker", "_change"},
    "aiokafkapy/client/tap/redaction.py": {"_cover_part", "_zeros"},
    "aiokafkapy/integrations/schema_registry/subjects.py": {
        "record_name_strategy",
        "topic_name_strategy",
        "topic_record_name_strategy",
    },
    "aiokafkapy/record/arrow_rows.py": {"__init__"},
    "aiokafkapy/security/sasl/gssapi.py": {"wrap"},
    "aiokafkapy/spark/data_source.py": {"streamWriter", "writer"},
    "aiokafkapy/testing/recording/hiding.py": {"_digest"},
}


def test_a_boolean_after_other_arguments_is_given_by_name() -> None:
    """``f(x, True)`` says nothing to a reader of the call. C code calls the functions of a .pxd by position."""
    found = []
    for name, tree in _sources("aiokafkapy"):
        if name.startswith("aiokafkapy/protocol/"):
            continue
        declarations = (ROOT / name).with_suffix(".pxd")
        called_by_c = set(re.findall(r"(\w+)\(", declarations.read_text())) if declarations.exists() else set()
        free = called_by_c | MAY_BE_POSITIONAL.get(name, set())
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name not in free:
                given = [arg for arg in node.args.posonlyargs + node.args.args if arg.arg not in ("self", "cls")]
                found += [
                    f"{name}:{node.lineno} {node.name}: {arg.arg}"
                    for arg in given[1:]
                    if isinstance(arg.annotation, ast.Name) and arg.annotation.id == "bool"
                ]
    assert found == []


def test_no_test_module_is_a_library_of_another() -> None:
    """Code that several of them need lies in a module of its own, which is not a test."""
    imports = [
        f"{name}: {module}"
        for name, tree in _sources("tests")
        for node in ast.walk(tree)
        for module in _imported_modules(node)
        if module.rpartition(".")[2].startswith("test_") and module != "aiohttp.test_utils"
    ]
    assert imports == []


def _imported_modules(node: ast.AST) -> list[str]:
    """Modules, and names that may be modules."""
    if isinstance(node, ast.Import):
        return [each.name for each in node.names]
    if isinstance(node, ast.ImportFrom):
        return [node.module or "", *(f"{node.module or ''}.{each.name}" for each in node.names)]
    return []


def test_no_unit_test_waits_by_sleeping() -> None:
    sleeping = [
        f"{name}:{call.lineno}"
        for name, tree in _sources("tests/unit")
        for call in ast.walk(tree)
        if isinstance(call, ast.Call)
        and (call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")) == "sleep"
        # sleep(0) is a turn of the loop.
        and not (call.args and isinstance(call.args[0], ast.Constant) and call.args[0].value == 0)
    ]
    assert sleeping == []


def test_importing_the_package_imports_no_edge_and_no_extra() -> None:
    program = (
        "import sys, aiokafkapy\n"
        "aiokafkapy.KafkaProducer('localhost:1')\n"
        "print(*(name for name in sys.argv[1:] if name in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program, *NOT_IMPORTED], capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_spark_imports_little_in_every_session() -> None:
    program = (
        "import sys, pyspark.sql.datasource\n"
        "known = set(sys.modules)\n"
        "import aiokafkapy.spark._register\n"
        "print(*sorted(set(sys.modules) - known))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    heavy = {"asyncio", "pydantic", "pyarrow", "aiokafkapy.client", "aiokafkapy.producer", "aiokafkapy.reader"}
    assert heavy & set(done.stdout.split()) == set()


def test_the_pytest_plugin_imports_nothing_of_ours() -> None:
    program = (
        "import sys, aiokafkapy.testing.pytest_plugin\n"
        "print(*(name for name in sys.modules if name.startswith('aiokafkapy.')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    parts = {name.split(".")[1] for name in done.stdout.split()}
    assert parts & {"broker", "cli", "client", "producer", "protocol"} == set()


def test_the_testing_names_are_looked_up_when_used() -> None:
    assert dir(aiokafkapy.testing) == sorted(aiokafkapy.testing.__all__)
    for name in aiokafkapy.testing.__all__:
        assert getattr(aiokafkapy.testing, name).__name__ == name
    with pytest.raises(AttributeError, match="nonsense"):
        aiokafkapy.testing.nonsense  # type: ignore[attr-defined]  # noqa: B018


def test_the_compiled_core_is_not_older_than_its_sources() -> None:
    """An extension in the tree shadows the ``.py`` beside it: an old one would be tested instead of the source."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    stale = []
    for extension in PACKAGE.rglob(f"*{suffix}"):
        stem = extension.with_name(extension.name.removesuffix(suffix))
        sources = [path for end in (".py", ".pyx", ".pxd") if (path := stem.with_suffix(end)).exists()]
        if any(path.stat().st_mtime > extension.stat().st_mtime for path in sources):
            stale.append(str(extension.relative_to(ROOT)))
    assert stale == [], "run `make set-up`"


def test_the_version_is_said_once_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["version"] == aiokafkapy.__version__
    assert f"## {project['version']}" in (ROOT / "CHANGELOG.md").read_text()


RELEASES = "aiokafkapy/broker/emulation/releases.json"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "editable"])
def test_a_wheel_has_the_module_where_spark_looks_for_data_sources(kind: str, tmp_path: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path)
    shutil.copytree(PACKAGE, tmp_path / PACKAGE.name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    program = f"from setuptools import build_meta; build_meta.build_{kind}('out')"
    subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env=os.environ | {"AIOKAFKAPY_NO_EXTENSIONS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    (path,) = (tmp_path / "out").glob("*.whl")
    with zipfile.ZipFile(path) as wheel:
        (record,) = (name for name in wheel.namelist() if name.endswith("/RECORD"))
        source = (PACKAGE / "spark" / "_register" / "__init__.py").read_bytes()
        assert wheel.read("pyspark_aiokafkapy/__init__.py") == source
        assert b"\npyspark_aiokafkapy/__init__.py,sha256=" in b"\n" + wheel.read(record)
        pages = {f"aiokafkapy/console/static/{page.name}" for page in (PACKAGE / "console" / "static").iterdir()}
        pages.add(RELEASES)
        assert "aiokafkapy/console/static/index.html" in pages
        assert kind == "editable" or pages <= set(wheel.namelist())
        # An editable install is a line in one file: Spark lists files, and would not find the modules of an import
        # hook.
        assert any(name.endswith(".pth") for name in wheel.namelist()) == (kind == "editable")


@pytest.mark.slow
def test_the_source_distribution_has_every_file_of_the_examples_and_of_the_console(tmp_path: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "MANIFEST.in"):
        shutil.copy(ROOT / name, tmp_path)
    for folder in (PACKAGE, ROOT / "examples"):
        shutil.copytree(folder, tmp_path / folder.name, ignore=shutil.ignore_patterns("*.so", "__pycache__", ".*"))
    program = "from setuptools import build_meta; build_meta.build_sdist('out')"
    subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=True)
    (path,) = (tmp_path / "out").glob("*.tar.gz")
    with tarfile.open(path) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    examples = {str(file.relative_to(tmp_path)) for file in (tmp_path / "examples").rglob("*") if file.is_file()}
    assert "examples/grafana/alerts.yml" in examples
    assert examples <= packed
    pages = {str(file.relative_to(ROOT)) for file in (PACKAGE / "console" / "static").iterdir()}
    assert "aiokafkapy/console/static/console.js" in pages
    assert pages | {RELEASES, "aiokafkapy/hot_functions.txt"} <= packed


def test_dependencies_have_lower_bounds_only() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    groups = [project["dependencies"], *project["optional-dependencies"].values()]
    for requirement in (requirement for group in groups for requirement in group):
        wanted = requirement.partition(";")[0]
        assert wanted.startswith("aiokafkapy[") or (">=" in wanted and not set("<=!~") & set(wanted.replace(">=", "")))


def test_make_rebuilds_when_any_source_of_the_core_changes() -> None:
    asked = subprocess.run(["make", "-pn", "help"], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    (line,) = (line for line in asked.splitlines() if line.startswith("CORE :="))
    kinds = {path for suffix in ("pyx", "pxd") for path in PACKAGE.rglob(f"*.{suffix}")}
    compiled = kinds | {path.with_suffix(".py") for path in kinds if path.with_suffix(".py").exists()}
    assert set(line.partition(":=")[2].split()) == {str(path.relative_to(ROOT)) for path in compiled}


# Their docstrings are of names.
PACKAGES_WITHOUT_FLOW = (".", "errors", "spark/_register")


def test_every_package_documents_its_input_and_output() -> None:
    packages = {str(file.parent.relative_to(PACKAGE)): file for file in PACKAGE.rglob("__init__.py")}
    for name in PACKAGES_WITHOUT_FLOW:
        del packages[name]
    texts = {name: ast.get_docstring(ast.parse(file.read_text())) or "" for name, file in packages.items()}
    assert [name for name, text in texts.items() if not re.search(r"\b(comes?\s+in|[Ii]n\s+comes?)\b", text)] == []
