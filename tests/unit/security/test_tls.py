"""TLS contexts made from options, proved by handshakes between them."""

from __future__ import annotations

import itertools
import os
import shutil
import ssl
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError
from aiokafkapy.security.tls import TlsContexts, check_settings
from aiokafkapy.testing import TestCertificates
from tests.unit.security.handshakes import Handshake, Options, client_context, server_context


@pytest.fixture
def server(certificates: TestCertificates) -> ssl.SSLContext:
    return server_context(Options(**certificates.server_options()), "required")


def _shake(server: ssl.SSLContext, host: str = "localhost", **options: Any) -> Handshake:
    return Handshake(client_context(Options(**options)), server, host)


# trust


@pytest.mark.parametrize("layout", ["file", "directory", "text", "one line", "escaped line ends"])
def test_a_ca_is_taken_from_a_file_a_directory_or_text(
    layout: str, certificates: TestCertificates, tmp_path: Path
) -> None:
    server = server_context(Options(**certificates.server_options()))
    pem = certificates.ca_file.read_text()
    if layout == "file":
        trust = {"ssl_truststore_location": str(certificates.ca_file)}
    elif layout == "directory":
        (tmp_path / "README").write_text("not a certificate")
        shutil.copy(certificates.other_ca_file, tmp_path)
        shutil.copy(certificates.ca_file, tmp_path)
        # As Kubernetes mounts a secret: links into a hidden directory.
        (tmp_path / "..data").mkdir()
        (tmp_path / "link.pem").symlink_to(certificates.ca_file)
        trust = {"ssl_truststore_location": str(tmp_path)}
    else:
        shown = {"text": pem, "one line": pem.replace("\n", " "), "escaped line ends": pem.replace("\n", "\\n")}
        trust = {"ssl_truststore_certificates": shown[layout]}
    assert _shake(server, **trust).has_worked
    other = certificates.other_ca_file.read_text()
    assert not _shake(server, ssl_truststore_certificates=other).has_worked


def test_the_systems_store_is_trusted_when_nothing_is_said(
    certificates: TestCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = server_context(Options(**certificates.server_options()))
    assert not _shake(server).has_worked
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca_file))  # where OpenSSL has that store
    assert _shake(server).has_worked


def test_a_brokers_own_certificate_may_be_the_anchor_as_in_java(certificates: TestCertificates) -> None:
    server = server_context(Options(**certificates.server_options()))
    chain = certificates.inline_client_options(certificates.server_file)["ssl_keystore_certificate_chain"]
    assert _shake(server, ssl_truststore_certificates=chain).has_worked


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "::1"])
def test_a_host_is_known_by_its_names_and_addresses(host: str, certificates: TestCertificates) -> None:
    server = server_context(Options(**certificates.server_options()))
    assert _shake(server, host, **certificates.client_options()).has_worked
    assert not _shake(server, "elsewhere", **certificates.client_options()).has_worked


