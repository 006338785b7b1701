"""aiokafkapy.producer.options: the same names and types as the configuration, known to type checkers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.options import ProducerOptions

ROOT = Path(__file__).parents[3]
NAMED_BY_THE_PRODUCER = {"bootstrap_servers", "key_serializer", "value_serializer"}

PROGRAM = """
from aiokafkapy import KafkaProducer

KafkaProducer("localhost:9092", linger_ms=5, acks="all", compression_type="lz4")
KafkaProducer("localhost:9092", linger_msec=5)
KafkaProducer("localhost:9092", acks="some")
"""


def plain(kind: Any) -> Any:
    """The type without pydantic's annotations, at any depth."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if get_origin(kind) is None:
        return kind
    arguments = frozenset(plain(each) for each in get_args(kind) if get_origin(kind) is not Literal)
    return arguments if get_origin(kind) in (Union, UnionType) else kind


def test_the_options_are_the_fields_of_the_configuration() -> None:
    fields = {name: plain(field.annotation) for name, field in ProducerConfig.model_fields.items()}
    options = {name: plain(kind) for name, kind in get_type_hints(ProducerOptions).items()}
    assert options == {name: kind for name, kind in fields.items() if name not in NAMED_BY_THE_PRODUCER}


def test_a_type_checker_knows_the_options(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = (sys.executable, "-m", "mypy", "--no-error-summary", "--cache-dir", str(tmp_path / "cache"), str(program))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    errors = [line.partition("program.py:")[2] for line in done.stdout.splitlines() if "error:" in line]
    assert [error.partition(":")[0] for error in errors] == ["5", "6"], done.stdout + done.stderr
    assert '"linger_msec"' in errors[0]
    assert '"acks"' in errors[1]
