"""The promises of installing: a wheel passes its own test, and their configuration agrees with the classifiers."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

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


NO_NETWORK = """
import socket


def refused(*arguments, **options):
    raise OSError("this build has no network")


socket.socket.connect = socket.socket.connect_ex = refused
socket.getaddrinfo = socket.create_connection = refused
"""


def built(kind: str, source: Path, out: Path, blocked: Path) -> Path:
    """The results of a build, in a new environment without network."""
    program = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(out)!r}))"
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=source,
        env=os.environ | {"PYTHONPATH": str(blocked), "AIOKAFKAPY_NO_EXTENSIONS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return out / done.stdout.split()[-1]


def test_the_source_distribution_is_built_installed_and_works_without_a_network(tmp_path: Path) -> None:
    blocked, source, out, unpacked, installed = (tmp_path / name for name in ("no", "tree", "out", "sdist", "site"))
    blocked.mkdir()
    (blocked / "sitecustomize.py").write_text(NO_NETWORK)
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False).stdout.decode()
    if not listed:
        pytest.skip("no git here to tell the sources from built files")
    for name in listed.split("\0"):
        if name and (ROOT / name).is_file():
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    with tarfile.open(built("sdist", source, out, blocked)) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12 has Python 3.11.2, without it
        archive.extractall(unpacked)
    (root,) = unpacked.iterdir()
    with zipfile.ZipFile(built("wheel", root, out, blocked)) as wheel:
        wheel.extractall(installed)
    done = subprocess.run(
        [sys.executable, str(root / "tests" / "smoke.py")],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1001 records there and back: interpreted" in done.stdout


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="manylinux is Linux's")
@pytest.mark.skipif(not aiokafkapy.compiled, reason="the interpreted core has no platform")
def test_the_compiled_core_fits_the_manylinux_that_wheels_are_built_for(tmp_path: Path) -> None:
    pytest.importorskip("auditwheel", reason="auditwheel is not installed, which tells the platform of a wheel")
    core = sorted((ROOT / "aiokafkapy").rglob("*.so"))
    assert [path.name.partition(".")[0] for path in core] == ["_core"]
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    wheel = tmp_path / f"aiokafkapy-0.0-{python}-{python}-linux_{platform.machine()}.whl"
    with zipfile.ZipFile(wheel, "w") as file:
        for path in core:
            file.write(path, path.relative_to(ROOT).as_posix())
        tag = f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: {wheel.stem.split('-', 2)[2]}\n"
        file.writestr("aiokafkapy-0.0.dist-info/WHEEL", tag)
        file.writestr("aiokafkapy-0.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: aiokafkapy\nVersion: 0.0\n")
        file.writestr("aiokafkapy-0.0.dist-info/RECORD", "".join(f"{path.relative_to(ROOT)},,\n" for path in core))
    done = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = re.search(r"constrains the platform tag to\s+\"manylinux_2_(\d+)_", done.stdout)
    assert told is not None, done.stdout
    wanted = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]["linux"]
    images = {name: re.fullmatch(r"manylinux_2_(\d+)", image) for name, image in wanted.items()}
    for name, image in images.items():
        assert image is not None, name
        assert int(told[1]) <= int(image[1]), f"{name}={image[0]}: the core needs a newer one\n{done.stdout}"


def test_the_workflow_builds_the_configured_wheels() -> None:
    found = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["cibuildwheel"]
    assert "tests/smoke.py --compiled" in found["test-command"]
    assert (ROOT / "tests" / "smoke.py").exists()
    assert not any(skipped in "cp311-musllinux_x86_64" for skipped in found["skip"])
    assert found["test-skip"] == ["cp314t-*"]  # every other wheel is tried before it is kept
    workflow = (ROOT / ".github" / "workflows" / "wheels.yml").read_text()
    for system in ("ubuntu", "macos", "windows"):
        assert f"{system}-" in workflow
    assert "cibuildwheel" in workflow