def test_no_check_of_the_host_is_a_choice_that_is_logged_once(
    certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    server = server_context(Options(**certificates.server_options()))
    caplog.clear()
    options = certificates.client_options(ssl_endpoint_identification_algorithm="")
    contexts = TlsContexts(Options(**options))
    for _ in range(3):
        assert Handshake(contexts.context(), server, "elsewhere").has_worked
    assert _events(caplog) == ["tls.host_name_unchecked"]
    # The certificate itself is checked as before.
    options["ssl_truststore_location"] = str(certificates.other_ca_file)
    assert not _shake(server, "localhost", **options).has_worked


def test_a_revoked_broker_is_refused(certificates: TestCertificates) -> None:
    server = server_context(Options(**certificates.server_options()))
    options = certificates.client_options(ssl_crl_location=str(certificates.crl_file))
    assert _shake(server, **options).has_worked
    certificates.revoke(certificates.server_file)
    error = _shake(server, **options).client_error
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert error.verify_message == "certificate revoked"
    renewed = server_context(Options(**certificates.server_options(certificates.renew(certificates.server_file))))
    assert _shake(renewed, **options).has_worked


def test_a_revoked_client_is_refused(certificates: TestCertificates) -> None:
    listener = TlsContexts(
        Options(**certificates.server_options(ssl_crl_location=str(certificates.crl_file))),
        server_side=True,
        client_auth="required",
    )
    options = certificates.client_options(certificates.client_file)
    assert _shake(listener.context(), **options).has_worked
    certificates.revoke(certificates.client_file)
    refused = _shake(listener.context(), **options)
    assert isinstance(refused.server_error, ssl.SSLCertVerificationError)
    assert refused.client_error is not None


# our certificate


def test_a_client_shows_its_certificate_from_a_file_or_from_text(
    certificates: TestCertificates, server: ssl.SSLContext
) -> None:
    client = certificates.client("CN=alice,OU=Data,O=Example,C=DE", file="alice.pem")
    for options in (certificates.client_options(client), certificates.inline_client_options(client)):
        handshake = _shake(server, **options)
        assert handshake.has_worked
        assert handshake.clients_subject["commonName"] == "alice"
    assert not _shake(server, **certificates.client_options()).has_worked


@pytest.mark.parametrize("kind", ["PKCS #8", "OpenSSL's old way", "OpenSSL's old way, CRLF"])
def test_an_encrypted_key_is_opened(kind: str, certificates: TestCertificates, server: ssl.SSLContext) -> None:
    client = certificates.client("CN=alice", file="alice.pem", password="open sesame", key="RSA")
    if kind != "PKCS #8":
        pem = client.read_bytes()
        key = serialization.load_pem_private_key(pem, b"open sesame")
        old = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.BestAvailableEncryption(b"open sesame"),
        )
        assert b"Proc-Type: 4,ENCRYPTED" in old
        both = old + pem[pem.index(b"-----BEGIN CERTIFICATE") :]
        client.write_bytes(both.replace(b"\n", b"\r\n") if kind.endswith("CRLF") else both)
    for options in (certificates.client_options(client), certificates.inline_client_options(client)):
        assert _shake(server, **options).has_worked
        with pytest.raises(ConfigurationError, match="the key cannot be opened with ssl_key_password"):
            check_settings(Options(**options | {"ssl_key_password": "guessed"}))
        with pytest.raises(ConfigurationError, match="the key is encrypted: write its password as ssl_key_password"):
            check_settings(Options(**options | {"ssl_key_password": None}))


def test_the_order_of_key_and_chain_in_the_file_does_not_matter(
    certificates: TestCertificates, server: ssl.SSLContext
) -> None:
    options = certificates.inline_client_options(certificates.client_file)
    key, chain = options["ssl_keystore_key"], options["ssl_keystore_certificate_chain"]
    certificates.client_file.write_text(f"# a remark: größer\n{chain}\n{key}")
    assert _shake(server, **certificates.client_options(certificates.client_file)).has_worked


def test_text_of_a_key_is_in_a_private_file_for_a_moment_only(
    certificates: TestCertificates, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    modes = []
    load_cert_chain = ssl.SSLContext.load_cert_chain

    def observed(self: ssl.SSLContext, path: str, **arguments: Any) -> None:
        modes.append((Path(path).parent, stat.S_IMODE(Path(path).stat().st_mode)))
        load_cert_chain(self, path, **arguments)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", observed)
    options = certificates.inline_client_options(certificates.client_file)
    check_settings(Options(**options))
    assert modes == [(tmp_path, 0o600)]
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ConfigurationError):
        check_settings(Options(**options | {"ssl_keystore_key": _damaged(options["ssl_keystore_key"])}))
    assert len(modes) == 2
    assert list(tmp_path.iterdir()) == []


# protocols and suites


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_the_protocols_are_those_named(protocol: str, certificates: TestCertificates) -> None:
    server = server_context(Options(**certificates.server_options()))
    handshake = _shake(server, **certificates.client_options(ssl_enabled_protocols=(protocol,)))
    assert handshake.client.version() == protocol
    (other,) = {"TLSv1.2", "TLSv1.3"} - {protocol}
    only_other = server_context(Options(**certificates.server_options(ssl_enabled_protocols=(other,))))
    assert not _shake(only_other, **certificates.client_options(ssl_enabled_protocols=(protocol,))).has_worked


