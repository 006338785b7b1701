"""TLS contexts from Kafka's ``ssl.*`` options.

Owns the check of these options, the contexts, and the reloading of their files. Knows nothing of connections or of
their makers: clients and the dev broker's listeners use it alike. The contents of the files are in ``pem_files``, the
meaning of a handshake that fails is in ``handshake_errors``. Kafka's counterparts are ``SslFactory`` and
``DefaultSslEngineFactory``.

Rules:

- PEM only, as files or as text (KIP-651). A JKS or PKCS12 store is refused with the commands that convert it.
- The peer's certificate is always checked, TLS 1.2 is the least, and the host's name is checked unless the user said
  otherwise, which is logged once for each client. Suites without encryption or authentication are never offered.
- A context that is in use does not change. When a file changes, the next connection gets a new context and the present
  ones go on. Files that cannot be used leave the old context in place.
- A function in place of a context is called for each connection, and its context is not kept, so it may rotate
  contexts as it likes. An exception in it is the error of that connection.
- ``ssl`` takes a chain and key from a file only, so PEM text goes through a private temporary one that is removed at
  once. No message has a line of it.
"""

from __future__ import annotations

import contextlib
import os
import re
import ssl
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Final, Literal, Protocol

from ..errors import ConfigurationError, KafkaConnectionError
from ..observability import get_logger
from .pem_files import Fingerprint, PemBlock, blocks_of, fingerprint, java_store, read_blocks

__all__ = ["ClientAuth", "TlsContexts", "TlsSettings", "check_settings"]

_logger = get_logger(__name__)

ClientAuth = Literal["none", "requested", "required"]
"""Kafka's ``ssl.client.auth``: whether a listener asks for a client's certificate."""


class TlsSettings(Protocol):
    """The options of TLS, as a client's configuration and a listener of the dev broker both have them."""

    @property
    def ssl_truststore_location(self) -> str | None:
        """A PEM file of certificates to trust, or a directory of such files."""

    @property
    def ssl_truststore_certificates(self) -> str | None:
        """PEM text of certificates to trust."""

    @property
    def ssl_keystore_location(self) -> str | None:
        """A PEM file with our chain, our own certificate first, and its key unless that has a file of its own."""

    @property
    def ssl_key_location(self) -> str | None:
        """A PEM file with our key."""

    @property
    def ssl_keystore_certificate_chain(self) -> str | None:
        """PEM text of our chain, our own certificate first."""

    @property
    def ssl_keystore_key(self) -> str | None:
        """PEM text of our key."""

    @property
    def ssl_key_password(self) -> str | None:
        """The password of an encrypted key."""

    @property
    def ssl_endpoint_identification_algorithm(self) -> str:
        """ "https", or "" for no check of the host's name."""

    @property
    def ssl_enabled_protocols(self) -> Sequence[str]:
        """Some of "TLSv1.2" and "TLSv1.3"."""

    @property
    def ssl_cipher_suites(self) -> Sequence[str] | None:
        """Suites of TLS 1.2, in OpenSSL's or IANA's spelling; those of TLS 1.3 are always OpenSSL's own."""

    @property
    def ssl_crl_location(self) -> str | None:
        """A PEM file of revocation lists, or a directory of such files."""

    @property
    def ssl_context(self) -> ssl.SSLContext | Callable[[], ssl.SSLContext] | None:
        """A ready context, or a client's function that gives one, in place of all other options."""


def check_settings(settings: TlsSettings, *, server_side: bool = False, client_auth: ClientAuth = "none") -> None:
    """Raise ConfigurationError for options that cannot be used: the option, its value, and the remedy.

    Reads all named files, so that their faults are errors when a client is made.
    """
    _check_choices(settings)
    if settings.ssl_context is not None:
        _check_ready_context(settings, settings.ssl_context, server_side=server_side)
    else:
        _Builder(settings, server_side=server_side, client_auth=client_auth).build(with_system_store=False)


