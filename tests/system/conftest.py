"""What tests of secured listeners share."""

from __future__ import annotations

import pytest

from aiokafkapy.testing import TestCertificates


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> TestCertificates:
    """A CA, a server's certificate and a client's, for all tests of a file."""
    return TestCertificates(tmp_path_factory.mktemp("certificates"))
