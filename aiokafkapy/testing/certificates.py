"""Throw-away certificates for TLS tests: a CA, servers, clients, and invalid ones.

    certificates = TestCertificates(tmp_path)
    async with KafkaProducer(servers, **certificates.client_options()) as producer: ...

Owns the certificates, their PEM files, and the options by which clients and listeners use them. Knows nothing of
brokers or handshakes. The certificates are made by trustme, or by cryptography where trustme cannot. Kafka's
counterpart is ``TestSslUtils``, in its own tests.

Rules: a file has key and chain together, the key in PKCS #8, which Kafka's brokers require, and is readable by its
owner only. Files are replaced atomically (``renew``), never modified. Needs ``pip install 'aiokafkapy[testing]'``.
"""

from __future__ import annotations

import datetime
import os
import shutil
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

try:
    import trustme
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "TestCertificates needs trustme: pip install 'aiokafkapy[testing]'", name=missing.name
    ) from missing

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

__all__ = ["TestCertificates"]

KeyKind = Literal["EC", "RSA"]

LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "::1")
# trustme requires a name, but of a client's certificate only the distinguished name is read.
_CLIENT_NAME: Final = "client.invalid"
_DAY: Final = datetime.timedelta(days=1)


class TestCertificates:
    """A CA with a server's and a client's certificate, and more on request, as PEM files in one directory.

    ``directory`` is created if necessary; by default it is a temporary one, removed by ``close``, at the end of a
    ``with`` block, or with the object. ``names`` are the server's: host names, ``*.example.com``, addresses.
    ``client`` is the distinguished name of the client, which is its principal on a broker: ``User:CN=client``.
    """

    __test__: ClassVar = False  # pytest would collect it as a test class

    def __init__(
        self,
        directory: str | os.PathLike[str] | None = None,
        *,
        names: Sequence[str] = LOOPBACK_NAMES,
        client: str = "CN=client",
    ) -> None:
        temporary = directory is None
        self.directory = Path(tempfile.mkdtemp(prefix="aiokafkapy-certificates-") if directory is None else directory)
        self.directory.mkdir(parents=True, exist_ok=True)
        # Without ``close`` it is removed with the object, or when the process ends.
        self._remove = weakref.finalize(self, shutil.rmtree, self.directory, ignore_errors=True) if temporary else None
        self._authorities = {False: trustme.CA(), True: trustme.CA()}
        self._issued: dict[Path, _Order] = {}
        self._revoked: dict[bool, list[x509.RevokedCertificate]] = {False: [], True: []}
        self.ca_file = self._write("ca.pem", self._authorities[False].cert_pem.bytes())
        """The CA's certificate."""
        self.other_ca_file = self._write("other-ca.pem", self._authorities[True].cert_pem.bytes())
        """The certificate of another CA, which must not be trusted."""
        self.crl_file = self.directory / "crl.pem"
        """The CA's list of revoked certificates, empty until ``revoke`` adds to it."""
        self._write_revocations()
        self.server_file = self.server(*names)
        """Key and chain of the server."""
        self.client_file = self.client(client)
        """Key and chain of the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the directory if it is a temporary one."""
        if self._remove is not None:
            self._remove()

    def server(
        self,
        *names: str,
        file: str = "server.pem",
        expired: bool = False,
        by_other_ca: bool = False,
        key: KeyKind = "EC",
        password: str | None = None,
    ) -> Path:
        """Issue a certificate for these host names and addresses; returns the file with its key and chain.

        A file of that name is replaced. ``password`` encrypts the key.
        """
        names = names or LOOPBACK_NAMES
        # Brokers accept a renewed certificate only with the same subject (KIP-226).
        order = _Order(
            names=names,
            subject=f"CN={names[0]}",
            expired=expired,
            by_other_ca=by_other_ca,
            key=key,
            password=password,
        )
        return self._issue(file, order)

    def client(
        self,
        distinguished_name: str = "CN=client",
        *,
        file: str = "client.pem",
        expired: bool = False,
        by_other_ca: bool = False,
        key: KeyKind = "EC",
        password: str | None = None,
    ) -> Path:
        """Issue a certificate for a client, ``"CN=alice,OU=Data,O=Example,C=DE"``; returns the file, as ``server``."""
        order = _Order(
            names=(_CLIENT_NAME,),
            subject=distinguished_name,
            expired=expired,
            by_other_ca=by_other_ca,
            key=key,
            password=password,
        )
        return self._issue(file, order)

    def renew(self, file: str | os.PathLike[str], *, expired: bool = False) -> Path:
        """Atomically replace a file of this object with a new key and certificate for the same names."""
        path = Path(file)
        return self._issue(path.name, replace(self._issued[path], expired=expired))

    def revoke(self, *files: str | os.PathLike[str]) -> Path:
        """Revoke the certificates currently in these files; returns the updated revocation list, ``crl_file``."""
        for file in files:
            certificate = x509.load_pem_x509_certificate(Path(file).read_bytes())
            entry = x509.RevokedCertificateBuilder().serial_number(certificate.serial_number)
            revoked = entry.revocation_date(_now() - _DAY).build()
            self._revoked[self._issued[Path(file)].by_other_ca].append(revoked)
        self._write_revocations()
        return self.crl_file

    def client_options(self, client: str | os.PathLike[str] | None = None, **options: object) -> dict[str, Any]:
        """The options of a client that trusts the CA, by our own names; ``options`` take precedence.

        ``client`` is the file of its certificate, such as ``client_file``; by default it presents none.
        """
        made: dict[str, object] = {"security_protocol": "SSL", "ssl_truststore_location": str(self.ca_file)}
        if client is not None:
            made["ssl_keystore_location"] = os.fspath(client)
            if (password := self._issued[Path(client)].password) is not None:
                made["ssl_key_password"] = password
        return made | options

    def inline_client_options(self, client: str | os.PathLike[str] | None = None, **options: object) -> dict[str, Any]:
        """``client_options`` with the PEM text itself instead of paths."""
        made = self.client_options(client)
        del made["ssl_truststore_location"]
        made["ssl_truststore_certificates"] = self.ca_file.read_text()
        if client is not None:
            key, chain = _parts(Path(made.pop("ssl_keystore_location")).read_text())
            made |= {"ssl_keystore_certificate_chain": chain, "ssl_keystore_key": key}
        return made | options

    def client_properties(self, client: str | os.PathLike[str] | None = None) -> dict[str, str]:
        """The options of a client by the names of Kafka's Java clients."""
        return _dotted(self.client_options(client)) | self._store_types(with_keystore=client is not None)

    def server_options(self, server: str | os.PathLike[str] | None = None, **options: object) -> dict[str, Any]:
        """The options of a listener that presents ``server_file`` or another, and trusts the CA's clients."""
        path = self.server_file if server is None else Path(server)
        return self.client_options(path) | options

    def server_properties(self, server: str | os.PathLike[str] | None = None) -> dict[str, str]:
        """The options of a listener by the names of Kafka's brokers, without the listener's prefix."""
        properties = _dotted(self.server_options(server)) | self._store_types(with_keystore=True)
        del properties["security.protocol"]
        return properties

    # internals

    def _issue(self, name: str, order: _Order) -> Path:
        path = self._write(name, _certificate(self._authorities[order.by_other_ca], order))
        self._issued[path] = order
        return path

    def _write(self, name: str, content: bytes) -> Path:
        """Write a file atomically: readers see the old one or the new one."""
        number, scratch = tempfile.mkstemp(dir=self.directory, prefix=f".{name}-")
        with os.fdopen(number, "wb") as file:
            file.write(content)
        return Path(scratch).replace(self.directory / name)

    def _write_revocations(self) -> None:
        lists = (_revocation_list(authority, self._revoked[other]) for other, authority in self._authorities.items())
        self._write(self.crl_file.name, b"".join(lists))

    def _store_types(self, *, with_keystore: bool) -> dict[str, str]:
        return {"ssl.truststore.type": "PEM"} | ({"ssl.keystore.type": "PEM"} if with_keystore else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Order:
    """The arguments of a certificate, kept to renew it."""

    names: Sequence[str]
    subject: str
    expired: bool
    by_other_ca: bool
    key: KeyKind
    password: str | None


def _now() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


def _certificate(authority: trustme.CA, order: _Order) -> bytes:
    """Key and chain in PEM."""
    kind = trustme.KeyType.RSA if order.key == "RSA" else trustme.KeyType.ECDSA
    not_after = _now() - _DAY if order.expired else None
    leaf = authority.issue_cert(*order.names, not_after=not_after, key_type=kind)
    key = serialization.load_pem_private_key(leaf.private_key_pem.bytes(), None)
    chain = [blob.bytes() for blob in leaf.cert_chain_pems]
    chain[0] = _with_subject(authority, chain[0], order.subject)
    encryption: serialization.KeySerializationEncryption = serialization.NoEncryption()
    if order.password is not None:
        encryption = serialization.BestAvailableEncryption(order.password.encode())
    packed = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption)
    return packed + b"".join(chain)


