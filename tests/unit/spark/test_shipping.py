"""The archive for executors: its contents are enough to import and use the package, and executors need nothing else."""

from __future__ import annotations

import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from aiokafkapy.spark import shipping_conf
from aiokafkapy.spark.shipping import package_archive

IMPORTS = """
import sys
import aiokafkapy, aiokafkapy.producer.producer, aiokafkapy.reader
print(aiokafkapy.__file__)
print(aiokafkapy.KafkaProducer("127.0.0.1:1").config.linger_ms)
"""


@pytest.mark.slow
def test_a_python_without_site_packages_can_use_the_unpacked_package(tmp_path: Path) -> None:
    archive = package_archive(tmp_path / "made")
    assert [path.name for path in archive.parent.iterdir()] == [archive.name]
    with tarfile.open(archive) as packed:
        packed.extraction_filter = getattr(tarfile, "data_filter", None)  # Debian 12 has Python 3.11.2, without it
        packed.extractall(tmp_path / "unpacked")
    command = [sys.executable, "-S", "-c", IMPORTS]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": str(tmp_path / "unpacked")},
        cwd=tmp_path,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    where, linger = done.stdout.split()
    assert where == str(tmp_path / "unpacked" / "aiokafkapy" / "__init__.py")
    assert linger == "None"
    assert not list((tmp_path / "unpacked").glob("pyspark*"))


@pytest.mark.slow
def test_spark_unpacks_it_where_python_looks(tmp_path: Path) -> None:
    conf = shipping_conf(tmp_path)
    path, _, name = conf["spark.archives"].partition("#")
    assert Path(path).is_absolute()
    assert Path(path).is_file()
    assert conf["spark.executorEnv.PYTHONPATH"] == name
