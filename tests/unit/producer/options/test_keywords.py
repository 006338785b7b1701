"""aiokafkapy.producer.options.keywords: the same names and types as the configuration, known to type checkers."""

from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from aiokafkapy import KafkaProducer
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.options.keywords import ProducerOptions

NAMED_BY_THE_PRODUCER = {"bootstrap_servers", "key_serializer", "value_serializer"}


def plain(kind: Any) -> Any:
    """The type without pydantic's annotations, at any depth."""
    if get_origin(kind) is Annotated:
        return plain(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return frozenset(plain(each) for each in get_args(kind))
    return kind


def test_the_options_are_the_fields_of_the_configuration() -> None:
    fields = {name: plain(field.annotation) for name, field in ProducerConfig.model_fields.items()}
    options = {name: plain(kind) for name, kind in get_type_hints(ProducerOptions).items()}
    assert options == {name: kind for name, kind in fields.items() if name not in NAMED_BY_THE_PRODUCER}


def seen_by_a_type_checker() -> None:
    """Checked, not run: mypy, which reads the tests too, reports an error that is wanted here and does not come."""
    KafkaProducer("localhost:9092", linger_ms=5, acks="all", compression_type="lz4")
    KafkaProducer("localhost:9092", linger_msec=5)  # type: ignore[call-arg]
    KafkaProducer("localhost:9092", acks="some")  # type: ignore[arg-type]