@pytest.mark.parametrize(
    ("written", "chosen"),
    [
        (["ECDHE-ECDSA-AES128-GCM-SHA256"], "ECDHE-ECDSA-AES128-GCM-SHA256"),
        (["TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"], "ECDHE-ECDSA-AES256-GCM-SHA384"),
        (["TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256"], "ECDHE-ECDSA-CHACHA20-POLY1305"),
        (["TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA256"], "ECDHE-ECDSA-AES128-SHA256"),
        (["ECDHE+AESGCM:!AES128"], "ECDHE-ECDSA-AES256-GCM-SHA384"),
    ],
)
def test_a_suite_is_named_as_openssl_or_as_java_does(
    written: list[str], chosen: str, certificates: TestCertificates
) -> None:
    server = server_context(Options(**certificates.server_options()))
    options = certificates.client_options(ssl_cipher_suites=written, ssl_enabled_protocols=("TLSv1.2",))
    cipher = _shake(server, **options).client.cipher()
    assert cipher is not None
    assert cipher[0] == chosen


@pytest.mark.parametrize(
    ("iana", "openssl"),
    [
        ("TLS_RSA_WITH_AES_128_CBC_SHA", "AES128-SHA"),
        ("TLS_RSA_WITH_AES_256_GCM_SHA384", "AES256-GCM-SHA384"),
        ("TLS_DHE_RSA_WITH_AES_128_GCM_SHA256", "DHE-RSA-AES128-GCM-SHA256"),
        ("TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384", "ECDHE-RSA-AES256-SHA384"),
        ("TLS_DHE_RSA_WITH_CHACHA20_POLY1305_SHA256", "DHE-RSA-CHACHA20-POLY1305"),
        ("TLS_ECDHE_ECDSA_WITH_AES_128_CCM", "ECDHE-ECDSA-AES128-CCM"),
    ],
)
def test_the_suites_of_java_have_their_counterparts(iana: str, openssl: str, certificates: TestCertificates) -> None:
    context = client_context(Options(**certificates.client_options(ssl_cipher_suites=[iana])))
    assert [suite["name"] for suite in context.get_ciphers() if suite["protocol"] != "TLSv1.3"] == [openssl]


def test_suites_of_tls_1_3_alone_leave_that_version(certificates: TestCertificates) -> None:
    all_of_them = ["TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"]
    options = certificates.client_options(ssl_cipher_suites=all_of_them)
    assert client_context(Options(**options)).minimum_version == ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigurationError, match=r"TLS 1\.3 only: add TLSv1\.3 to ssl_enabled_protocols"):
        check_settings(Options(**options | {"ssl_enabled_protocols": ["TLSv1.2"]}))


# a ready context


def test_a_ready_context_is_used_as_it_is(certificates: TestCertificates) -> None:
    ready = ssl.create_default_context(cafile=str(certificates.ca_file))
    options = Options(ssl_context=ready)
    check_settings(options)
    assert TlsContexts(options).context() is ready


# a function that gives a context


def test_a_function_is_asked_for_a_context_for_each_connection(certificates: TestCertificates) -> None:
    given: list[ssl.SSLContext] = []

    def give() -> ssl.SSLContext:
        given.append(ssl.create_default_context(cafile=str(certificates.ca_file)))
        return given[-1]

    options = Options(ssl_context=give)
    check_settings(options)
    assert given == []  # when a client is made, nobody has to wait for a vault
    contexts = TlsContexts(options)
    assert contexts.known_context() is None
    assert [contexts.context(), contexts.context()] == given
    assert contexts.known_context() is None


async def _coroutine() -> ssl.SSLContext:
    return ssl.create_default_context()


@pytest.mark.parametrize(
    ("give", "words"),
    [
        (lambda: "ca.pem", "the function ssl_context gave a str: it has to return an ssl.SSLContext"),
        (lambda: None, "gave a NoneType"),
        (_coroutine, "gave a coroutine: .* it is called in a thread, so it may wait"),
        (lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), "gave a context of a server: it has to return"),
        (lambda: int("x"), "the function ssl_context failed: ValueError: invalid literal"),
    ],
)
def test_a_wrong_result_of_a_function_and_its_exception_are_told(give: Any, words: str) -> None:
    contexts = TlsContexts(Options(ssl_context=give))
    with pytest.raises(KafkaConnectionError, match=words):
        contexts.context()