class TlsContexts:
    """The context for new connections of one client or listener, recreated when the files behind it change."""

    def __init__(self, settings: TlsSettings, *, server_side: bool = False, client_auth: ClientAuth = "none") -> None:
        self._settings = settings
        self._builder = _Builder(settings, server_side=server_side, client_auth=client_auth)
        ready = settings.ssl_context
        self._ready = ready if isinstance(ready, ssl.SSLContext) else None
        self._give = None if isinstance(ready, ssl.SSLContext) else ready
        self._context: ssl.SSLContext | None = None
        self._built_from: Fingerprint = ()
        self._refused: Fingerprint | None = None
        self._has_warned = server_side
        if self._ready is not None:
            self._warn_unless(checks_names=self._ready.check_hostname)
        elif self._give is None:
            self._warn_unless(checks_names=bool(settings.ssl_endpoint_identification_algorithm))

    def context(self) -> ssl.SSLContext:
        """The context for a connection that is made now; raises ConfigurationError when there never was one.

        Looks at the files each time, which takes microseconds. To read them takes about a millisecond, and the
        system's own store some 30, and the user's function may block: where that matters, call this in a thread. Raises
        KafkaConnectionError for an exception of that function.
        """
        if self._give is not None:
            return self._given(self._give)
        known = self.known_context()
        if known is not None:
            return known
        found = self._fingerprint()
        if self._context is None:
            self._context = self._builder.build()
            self._built_from = found
        elif found != self._built_from:
            self._renew(self._context, found)
        return self._context

    def known_context(self) -> ssl.SSLContext | None:
        """As ``context``; None if files would have to be read for it, or the user's function called."""
        if self._ready is not None:
            return self._ready
        if self._context is None or self._fingerprint() != self._built_from:
            return None
        return self._context

    # internals

    def _fingerprint(self) -> Fingerprint:
        settings = self._settings
        return fingerprint(
            settings.ssl_truststore_location,
            settings.ssl_keystore_location,
            settings.ssl_key_location,
            settings.ssl_crl_location,
        )

    def _renew(self, old: ssl.SSLContext, found: Fingerprint) -> None:
        """Build from changed files. A failure is tried again with each connection, and logged once for each change."""
        try:
            self._context = self._builder.build()
        except ConfigurationError as error:
            if found != self._refused:
                _logger.warning("tls.reload_failed", error=str(error))
                self._refused = found
            self._context = old
        else:
            _logger.info("tls.reloaded", files=sorted({entry[0] for entry in {*found} ^ {*self._built_from}}))
            self._built_from = found
            self._refused = None

    def _given(self, give: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
        try:
            context: object = give()
        except Exception as error:
            raise KafkaConnectionError(f"the function ssl_context failed: {type(error).__name__}: {error}") from error
        if isinstance(context, ssl.SSLContext) and context.protocol != ssl.PROTOCOL_TLS_SERVER:
            self._warn_unless(checks_names=context.check_hostname)
            return context
        if isinstance(context, Coroutine):
            context.close()
        kind = "context of a server" if isinstance(context, ssl.SSLContext) else type(context).__name__
        raise KafkaConnectionError(
            f"the function ssl_context gave a {kind}: it has to return an ssl.SSLContext of a client, as "
            "ssl.create_default_context() makes one; it is called in a thread, so it may wait"
        )

    def _warn_unless(self, *, checks_names: bool) -> None:
        """Tell a client's user, once, that the brokers' names are not compared with their certificates."""
        if checks_names or self._has_warned:
            return
        self._has_warned = True
        _logger.warning(
            "tls.host_name_unchecked",
            hint="any host with a certificate of a trusted CA can pass for the broker: remove "
            "ssl_endpoint_identification_algorithm='' once the certificates have the brokers' names",
        )


# options other than files

_PROTOCOLS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_READY_EXCLUDES: Final = (
    "ssl_truststore_location",
    "ssl_truststore_certificates",
    "ssl_keystore_location",
    "ssl_key_location",
    "ssl_keystore_certificate_chain",
    "ssl_keystore_key",
    "ssl_cipher_suites",
    "ssl_crl_location",
)
# Ciphers that OpenSSL must not choose, with any setting: no authentication, no encryption.
_NEVER: Final = ":!aNULL:!eNULL"


def _check_choices(settings: TlsSettings) -> None:
    algorithm = settings.ssl_endpoint_identification_algorithm
    if algorithm.lower() not in ("https", ""):
        raise ConfigurationError(
            f"ssl_endpoint_identification_algorithm={algorithm!r} is unknown: write 'https', or '' for no check of "
            "host names"
        )
    if not settings.ssl_enabled_protocols:
        raise ConfigurationError("ssl_enabled_protocols is empty: write ('TLSv1.2', 'TLSv1.3') or one of them")
    for protocol in settings.ssl_enabled_protocols:
        if protocol not in _PROTOCOLS:
            raise ConfigurationError(
                f"ssl_enabled_protocols: {protocol!r} is not supported: write TLSv1.2, TLSv1.3 or both"
            )
    for one, other in (
        ("ssl_truststore_location", "ssl_truststore_certificates"),
        ("ssl_keystore_location", "ssl_keystore_certificate_chain"),
        ("ssl_keystore_location", "ssl_keystore_key"),
        ("ssl_key_location", "ssl_keystore_key"),
    ):
        if getattr(settings, one) is not None and getattr(settings, other) is not None:
            raise ConfigurationError(f"{one} and {other} are both given: write one of them")
    if settings.ssl_key_location is not None and settings.ssl_keystore_location is None:
        raise ConfigurationError(
            "ssl_key_location is given without ssl_keystore_location: write there the PEM file of the certificate chain"
        )
    chain, key = settings.ssl_keystore_certificate_chain, settings.ssl_keystore_key
    if (chain is None) != (key is None):
        given, missing = "ssl_keystore_certificate_chain", "ssl_keystore_key"
        if chain is None:
            given, missing = missing, given
        raise ConfigurationError(f"{given} is given without {missing}: write both")
    for store in ("truststore", "keystore"):
        _check_store_type(settings, store)


def _check_store_type(settings: TlsSettings, store: str) -> None:
    """Check Java's type of a store, if the configuration has such an option at all."""
    kind = getattr(settings, f"ssl_{store}_type", None)
    if kind is None or kind.upper() == "PEM":
        return
    option = f"ssl_{store}_location"
    location = getattr(settings, option)
    if kind.upper() not in ("JKS", "JCEKS", "PKCS12"):
        raise ConfigurationError(f"ssl_{store}_type={kind!r} is unknown: write PEM")
    raise java_store(f"ssl_{store}_type={kind!r}", option, location or f"{store}.{kind.lower()}", kind.upper())


def _check_ready_context(settings: TlsSettings, context: object, *, server_side: bool) -> None:
    is_function = callable(context) and not isinstance(context, type) and not server_side
    if not isinstance(context, ssl.SSLContext) and not is_function:
        raise ConfigurationError(
            f"ssl_context={context!r} is not an ssl.SSLContext: ssl.create_default_context() makes one"
            + ("" if server_side else "; a function that returns one is taken, too")
        )
    wrong = ssl.PROTOCOL_TLS_CLIENT if server_side else ssl.PROTOCOL_TLS_SERVER
    if isinstance(context, ssl.SSLContext) and context.protocol == wrong:
        side = "a client" if wrong is ssl.PROTOCOL_TLS_CLIENT else "a server"
        raise ConfigurationError(f"ssl_context is made for {side}, with {wrong.name}: make it without")
    for name in _READY_EXCLUDES:
        if getattr(settings, name) is not None:
            raise ConfigurationError(
                f"{name} has no effect beside ssl_context: put it into the context, or leave one out"
            )
    if not settings.ssl_endpoint_identification_algorithm and getattr(context, "check_hostname", True):
        raise ConfigurationError(
            "ssl_endpoint_identification_algorithm='' has no effect beside ssl_context: set its check_hostname to False"
        )


# building a context

_CERTIFICATE: Final = "CERTIFICATE"
_REVOCATION_LIST: Final = "X509 CRL"


class _Builder:
    """Makes a context from settings, each step with the words for the faults of its option."""

    def __init__(self, settings: TlsSettings, *, server_side: bool, client_auth: ClientAuth) -> None:
        self.settings = settings
        self.server_side = server_side
        self.client_auth = client_auth

    def build(self, *, with_system_store: bool = True) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER if self.server_side else ssl.PROTOCOL_TLS_CLIENT)
        versions = [_PROTOCOLS[protocol] for protocol in self.settings.ssl_enabled_protocols]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        if self.settings.ssl_cipher_suites is not None:
            _set_cipher_suites(context, self.settings.ssl_cipher_suites)
        if self.server_side:
            modes = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
            context.verify_mode = modes[self.client_auth]
            context.options |= ssl.OP_NO_RENEGOTIATION  # as Kafka's SslTransportLayer
        else:
            context.check_hostname = bool(self.settings.ssl_endpoint_identification_algorithm)
            context.verify_mode = ssl.CERT_REQUIRED
        self._load_own_chain(context)
        self._load_trusted(context, with_system_store=with_system_store)
        self._load_revocation_lists(context)
        return context

    def _load_own_chain(self, context: ssl.SSLContext) -> None:
        settings = self.settings
        location = settings.ssl_keystore_location
        if location is not None:
            name = f"ssl_keystore_location={location!r}"
            blocks = blocks_of("ssl_keystore_location", location)
            if settings.ssl_key_location is not None:
                name += f" with ssl_key_location={settings.ssl_key_location!r}"
                blocks += [block for block in blocks_of("ssl_key_location", settings.ssl_key_location) if block.is_key]
        elif settings.ssl_keystore_certificate_chain is not None and settings.ssl_keystore_key is not None:
            name = "ssl_keystore_certificate_chain with ssl_keystore_key"
            blocks = read_blocks("ssl_keystore_certificate_chain", settings.ssl_keystore_certificate_chain)
            blocks += read_blocks("ssl_keystore_key", settings.ssl_keystore_key)
        elif self.server_side:
            raise ConfigurationError("a TLS listener needs a certificate: write ssl_keystore_location=<PEM file>")
        else:
            return
        chain = [block for block in blocks if block.label == _CERTIFICATE]
        keys = [block for block in blocks if block.is_key]
        if not chain or len(keys) != 1:
            raise ConfigurationError(
                f"{name} has {len(chain)} certificates and {len(keys)} private keys in PEM: write the chain, our own "
                "certificate first, and its one key, which may be in a file of its own (ssl_key_location)"
            )
        if keys[0].is_encrypted and not settings.ssl_key_password:
            raise ConfigurationError(f"{name}: the key is encrypted: write its password as ssl_key_password")
        _load_chain(context, name, keys[0], chain, settings.ssl_key_password)

    def _load_trusted(self, context: ssl.SSLContext, *, with_system_store: bool) -> None:
        location, text = self.settings.ssl_truststore_location, self.settings.ssl_truststore_certificates
        if location is None and text is None:
            if self.server_side and self.client_auth != "none":
                raise ConfigurationError(
                    f"ssl_client_auth={self.client_auth!r} needs the CA of the clients' certificates: write "
                    "ssl_truststore_location=<PEM file>"
                )
            if with_system_store and not self.server_side:
                context.load_default_certs(ssl.Purpose.SERVER_AUTH)
            return
        if location is not None:
            name, blocks = f"ssl_truststore_location={location!r}", blocks_of("ssl_truststore_location", location)
        else:
            name = "ssl_truststore_certificates"
            blocks = read_blocks(name, text or "")
        trusted = [block.text for block in blocks if block.label == _CERTIFICATE]
        if not trusted:
            raise ConfigurationError(f"{name} has no certificates in PEM: write the CA's, or nothing for the system's")
        try:
            context.load_verify_locations(cadata="\n".join(dict.fromkeys(trusted)))
        except ssl.SSLError as error:
            raise ConfigurationError(f"{name} has a damaged certificate: {_reason(error)}") from error
        # As in Java, every certificate in the store is an anchor, also an intermediate CA or the broker's own.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN

    def _load_revocation_lists(self, context: ssl.SSLContext) -> None:
        location = self.settings.ssl_crl_location
        if location is None:
            return
        name = f"ssl_crl_location={location!r}"
        lists = [block.text for block in blocks_of("ssl_crl_location", location) if block.label == _REVOCATION_LIST]
        if not lists:
            raise ConfigurationError(
                f"{name} has no revocation list in PEM: write one, converted from DER where needed by "
                "`openssl crl -inform DER -in list.crl -out list.pem`"
            )
        try:
            with _private_file("\n".join(lists)) as path:
                context.load_verify_locations(cafile=path)
        except ssl.SSLError as error:
            raise ConfigurationError(f"{name} has a damaged revocation list: {_reason(error)}") from error
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF


