from __future__ import annotations

import pytest

from aiokafkapy.security.protocols import SECURITY_PROTOCOLS, has_sasl, has_tls


def test_each_protocol_has_its_parts() -> None:
    found = {protocol: (has_tls(protocol), has_sasl(protocol)) for protocol in SECURITY_PROTOCOLS}
    assert found == {
        "PLAINTEXT": (False, False),
        "SSL": (True, False),
        "SASL_PLAINTEXT": (False, True),
        "SASL_SSL": (True, True),
    }


@pytest.mark.parametrize("protocol", ["", "TLS", "ssl", "XSSL", "SASL"])
def test_a_word_that_is_not_a_protocol_has_nothing(protocol: str) -> None:
    assert not has_tls(protocol)
    assert not has_sasl(protocol)