def test_a_functions_context_without_a_check_of_names_is_told_once(caplog: pytest.LogCaptureFixture) -> None:
    unchecked = ssl.create_default_context()
    unchecked.check_hostname = False
    contexts = TlsContexts(Options(ssl_context=lambda: unchecked))
    assert caplog.records == []
    for _ in range(2):
        assert contexts.context() is unchecked
    assert [record.event for record in caplog.records] == ["tls.host_name_unchecked"]  # type: ignore[attr-defined]


def test_a_function_takes_no_other_options_beside_it_and_is_a_clients() -> None:
    give = ssl.create_default_context
    with pytest.raises(ConfigurationError, match="ssl_cipher_suites has no effect beside ssl_context"):
        check_settings(Options(ssl_context=give, ssl_cipher_suites=("AES128-SHA",)))
    with pytest.raises(ConfigurationError, match="set its check_hostname to False"):
        check_settings(Options(ssl_context=give, ssl_endpoint_identification_algorithm=""))
    for wrong in (ssl.SSLContext, 5):
        with pytest.raises(ConfigurationError, match="a function that returns one is taken, too"):
            check_settings(Options(ssl_context=wrong))
    with pytest.raises(ConfigurationError, match=r"is not an ssl\.SSLContext"):
        check_settings(Options(ssl_context=give), server_side=True)


# files that change