def _load_chain(
    context: ssl.SSLContext, name: str, key: PemBlock, chain: Sequence[PemBlock], password: str | None
) -> None:
    text = "\n".join(block.text for block in (key, *chain))
    try:
        with _private_file(text) as path:
            # Never None: OpenSSL would ask at the terminal.
            context.load_cert_chain(path, password=password or "")
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            what = "the key is not that of the first certificate: write our own certificate before those of its CAs"
        elif key.is_encrypted:
            what = f"the key cannot be opened with ssl_key_password: {_reason(error)}"
        else:
            what = _reason(error)
        raise ConfigurationError(f"{name}: {what}") from error
    except ValueError as error:  # a password of more than 1,023 bytes
        raise ConfigurationError(f"ssl_key_password cannot be used: {error}") from error


def _reason(error: ssl.SSLError) -> str:
    """OpenSSL's word, such as BAD_DECRYPT, or its sentence if there is no word."""
    return error.reason or str(error)


@contextlib.contextmanager
def _private_file(text: str) -> Iterator[str]:
    """A temporary file that this user alone can read (mode 0600): ``ssl`` takes these only from a file."""
    import tempfile

    number, path = tempfile.mkstemp(prefix="aiokafkapy-", suffix=".pem")
    try:
        with os.fdopen(number, "w", encoding="ascii") as file:
            file.write(text)
        yield path
    finally:
        Path(path).unlink(missing_ok=True)


