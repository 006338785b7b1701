"""Every test here carries the mark ``kafka``; the clusters are fixtures of ``tests/conftest.py``."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.testing import ApacheKafka, KafkaSecurity, TestCertificates

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.kafka)


@pytest.fixture
def security(secure_kafka: ApacheKafka) -> KafkaSecurity:
    assert secure_kafka.security is not None
    return secure_kafka.security


@pytest.fixture
def certificates(security: KafkaSecurity) -> TestCertificates:
    assert security.certificates is not None
    return security.certificates
