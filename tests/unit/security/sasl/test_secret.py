"""A secret is hidden from repr, str, format and JSON."""

from __future__ import annotations

import json

import pytest

from aiokafkapy.security.sasl.secret import Secret


@pytest.mark.parametrize("secret", [Secret("hunter2"), Secret(b"hunter2")])
def test_no_form_of_text_shows_a_secret(secret: Secret[str] | Secret[bytes]) -> None:
    for shown in (repr(secret), str(secret), f"{secret}", f"{secret!r:>20}", "%s" % secret, repr([secret])):  # noqa: UP031
        assert "hunter2" not in shown
    assert secret.reveal() in ("hunter2", b"hunter2")
    with pytest.raises(TypeError):
        json.dumps({"password": secret})


def test_secrets_are_equal_when_their_values_are() -> None:
    assert Secret("a") == Secret("a")
    assert Secret("a") != Secret("b")
    assert Secret("a") != "a"
    assert len({Secret("a"), Secret("a")}) == 1
    assert not Secret("")
    assert Secret("\ud800")
    assert Secret("\ud800") == Secret("\ud800")
