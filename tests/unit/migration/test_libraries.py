"""The tables of other clients' calls agree with the installed clients."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.client.options.translation import translated
from aiokafkapy.migration.libraries import (
    AIOKAFKA,
    CONFLUENT,
    KAFKA_PYTHON,
    LIBRARIES,
    Library,
    option_advice,
)
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.producer.options.keywords import SaslKeywords
from tests.documents.changed_options import CHANGED, translated_properties

OURS = {name for name in dir(KafkaProducer) if not name.startswith("_")}
CALL = re.compile(r"(await )?\bproducer\.(\w+)(?:(\()([^)]*)\))?")
NO_CALLS = {"DEFAULT_CONFIG", "DEPRECATED_CONFIGS"}


def classes(library: Library) -> list[Any]:
    found = []
    for name in library.producers:
        module, _, cls = name.rpartition(".")
        try:
            found.append(getattr(importlib.import_module(module), cls))
        except (ImportError, AttributeError):
            continue
    return found


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.name)
def test_every_method_of_a_library_is_ours_or_has_advice(library: Library) -> None:
    assert classes(library)
    for cls in classes(library):
        methods = {name for name in dir(cls) if not name.startswith("_")} - NO_CALLS
        assert methods <= OURS | set(library.calls), cls


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_every_option_of_a_constructor_is_ours_or_has_advice() -> None:
    import aiokafka
    import kafka

    own = set(inspect.signature(aiokafka.AIOKafkaProducer.__init__).parameters) - {"self"}
    for library, names in ((AIOKAFKA, own), (KAFKA_PYTHON, set(kafka.KafkaProducer.DEFAULT_CONFIG))):
        assert {name for name in names if option_advice(library, name) is not None} <= set(CHANGED[library.name])


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.name)
def test_an_option_that_changes_has_its_new_name(library: Library) -> None:
    advice = {name: option_advice(library, name) for name in CHANGED[library.name]}
    assert {name for name, text in advice.items() if text is None or "there is no such option" in text} == set()


def test_an_option_of_our_name_and_another_meaning_has_advice() -> None:
    assert "murmur2" in (option_advice(AIOKAFKA, "partitioner") or "")
    assert option_advice(CONFLUENT, "linger.ms") is None
    assert option_advice(CONFLUENT, "dr_cb") == "leave it out: await send(), or the delivery that enqueue() gives"


def test_options_of_librdkafka_that_from_properties_takes_need_no_change() -> None:
    notes = translated_properties()
    assert notes["queue.buffering.max.ms"] == "taken, as linger_ms"
    assert notes["log_level"].startswith("ignored, with one warning: ")
    for name in notes:
        assert option_advice(CONFLUENT, name) is None
        translated({name: 1}, ProducerConfig.model_fields)


@pytest.mark.parametrize("library", LIBRARIES, ids=lambda one: one.name)
def test_the_advice_for_a_call_is_a_call_of_ours_written_as_it_is_called(library: Library) -> None:
    for advice in library.calls.values():
        for is_awaited, name, is_called, arguments in CALL.findall(advice):
            found = inspect.getattr_static(KafkaProducer, name)
            assert bool(is_awaited) == inspect.iscoroutinefunction(found), advice
            assert bool(is_called) == (not isinstance(found, property)), advice
            for argument in re.findall(r"(\w+)=", arguments):
                assert argument in parameters_of(found), advice


def parameters_of(method: Any) -> set[str]:
    """The names of its arguments; those of credentials stand for any."""
    parameters = inspect.signature(method).parameters.values()
    names = {each.name for each in parameters}
    is_open = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    return names | SaslKeywords.__annotations__.keys() if is_open else names
