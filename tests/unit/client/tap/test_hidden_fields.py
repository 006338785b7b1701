from __future__ import annotations

from dataclasses import dataclass

import pytest

from aiokafkapy.client.tap.hidden_fields import has_hidden_value, is_hidden_field


@dataclass
class Pair:
    name: str | None
    value: str | None


@pytest.mark.parametrize("name", ["auth_bytes", "hmac", "salt", "salted_password", "session_token"])
def test_a_proof_of_identity_is_hidden(name: str) -> None:
    assert is_hidden_field(name)


@pytest.mark.parametrize("name", ["", "records", "name", "value", "client_id"])
def test_another_field_is_shown(name: str) -> None:
    assert not is_hidden_field(name)


def test_the_name_of_a_configuration_says_whether_its_value_is_hidden() -> None:
    assert has_hidden_value(Pair("ssl.key.password", "a"))
    assert has_hidden_value(Pair("sasl_jaas_config", None))
    assert not has_hidden_value(Pair("retention.ms", "a"))
    assert not has_hidden_value(Pair(None, "a"))
    assert not has_hidden_value(object())
