"""The fuzz targets of SASL find a server half that accepts a client without proof."""

from __future__ import annotations

import hmac
import random
from types import SimpleNamespace

import jwt
import pytest

from aiokafkapy.security.sasl.plain import PlainCredentialStore

from . import sasl
from .mutator import mutate
from .sasl import SASL_TARGETS
from .target import Target, check, opened

TARGETS = {target.name: target for target in SASL_TARGETS}


def run_some(target: Target) -> None:
    chance = random.Random(1)
    with opened(target):
        for _ in range(3_000):
            check(target, mutate(target.valid(chance), target.valid(chance), chance))


def test_a_server_that_believes_any_proof_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hmac, "compare_digest", lambda one, other: True)
    with pytest.raises(AssertionError):
        run_some(TARGETS["sasl_scram_server"]())


def test_a_server_that_believes_any_password_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PlainCredentialStore, "matches", lambda self, user, password: user in self)
    with pytest.raises(AssertionError):
        run_some(TARGETS["sasl_plain_server"]())


def test_a_server_that_believes_any_signature_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jwt.PyJWS, "decode", lambda *_, **__: None)
    with pytest.raises(AssertionError):
        run_some(TARGETS["sasl_signed_token_server"]())


def test_a_server_that_believes_any_ticket_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def believe(self: object, wrapped: bytes) -> SimpleNamespace:
        return SimpleNamespace(message=wrapped[:-32])

    monkeypatch.setattr(sasl.KerberosContext, "unwrap", believe)
    for half in ("sasl_gssapi_server", "sasl_gssapi_client"):
        with pytest.raises(AssertionError):
            run_some(TARGETS[half]())
