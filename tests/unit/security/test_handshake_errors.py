"""Handshakes that fail, in memory and on both event loops, and the words for each."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.errors import DisconnectedError, KafkaConnectionError, SslAuthenticationFailedError
from aiokafkapy.security.handshake_errors import explain_failure, is_silent_end
from aiokafkapy.testing import TestCertificates
from tests.unit.security.handshakes import Handshake, Options, client_context, server_context

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(params=["asyncio", "uvloop"])
def loop_factory(request: pytest.FixtureRequest) -> LoopFactory:
    if request.param == "asyncio":
        return asyncio.new_event_loop
    factory: LoopFactory = pytest.importorskip("uvloop").new_event_loop
    return factory


def _client(certificates: TestCertificates, client: str | None = None, **options: Any) -> ssl.SSLContext:
    path = None if client is None else certificates.directory / client
    return client_context(Options(**certificates.client_options(path, **options)))


def _server(certificates: TestCertificates, server: str = "server.pem", **options: Any) -> ssl.SSLContext:
    wanted = options.pop("client_auth", "none")
    return server_context(Options(**certificates.server_options(certificates.directory / server, **options)), wanted)


def _said(error: BaseException | None, host: str = "localhost") -> str:
    """The words for an error that trying again cannot cure."""
    assert error is not None, "the handshake worked"
    explained = explain_failure(error, host, 9093)
    assert isinstance(explained, SslAuthenticationFailedError)
    assert not explained.retriable
    assert explained.__cause__ is error
    start = f"TLS handshake with {host}:9093 failed: "
    assert str(explained).startswith(start)
    return str(explained).removeprefix(start)


def test_an_address_of_ipv6_is_in_brackets() -> None:
    assert "TLS handshake with [::1]:9093 failed: " in str(explain_failure(TimeoutError("late"), "::1", 9093))


# the broker's certificate


def test_a_broker_of_an_unknown_ca(certificates: TestCertificates) -> None:
    client = _client(certificates, ssl_truststore_location=str(certificates.other_ca_file))
    words = _said(Handshake(client, _server(certificates)).client_error)
    assert "of a CA that is not trusted here" in words
    assert "ssl_truststore_location=<PEM file>" in words
    assert words.endswith("(self-signed certificate in certificate chain)")  # OpenSSL's own words


@pytest.mark.parametrize("host", ["elsewhere", "192.0.2.1"])
def test_a_broker_by_another_name(host: str, certificates: TestCertificates) -> None:
    words = _said(Handshake(_client(certificates), _server(certificates), host).client_error, host)
    assert words.startswith(f"the certificate is not for '{host}': use a name that it has")
    assert "ssl_endpoint_identification_algorithm=''" in words


def test_a_broker_whose_certificate_has_expired(certificates: TestCertificates) -> None:
    certificates.server(file="expired.pem", expired=True)
    words = _said(Handshake(_client(certificates), _server(certificates, "expired.pem")).client_error)
    assert words.startswith("the certificate has expired: have it renewed")


def test_a_broker_whose_certificate_was_revoked_or_has_no_list(certificates: TestCertificates) -> None:
    client = _client(certificates, ssl_crl_location=str(certificates.revoke(certificates.server_file)))
    words = _said(Handshake(client, _server(certificates)).client_error)
    assert words.startswith("the certificate was revoked by its CA")
    with TestCertificates() as others:
        # Both CAs are trusted, and the list is of the other one.
        trusted = certificates.ca_file.read_text() + others.ca_file.read_text()
        options = Options(ssl_truststore_certificates=trusted, ssl_crl_location=str(others.crl_file))
        words = _said(Handshake(client_context(options), _server(certificates)).client_error)
    assert words.startswith("there is no revocation list of the certificate's CA: add it to ssl_crl_location")


# our certificate


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_broker_that_wants_a_certificate(protocol: str, certificates: TestCertificates) -> None:
    client = _client(certificates, ssl_enabled_protocols=(protocol,))
    handshake = Handshake(client, _server(certificates, client_auth="required"))
    assert "ssl_keystore_location" in _said(handshake.client_error)
    assert "the other side gave no certificate, and one is required" in _said(handshake.server_error)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"by_other_ca": True}, "refused our certificate: it is not of a CA that the broker trusts"),
        ({"expired": True}, "refused our certificate: it has expired"),
    ],
)
def test_a_broker_that_refuses_ours(
    wrong: dict[str, Any], words: str, protocol: str, certificates: TestCertificates
) -> None:
    certificates.client(file="wrong.pem", **wrong)
    client = _client(certificates, "wrong.pem", ssl_enabled_protocols=(protocol,))
    assert words in _said(Handshake(client, _server(certificates, client_auth="required")).client_error)


def test_a_broker_that_knows_ours_as_revoked(certificates: TestCertificates) -> None:
    crl = certificates.revoke(certificates.client_file)
    server = _server(certificates, client_auth="required", ssl_crl_location=str(crl))
    words = _said(Handshake(_client(certificates, "client.pem"), server).client_error)
    assert "refused our certificate: it was revoked" in words


# nothing in common


def test_no_version_in_common(certificates: TestCertificates) -> None:
    for ours, theirs in (("TLSv1.2", "TLSv1.3"), ("TLSv1.3", "TLSv1.2")):
        client = _client(certificates, ssl_enabled_protocols=(ours,))
        handshake = Handshake(client, _server(certificates, ssl_enabled_protocols=(theirs,)))
        for error in (handshake.client_error, handshake.server_error):
            assert "no version of TLS in common: compare ssl_enabled_protocols" in _said(error)


def test_no_suite_in_common(certificates: TestCertificates) -> None:
    client = _client(
        certificates, ssl_cipher_suites=["ECDHE-ECDSA-AES128-GCM-SHA256"], ssl_enabled_protocols=("TLSv1.2",)
    )
    server = _server(certificates, ssl_cipher_suites=["ECDHE-ECDSA-AES256-GCM-SHA384"])
    handshake = Handshake(client, server)
    assert "compare ssl_enabled_protocols and ssl_cipher_suites with the broker's" in _said(handshake.client_error)
    assert "no cipher suite in common" in _said(handshake.server_error)


# on an event loop: its errors differ from those of ``ssl``


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", bytes(64)])
def test_an_answer_in_plaintext(answer: bytes, certificates: TestCertificates, loop_factory: LoopFactory) -> None:
    def serve(connection: socket.socket) -> None:
        connection.recv(1000)
        connection.sendall(answer)
        connection.recv(1000)

    with _Listener(serve) as port:
        words = _said(_connect(loop_factory, port, _client(certificates)))
    assert words.startswith(
        "the other side does not speak TLS: write the port of a TLS listener, or security_protocol="
    )


@pytest.mark.parametrize("politely", [True, False])
def test_a_listener_that_closes(politely: bool, certificates: TestCertificates, loop_factory: LoopFactory) -> None:
    """A Kafka broker takes the first bytes of TLS for the size of a huge request, and closes."""

    def close(connection: socket.socket) -> None:
        # Unread bytes make the system reset the connection.
        connection.recv(1000 if politely else 4)

    with _Listener(close) as port:
        error = _connect(loop_factory, port, _client(certificates))
    assert isinstance(error, ConnectionResetError)
    assert is_silent_end(error)
    # It may as well be a broker on its way down: to be tried again, unless something without TLS was found there.
    explained = explain_failure(error, "localhost", 9093)
    assert type(explained) is KafkaConnectionError
    assert explained.retriable
    assert "the connection was closed before TLS was set up" in str(explained)
    explained = explain_failure(error, "localhost", 9093, is_plaintext=True)
    assert isinstance(explained, SslAuthenticationFailedError)
    assert "the other side does not speak TLS: write the port of a TLS listener" in str(explained)


def test_a_listener_that_is_silent(certificates: TestCertificates, loop_factory: LoopFactory) -> None:
    with _Listener(lambda connection: [connection.recv(1000), connection.recv(1000)]) as port:
        error = _connect(loop_factory, port, _client(certificates), ssl_handshake_timeout=0.1)
    explained = explain_failure(error, "localhost", 9093)
    assert type(explained) is KafkaConnectionError
    assert explained.retriable
    assert "did not take part in time; is this the port of a TLS listener?" in str(explained)


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_a_certificate_that_is_wanted_on_a_loop(
    protocol: str, certificates: TestCertificates, loop_factory: LoopFactory
) -> None:
    """In TLS 1.3 the connection is made before the other side has seen that there is none."""
    server = _server(certificates, client_auth="required")

    def serve(connection: socket.socket) -> None:
        with pytest.raises(ssl.SSLError):
            server.wrap_socket(connection, server_side=True)

    with _Listener(serve) as port:
        error = _connect(loop_factory, port, _client(certificates, ssl_enabled_protocols=(protocol,)))
    assert isinstance(error, ssl.SSLError)
    assert "ssl_keystore_location" in _said(error)


def test_the_certificates_errors_come_from_a_loop_as_from_ssl(
    certificates: TestCertificates, loop_factory: LoopFactory
) -> None:
    certificates.server(file="expired.pem", expired=True)
    for server, host, words in (
        ("server.pem", "elsewhere", "the certificate is not for 'elsewhere'"),
        ("expired.pem", "localhost", "the certificate has expired"),
    ):
        context = _server(certificates, server)

        def serve(connection: socket.socket, context: ssl.SSLContext = context) -> None:
            with pytest.raises(OSError):
                context.wrap_socket(connection, server_side=True)

        with _Listener(serve) as port:
            error = _connect(loop_factory, port, _client(certificates), server_hostname=host)
        assert words in _said(error, host)


# other errors


@pytest.mark.parametrize(
    ("reason", "words", "is_final"),
    [
        ("SSLV3_ALERT_BAD_CERTIFICATE", "refused our certificate: there was none, or it is not right", True),
        ("SSLV3_ALERT_CERTIFICATE_UNKNOWN", "refused our certificate: it has expired or is not of a CA", True),
        ("SSL/TLS_ALERT_UNKNOWN_CA", "not of a CA that the broker trusts", True),  # as newer OpenSSL writes it
        ("TLSV1_UNRECOGNIZED_NAME", "does not go by the name 'kafka'", True),
        ("TLSV1_ALERT_INTERNAL_ERROR", "had an internal error; its log says why", False),
        ("DECRYPTION_FAILED_OR_BAD_RECORD_MAC", "bytes were changed on their way", False),
        ("SSLV3_ALERT_ILLEGAL_PARAMETER", "ended it with an alert (SSLV3_ALERT_ILLEGAL_PARAMETER)", True),
        ("BAD_ECPOINT", "this side ended it (BAD_ECPOINT)", True),
    ],
)
def test_reasons_that_openssl_may_give(reason: str, words: str, is_final: bool) -> None:
    error = ssl.SSLError(1, f"[SSL: {reason}]")
    error.reason = reason
    explained = explain_failure(error, "kafka", 9093)
    assert words in str(explained)
    assert f"({reason})" in str(explained)
    assert isinstance(explained, SslAuthenticationFailedError) == is_final
    assert explained.retriable != is_final


def test_an_end_that_ssl_itself_saw_is_an_end_as_well() -> None:
    unexpected = ssl.SSLError(1, "[SSL: UNEXPECTED_EOF_WHILE_READING]")
    unexpected.reason = "UNEXPECTED_EOF_WHILE_READING"
    ends = (ssl.SSLEOFError(8, "EOF"), ssl.SSLZeroReturnError(6, "closed"), unexpected, EOFError(), BrokenPipeError())
    assert all(is_silent_end(error) for error in ends)
    assert not is_silent_end(ssl.SSLError(1, "[SSL: WRONG_VERSION_NUMBER]"))
    assert not is_silent_end(ConnectionAbortedError("the handshake took too long"))


def test_an_error_that_is_not_a_fault_of_tls_may_pass() -> None:
    for error in (OSError(113, "No route to host"), TimeoutError("too long")):
        explained = explain_failure(error, "kafka", 9093)
        assert type(explained) is KafkaConnectionError
        assert explained.retriable
    ours = DisconnectedError("by us")
    assert explain_failure(ours, "kafka", 9093) is ours


def test_a_host_that_can_be_no_name_says_so(certificates: TestCertificates) -> None:
    with pytest.raises(ValueError) as caught:
        Handshake(_client(certificates), _server(certificates), ".kafka")
    explained = explain_failure(caught.value, ".kafka", 9093)
    assert isinstance(explained, SslAuthenticationFailedError)
    assert "'.kafka' is not a name that TLS takes" in str(explained)


class _Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, error: Exception | None) -> None:
        self.lost.set_result(error)


def _connect(loop_factory: LoopFactory, port: int, context: ssl.SSLContext, **options: Any) -> BaseException:
    """The error that ends a connection over TLS, be it in the handshake or right after it."""

    async def connect() -> BaseException:
        loop = asyncio.get_running_loop()
        arguments = {"server_hostname": "localhost"} | options
        try:
            _, client = await loop.create_connection(_Client, "127.0.0.1", port, ssl=context, **arguments)
        except OSError as error:
            return error
        lost_with = await client.lost
        assert lost_with is not None
        return lost_with

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        return runner.run(asyncio.wait_for(connect(), 10))


class _Listener:
    """Serves one connection in a thread, blocking as simple programs do; ``with`` gives its port."""

    def __init__(self, serve: Callable[[socket.socket], object]) -> None:
        self._serve = serve
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> int:
        self._thread.start()
        return int(self._socket.getsockname()[1])

    def __exit__(self, *exception: object) -> None:
        self._thread.join(10)
        self._socket.close()

    def _run(self) -> None:
        connection, _ = self._socket.accept()
        with connection:
            connection.settimeout(5)
            self._serve(connection)