def _set_cipher_suites(context: ssl.SSLContext, suites: Sequence[str]) -> None:
    names = [name.strip() for suite in suites for name in suite.split(":") if name.strip()]
    always = {suite["name"] for suite in context.get_ciphers() if suite["protocol"] == "TLSv1.3"}
    newer = {name for name in names if name in always}
    if newer and newer != always:
        raise ConfigurationError(
            f"ssl_cipher_suites: {', '.join(sorted(newer))}: Python cannot choose among the suites of TLS 1.3: leave "
            "them out, or name all of " + ", ".join(sorted(always))
        )
    older = [_openssl_name(name) for name in names if name not in always]
    if not older:
        if not newer:
            raise ConfigurationError("ssl_cipher_suites is empty: name some, or leave it out for OpenSSL's own choice")
        if context.maximum_version < ssl.TLSVersion.TLSv1_3:
            raise ConfigurationError(
                "ssl_cipher_suites has suites of TLS 1.3 only: add TLSv1.3 to ssl_enabled_protocols"
            )
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        return
    for name in older:
        if name[0] not in "!-+@":  # names that exclude other suites
            _select(context, name, f"ssl_cipher_suites: {name!r} is not known to {ssl.OPENSSL_VERSION}, or has no use")
    _select(context, ":".join(older), f"ssl_cipher_suites={':'.join(older)!r} leaves none")


def _select(context: ssl.SSLContext, names: str, what: str) -> None:
    try:
        context.set_ciphers(names + _NEVER)
    except ssl.SSLError as error:
        raise ConfigurationError(f"{what}: `openssl ciphers -s -v -tls1_2` lists those that are") from error


def _openssl_name(name: str) -> str:
    """TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256 is ECDHE-RSA-AES128-GCM-SHA256 to OpenSSL."""
    found = re.fullmatch(r"(?:TLS|SSL)_(\w+)_WITH_(\w+)", name)
    if found is None:
        return name
    exchange, cipher = found.groups()
    # OpenSSL says neither the usual key exchange nor the usual mode.
    exchange = "" if exchange == "RSA" else exchange.replace("_", "-") + "-"
    cipher = re.sub(r"(AES|ARIA|CAMELLIA)_(\d+)", r"\1\2", cipher).replace("_CBC_", "_").replace("CCM_8", "CCM8")
    cipher = cipher.removesuffix("_SHA256") if "POLY1305" in cipher else cipher
    return exchange + cipher.replace("_", "-")