def test_new_connections_use_a_certificate_that_was_replaced(
    certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    listener = TlsContexts(Options(**certificates.server_options()), server_side=True)
    client = TlsContexts(Options(**certificates.client_options()))
    first = Handshake(client.context(), listener.context())
    assert listener.context() is listener.context()
    caplog.set_level("INFO")
    certificates.renew(certificates.server_file)
    second = Handshake(client.context(), listener.context())
    assert second.has_worked
    assert second.servers_serial != first.servers_serial
    assert [getattr(record, "fields", None) for record in caplog.records] == [
        {"files": [str(certificates.server_file)]}
    ]
    first.client.write(b"still there")
    assert first.server.read(20) == b"still there"


def test_a_context_is_known_until_its_files_change(certificates: TestCertificates) -> None:
    contexts = TlsContexts(Options(**certificates.client_options()))
    assert contexts.known_context() is None
    first = contexts.context()
    assert contexts.known_context() is first
    _touch(certificates.ca_file, 10)
    assert contexts.known_context() is None
    assert contexts.known_context() is not contexts.context()
    ready = ssl.create_default_context()
    assert TlsContexts(Options(ssl_context=ready)).known_context() is ready


def test_a_ca_that_was_replaced_or_added_is_trusted(certificates: TestCertificates, tmp_path: Path) -> None:
    others = server_context(Options(**certificates.server_options(certificates.server(by_other_ca=True))))
    shutil.copy(certificates.ca_file, tmp_path)
    for location in (certificates.ca_file, tmp_path):
        client = TlsContexts(Options(ssl_truststore_location=str(location)))
        assert not Handshake(client.context(), others).has_worked
        if location.is_dir():
            shutil.copy(certificates.other_ca_file, location)
        else:
            location.write_bytes(certificates.other_ca_file.read_bytes())
        assert Handshake(client.context(), others).has_worked


@pytest.mark.parametrize("how", ["half written", "removed", "of another key"])
def test_files_that_cannot_be_used_leave_the_old_certificate_in_use(
    how: str, certificates: TestCertificates, caplog: pytest.LogCaptureFixture
) -> None:
    path = certificates.server_file
    listener = TlsContexts(Options(**certificates.server_options()), server_side=True)
    before, pem = listener.context(), path.read_text()
    if how == "removed":
        path.unlink()
    elif how == "half written":
        path.write_text(pem[: len(pem) // 2])
    else:
        other = certificates.inline_client_options(certificates.client_file)
        path.write_text(other["ssl_keystore_key"] + pem[pem.index("-----BEGIN CERTIFICATE") :])
    caplog.clear()
    assert [listener.context() for _ in range(3)] == [before] * 3
    assert _events(caplog) == ["tls.reload_failed"]
    path.write_text(pem)
    os.utime(path, (later := path.stat().st_mtime + 10, later))  # the same inode and size: a clock's tick may be long
    assert listener.context() is not before
    assert Handshake(client_context(Options(**certificates.client_options())), listener.context()).has_worked
    assert _events(caplog) == ["tls.reload_failed"]


def test_a_chain_and_its_key_in_two_files_are_replaced_one_after_the_other(
    certificates: TestCertificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """cert-manager's ``tls.crt`` and ``tls.key`` are two files: between the two steps the old pair serves."""

    def parts() -> tuple[str, str]:
        made = certificates.inline_client_options(certificates.server(file=f"{next(numbers)}.pem"))
        return made["ssl_keystore_certificate_chain"], made["ssl_keystore_key"]

    numbers = itertools.count()
    chain, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    (first_chain, first_key), (second_chain, second_key) = parts(), parts()
    chain.write_text(first_chain)
    key.write_text(first_key)
    trust = certificates.client_options()
    listener = TlsContexts(Options(ssl_keystore_location=str(chain), ssl_key_location=str(key)), server_side=True)
    before = Handshake(client_context(Options(**trust)), listener.context())
    assert before.has_worked
    caplog.clear()
    chain.write_text(second_chain)
    _touch(chain, 10)
    between = Handshake(client_context(Options(**trust)), listener.context())
    assert between.has_worked
    assert between.servers_serial == before.servers_serial
    assert _events(caplog) == ["tls.reload_failed"]
    key.write_text(second_key)
    _touch(key, 10)
    after = Handshake(client_context(Options(**trust)), listener.context())
    assert after.has_worked
    assert after.servers_serial != before.servers_serial


def _touch(path: Path, seconds: int) -> None:
    """A clock's tick may be long."""
    later = path.stat().st_mtime + seconds
    os.utime(path, (later, later))


# invalid options


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"ssl_key_location": "tls.key"}, "ssl_key_location is given without ssl_keystore_location: write there"),
        (
            {"ssl_keystore_location": "tls.crt", "ssl_key_location": "tls.key", "ssl_keystore_key": "x"},
            "ssl_keystore_location and ssl_keystore_key are both given",
        ),
        (
            {"ssl_endpoint_identification_algorithm": "none"},
            r"ssl_endpoint_identification_algorithm='none' is unknown: write 'https', or '' for no check",
        ),
        ({"ssl_enabled_protocols": ["TLSv1.1"]}, r"'TLSv1\.1' is not supported: write TLSv1\.2, TLSv1\.3 or both"),
        ({"ssl_enabled_protocols": []}, "ssl_enabled_protocols is empty: write"),
        ({"ssl_cipher_suites": ["RC4-MD5"]}, r"'RC4-MD5' is not known to OpenSSL .*: `openssl ciphers"),
        ({"ssl_cipher_suites": ["NULL-SHA"]}, "ssl_cipher_suites: 'NULL-SHA' .* has no use"),
        ({"ssl_cipher_suites": ["ADH-AES128-SHA"]}, "ssl_cipher_suites: 'ADH-AES128-SHA' .* has no use"),
        ({"ssl_cipher_suites": ["AES128-SHA", "!AES128"]}, "ssl_cipher_suites='AES128-SHA:!AES128' leaves none"),
        ({"ssl_cipher_suites": []}, "ssl_cipher_suites is empty"),
        (
            {"ssl_cipher_suites": ["TLS_AES_128_GCM_SHA256"]},
            r"Python cannot choose among the suites of TLS 1\.3: leave them out, or name all of TLS_",
        ),
        (
            {"ssl_truststore_location": "/ca", "ssl_truststore_certificates": "-----"},
            "ssl_truststore_location and ssl_truststore_certificates are both given: write one of them",
        ),
        ({"ssl_keystore_location": "/k", "ssl_keystore_key": "-"}, "ssl_keystore_location and ssl_keystore_key are"),
        ({"ssl_keystore_key": "-"}, "ssl_keystore_key is given without ssl_keystore_certificate_chain: write both"),
        ({"ssl_keystore_certificate_chain": "-"}, "chain is given without ssl_keystore_key: write both"),
        ({"ssl_truststore_location": "/no/such"}, r"ssl_truststore_location='/no/such' cannot be read \(No such file"),
        (
            {"ssl_truststore_location": "a\0b"},
            "cannot be read .*: write a file or directory that this process can read",
        ),
        ({"ssl_truststore_certificates": "/ca.pem"}, "ssl_truststore_certificates has no certificates in PEM"),
        ({"ssl_context": "TLSv1.2"}, r"ssl_context='TLSv1\.2' is not an ssl\.SSLContext"),
        ({"ssl_keystore_type": "BCFKS"}, "ssl_keystore_type='BCFKS' is unknown: write PEM"),
    ],
)
def test_the_error_for_an_unusable_option_has_the_remedy(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        check_settings(Options(**options))


@pytest.mark.parametrize("option", ["truststore", "keystore", "key", "crl"])
def test_an_empty_path_is_refused_and_not_the_working_directory(
    option: str, certificates: TestCertificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(certificates.ca_file.parent)
    options: dict[str, Any] = {f"ssl_{option}_location": ""}
    if option == "key":
        options["ssl_keystore_location"] = str(certificates.client_file)
    with pytest.raises(ConfigurationError, match=f"ssl_{option}_location is empty: write the path of a file"):
        check_settings(Options(**options))


def test_a_ready_context_takes_no_other_options_beside_it(certificates: TestCertificates) -> None:
    ready = ssl.create_default_context()
    with pytest.raises(ConfigurationError, match="ssl_truststore_location has no effect beside ssl_context"):
        check_settings(Options(**certificates.client_options(ssl_context=ready)))
    with pytest.raises(ConfigurationError, match="set its check_hostname to False"):
        check_settings(Options(ssl_context=ready, ssl_endpoint_identification_algorithm=""))
    with pytest.raises(ConfigurationError, match="ssl_context is made for a server, with PROTOCOL_TLS_SERVER"):
        check_settings(Options(ssl_context=ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)))
    with pytest.raises(ConfigurationError, match="ssl_context is made for a client, with PROTOCOL_TLS_CLIENT"):
        check_settings(Options(ssl_context=ready), server_side=True)


def test_a_listener_needs_a_certificate_and_the_ca_of_its_clients(certificates: TestCertificates) -> None:
    check_settings(Options(**certificates.server_options()), server_side=True, client_auth="requested")
    with pytest.raises(ConfigurationError, match="a TLS listener needs a certificate: write ssl_keystore_location"):
        check_settings(Options(**certificates.client_options()), server_side=True)
    alone = Options(ssl_keystore_location=str(certificates.server_file))
    check_settings(alone, server_side=True)
    with pytest.raises(
        ConfigurationError, match="ssl_client_auth='required' needs the CA of the clients' certificates"
    ):
        check_settings(alone, server_side=True, client_auth="required")


def test_files_with_the_wrong_things_in_them_say_so(certificates: TestCertificates, tmp_path: Path) -> None:
    pem = certificates.client_file.read_text()
    chain = pem[pem.index("-----BEGIN CERTIFICATE") :]
    for text, words in (
        (chain, "1 certificates and 0 private keys"),
        (pem.removesuffix(chain), "0 certificates and 1 private keys"),
        (certificates.server_file.read_text().partition("-----BEGIN CERTIFICATE")[0] + chain, "the key is not that of"),
        (_damaged(pem), "ssl_keystore_location="),
    ):
        path = tmp_path / "client.pem"
        path.write_text(text)
        with pytest.raises(ConfigurationError, match=words):
            check_settings(Options(ssl_keystore_location=str(path)))
    with pytest.raises(ConfigurationError, match=r"ssl_crl_location=.* has no revocation list in PEM"):
        check_settings(Options(ssl_crl_location=str(certificates.ca_file)))
    with pytest.raises(ConfigurationError, match="ssl_truststore_certificates has a damaged certificate"):
        check_settings(Options(ssl_truststore_certificates=_damaged(certificates.ca_file.read_text())))
    der = tmp_path / "ca.der"
    der.write_bytes(ssl.PEM_cert_to_DER_cert(certificates.ca_file.read_text()))
    with pytest.raises(ConfigurationError, match=r"is DER, not PEM: `openssl x509 -inform DER -in .*ca\.der -out"):
        check_settings(Options(ssl_truststore_location=str(der)))


def test_a_character_that_pem_does_not_have_is_told(certificates: TestCertificates, tmp_path: Path) -> None:
    path = tmp_path / "odd.pem"
    pem, revocations = certificates.client_file.read_text(), certificates.crl_file.read_text()
    inline = certificates.inline_client_options(certificates.client_file)
    for option, text in (
        ("ssl_keystore_location", pem),
        ("ssl_truststore_location", certificates.ca_file.read_text()),
        ("ssl_crl_location", revocations),
    ):
        path.write_text(_with_a_dash(text), encoding="utf-8")
        with pytest.raises(ConfigurationError, match=rf"^{option}=.*odd.pem' has '\\u2013' inside of a ") as caught:
            check_settings(Options(**{option: str(path)}))
        assert caught.value.__cause__ is None
    for option, others in (
        ("ssl_keystore_key", inline),
        ("ssl_keystore_certificate_chain", inline),
        ("ssl_truststore_certificates", {"ssl_truststore_certificates": certificates.ca_file.read_text()}),
    ):
        with pytest.raises(ConfigurationError, match=rf"^{option} has '\\u2013' inside of a "):
            check_settings(Options(**others | {option: _with_a_dash(others[option])}))


@pytest.mark.parametrize("store", ["truststore", "keystore"])
def test_a_store_of_javas_is_refused_with_the_commands_that_convert_it(store: str, tmp_path: Path) -> None:
    option = f"ssl_{store}_location"
    options: dict[str, Any]
    for name, content, kind in (
        ("store.jks", b"", "JKS"),
        ("store", b"\xfe\xed\xfe\xed\x00\x00\x00\x02", "JKS"),
        ("store", b"\xce\xce\xce\xce\x00\x00\x00\x02", "JCEKS"),
        ("store.P12", b"", "PKCS12"),
        ("store.pfx", b"", "PKCS12"),
        ("store", b"\x30\x82\x0a\x11\x02\x01\x03\x30", "PKCS12"),
    ):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(ConfigurationError, match=f"a {kind} store cannot be read here") as caught:
            options = {option: str(path)}
            check_settings(Options(**options))
        words = str(caught.value)
        assert ("`keytool -importkeystore " in words) == (kind != "PKCS12")
        assert "`openssl pkcs12 -in " in words
        assert ("-nokeys" in words) == (store == "truststore")
        assert f"then write {option}=" in words
    with pytest.raises(ConfigurationError, match=r"ssl_.*_type='jks': a JKS store cannot be read here"):
        options = {option: "any", f"ssl_{store}_type": "jks"}
        check_settings(Options(**options))


def test_no_message_has_a_line_of_a_key_or_its_password(certificates: TestCertificates) -> None:
    client = certificates.client(file="secret.pem", password="open sesame")
    inline = certificates.inline_client_options(client)
    secret = inline["ssl_keystore_key"].splitlines()[3]
    for options in (
        {"ssl_keystore_location": inline["ssl_keystore_key"]},
        inline | {"ssl_key_password": "guessed"},
        inline | {"ssl_keystore_key": _damaged(inline["ssl_keystore_key"])},
        inline | {"ssl_keystore_certificate_chain": "none"},
    ):
        with pytest.raises(ConfigurationError) as caught:
            check_settings(Options(**options))
        assert secret not in repr(caught.value) + repr(caught.value.__cause__)
        assert "open sesame" not in str(caught.value)


def _damaged(pem: str) -> str:
    """The text with other letters in the first object of PEM."""
    lines = pem.splitlines()
    lines[1] = lines[1][:10] + "AAAAAAAAAA" + lines[1][20:]
    return "\n".join(lines)


def _with_a_dash(pem: str) -> str:
    """The text with a word processor's dash inside of the first object of PEM."""
    lines = pem.splitlines()
    lines[1] = lines[1][:10] + "\u2013" + lines[1][11:]
    return "\n".join(lines)


def _events(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [str(getattr(record, "event", record.message)) for record in caplog.records]
