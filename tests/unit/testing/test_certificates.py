"""``TestCertificates``: its files as others read them; tests/unit/security shows the use of its certificates."""

from __future__ import annotations

import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from aiokafkapy.security.tls import check_settings
from aiokafkapy.testing import TestCertificates
from tests.unit.security.handshakes import Handshake, Options, client_context, server_context


def _certificate(path: Path) -> x509.Certificate:
    return x509.load_pem_x509_certificate(path.read_bytes())


def test_a_directory_of_its_own_goes_with_it() -> None:
    with TestCertificates() as certificates:
        assert certificates.ca_file.parent == certificates.directory
    assert not certificates.directory.exists()
    forgotten = TestCertificates()
    directory = forgotten.directory
    assert directory.exists()
    del forgotten
    assert not directory.exists()


def test_a_directory_of_the_users_stays(tmp_path: Path) -> None:
    with TestCertificates(tmp_path / "made" / "here") as certificates:
        assert certificates.directory == tmp_path / "made" / "here"
    names = {"ca.pem", "other-ca.pem", "crl.pem", "server.pem", "client.pem"}
    assert {path.name for path in certificates.directory.iterdir()} == names
    for path in certificates.directory.iterdir():
        assert path.stat().st_mode & 0o077 == 0


def test_the_names_are_those_asked_for(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path, names=["*.kafka.example", "10.0.0.1"], client="CN=bob")
    assert _certificate(certificates.server_file).subject.rfc4514_string() == "CN=*.kafka.example"
    names = _certificate(certificates.server_file).extensions.get_extension_for_class(x509.SubjectAlternativeName)
    assert names.value.get_values_for_type(x509.DNSName) == ["*.kafka.example"]
    assert [str(ip) for ip in names.value.get_values_for_type(x509.IPAddress)] == ["10.0.0.1"]
    assert _certificate(certificates.client_file).subject.rfc4514_string() == "CN=bob"
    name = r"CN=Ann\, Data,OU=Größe,O=Example,C=DE"
    assert _certificate(certificates.client(name, file="ann.pem")).subject.rfc4514_string() == name


def test_a_renewed_file_has_another_certificate_for_the_same(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    for path in (certificates.server_file, certificates.client("CN=alice,O=Example", file="alice.pem", password="p")):
        before = _certificate(path)
        assert certificates.renew(path) == path
        after = _certificate(path)
        assert after.serial_number != before.serial_number
        assert after.public_key() != before.public_key()
        assert after.subject == before.subject
        kind = x509.SubjectAlternativeName
        names = [each.extensions.get_extension_for_class(kind).value for each in (before, after)]
        assert names[0] == names[1]
    serialization.load_pem_private_key(tmp_path.joinpath("alice.pem").read_bytes(), b"p")
    assert _certificate(certificates.renew(certificates.server_file, expired=True)).not_valid_after_utc.year < 3000


@pytest.mark.parametrize("kind", ["EC", "RSA"])
def test_a_key_is_one_that_java_reads(kind: str, tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    path = certificates.server("localhost", key="RSA" if kind == "RSA" else "EC")
    assert path.read_text().startswith("-----BEGIN PRIVATE KEY-----\n")
    assert certificates.server(file="locked.pem", password="p").read_text().startswith("-----BEGIN ENCRYPTED PRIVATE")
    client = client_context(Options(**certificates.client_options()))
    assert Handshake(client, server_context(Options(**certificates.server_options(path)))).has_worked


def test_the_list_of_the_revoked_grows(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)

    def revoked() -> set[int]:
        first = certificates.crl_file.read_bytes()
        return {entry.serial_number for entry in x509.load_pem_x509_crl(first)}

    assert revoked() == set()
    serials = {_certificate(path).serial_number for path in (certificates.server_file, certificates.client_file)}
    certificates.revoke(certificates.server_file)
    assert certificates.revoke(certificates.client_file) == certificates.crl_file
    assert revoked() == serials


def test_options_are_ours_and_javas(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    locked = certificates.client(file="locked.pem", password="p")
    for options in (
        certificates.client_options(),
        certificates.client_options(locked),
        certificates.inline_client_options(certificates.client_file),
        certificates.inline_client_options(locked),
        certificates.client_options(locked, ssl_endpoint_identification_algorithm=""),
    ):
        check_settings(Options(**options))
    assert certificates.client_options(security_protocol="SASL_SSL")["security_protocol"] == "SASL_SSL"
    assert certificates.client_properties(locked) == {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(locked),
        "ssl.key.password": "p",
    }
    assert "ssl.keystore.type" not in certificates.client_properties()
    assert certificates.server_properties() == {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(tmp_path / "ca.pem"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(tmp_path / "server.pem"),
    }


def test_another_ca_is_another(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    other = certificates.server(file="other.pem", by_other_ca=True)
    server = server_context(Options(**certificates.server_options(other)))
    trusting = Options(ssl_truststore_location=str(certificates.other_ca_file))
    assert isinstance(
        Handshake(client_context(Options(**certificates.client_options())), server).client_error,
        ssl.SSLCertVerificationError,
    )
    assert Handshake(client_context(trusting), server).has_worked


def test_without_its_library_the_error_names_the_extra() -> None:
    program = (
        "import sys; sys.modules['trustme'] = None\n"
        "import aiokafkapy.testing\n"
        "try: aiokafkapy.testing.TestCertificates\n"
        "except ModuleNotFoundError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "TestCertificates needs trustme: pip install 'aiokafkapy[testing]'\n"