def _with_subject(authority: trustme.CA, pem: bytes, distinguished_name: str) -> bytes:
    """The certificate with any subject: trustme supports only three of its fields."""
    made = x509.load_pem_x509_certificate(pem)
    builder = x509.CertificateBuilder(
        issuer_name=made.issuer,
        subject_name=x509.Name.from_rfc4514_string(distinguished_name),
        public_key=made.public_key(),
        serial_number=made.serial_number,
        not_valid_before=made.not_valid_before_utc,
        not_valid_after=made.not_valid_after_utc,
        extensions=list(made.extensions),
    )
    return builder.sign(_key_of(authority), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _revocation_list(authority: trustme.CA, revoked: Sequence[x509.RevokedCertificate]) -> bytes:
    issuer = x509.load_pem_x509_certificate(authority.cert_pem.bytes()).subject
    builder = x509.CertificateRevocationListBuilder(
        issuer, _now() - _DAY, _now() + 3_650 * _DAY, revoked_certificates=list(revoked)
    )
    return builder.sign(_key_of(authority), hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def _key_of(authority: trustme.CA) -> ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey:
    key = serialization.load_pem_private_key(authority.private_key_pem.bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey)  # trustme makes no others
    return key


def _parts(pem: str) -> tuple[str, str]:
    """Key and chain of one of our files: the key comes first."""
    start = pem.index("-----BEGIN CERTIFICATE-----")
    return pem[:start], pem[start:]


def _dotted(options: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", "."): str(value) for name, value in options.items()}
