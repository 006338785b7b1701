"""Every test here carries the mark ``kafka``; the clusters are fixtures of ``tests/conftest.py``."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiokafkapy.testing import ApacheKafka, KafkaSecurity, TestCertificates
from aiokafkapy.testing.servers.kdc import Kdc
from tests.realms import missing_kerberos


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.nodeid.startswith("tests/kafka/"):
            item.add_marker(pytest.mark.kafka)


@pytest.fixture
def security(secure_kafka: ApacheKafka) -> KafkaSecurity:
    assert secure_kafka.security is not None
    return secure_kafka.security


@pytest.fixture
def certificates(security: KafkaSecurity) -> TestCertificates:
    assert security.certificates is not None
    return security.certificates


@pytest.fixture(scope="module")
def kdc_if_any() -> Iterator[Kdc | None]:
    """A KDC of MIT Kerberos, or None without it or its library for Python, where CI does not require them."""
    if missing_kerberos() is None:
        with Kdc() as kdc:
            yield kdc
    else:
        yield None


@pytest.fixture(scope="module")
def kdc(kdc_if_any: Kdc | None) -> Kdc:
    """A KDC of MIT Kerberos; without it the test is skipped."""
    return kdc_if_any or pytest.skip("NO KDC, or no gssapi: Debian's krb5-kdc krb5-admin-server krb5-user libkrb5-dev")


@pytest.fixture(scope="module")
def ticket(kdc: Kdc) -> Iterator[None]:
    """This process is alice to Kerberos."""
    with kdc.in_environment(kdc.tickets_of("alice", kdc.add_principal("alice"))):
        yield
