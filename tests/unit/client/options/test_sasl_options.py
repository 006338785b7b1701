from __future__ import annotations

import dataclasses

from aiokafkapy.client.config import ClientConfig
from aiokafkapy.client.options.sasl_options import SaslOptionFields
from aiokafkapy.security.sasl.options import SaslOptions


def test_the_options_are_those_that_mechanisms_take_with_the_same_defaults() -> None:
    ours = {name: ClientConfig.model_fields[name].default for name in SaslOptionFields.__annotations__}
    assert ours == {field.name: field.default for field in dataclasses.fields(SaslOptions)}


def test_each_option_is_described() -> None:
    assert [name for name, field in ClientConfig.model_fields.items() if not field.description] == []
