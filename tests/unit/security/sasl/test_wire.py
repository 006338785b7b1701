"""The common part of several mechanisms."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.broker.config import BrokerConfig
from aiokafkapy.security.sasl.wire import MAX_RECEIVE_BYTES, SASLNAME, decode_saslname, encode_saslname, failed


@given(st.text(st.characters(min_codepoint=1, max_codepoint=127), min_size=1))
def test_every_name_of_ascii_comes_back(name: str) -> None:
    sent = encode_saslname(name)
    assert re.fullmatch(SASLNAME, sent)
    assert b"," not in sent
    assert decode_saslname(sent) == name


@pytest.mark.parametrize(("name", "sent"), [("a,b=c", b"a=2Cb=3Dc"), ("=2C", b"=3D2C"), ("é", b"\xc3\xa9")])
def test_a_name_is_sent_with_its_commas_and_equals_signs_escaped(name: str, sent: bytes) -> None:
    assert encode_saslname(name) == sent


@pytest.mark.parametrize("sent", [b"", b"a,b", b"a=b", b"a\0", "é".encode()])
def test_other_bytes_are_not_a_name(sent: bytes) -> None:
    assert re.fullmatch(SASLNAME, sent) is None


def test_the_limit_is_the_brokers_default() -> None:
    assert BrokerConfig().sasl_server_max_receive_size == MAX_RECEIVE_BYTES == 524_288


def test_a_failure_names_the_peer() -> None:
    assert str(failed("sent nothing")) == "the broker sent nothing"
