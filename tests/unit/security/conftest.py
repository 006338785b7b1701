"""Certificates for one test module: making them takes milliseconds, and tests ask for many."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiokafkapy.testing import TestCertificates


@pytest.fixture
def certificates() -> Iterator[TestCertificates]:
    with TestCertificates() as made:
        yield made
