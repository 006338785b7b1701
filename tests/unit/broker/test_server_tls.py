"""The TLS of servers that are no listeners of a broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokafkapy.broker.server_tls import server_tls
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.testing import TestCertificates


def test_a_brokers_options_of_tls_make_a_server(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    assert server_tls({"ssl_keystore_location": str(certificates.server_file)}).context()


def test_other_options_and_files_of_no_use_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="sasl_users is not an option of TLS"):
        server_tls({"sasl_users": {}})
    with pytest.raises(ConfigurationError, match="/no/such/file"):
        server_tls({"ssl_keystore_location": "/no/such/file.pem"})
