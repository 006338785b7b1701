"""The options of every client for security: the protocol, and TLS; ``sasl_options`` has those of SASL.

Owns their names, defaults and descriptions, and whether they fit together; the use of each is ``security.tls``'s
and ``security.sasl``'s, which check the rest. Names are Kafka's with dots as underscores (``SslConfigs``), except for
two that Kafka does not have: ``ssl_crl_location`` and ``ssl_context``.

Rule: an option that would have no effect is an error: a user who gives a password expects its use.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

from ...errors import ConfigurationError
from ...option_fields import default_of
from ...security.protocols import SECURITY_PROTOCOLS, has_sasl, has_tls
from .sasl_options import Location, SaslOptionFields

if TYPE_CHECKING:
    from pydantic import BeforeValidator, Field

    from ...security.sasl.mechanism import SaslMechanism
    from ...security.tls import TlsContexts
else:
    from ...option_fields import BeforeValidator, Field

__all__ = ["SecurityOptions"]


def _names(value: object) -> object:
    """A list, from properties with commas."""
    if isinstance(value, str):
        value = [name.strip() for name in value.split(",") if name.strip()]
    return tuple(value) if isinstance(value, list | set | frozenset) else value


def _algorithm(value: object) -> object:
    """Kafka's empty string; librdkafka says "none"."""
    if isinstance(value, str):
        value = value.strip().lower()
        return "" if value == "none" else value
    return value


_Names = Annotated[Sequence[str], BeforeValidator(_names)]


class SecurityOptions(SaslOptionFields):
    """The encryption of a connection, and the proof of each side's identity."""

    security_protocol: Annotated[
        str,
        Field(description="PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL: encrypted or not, with credentials or without."),
    ] = "PLAINTEXT"

    ssl_truststore_location: Annotated[
        Location,
        Field(
            description="PEM file of the authorities to trust, or a directory of such files. Without one, those of the "
            "system. Read again when it changes."
        ),
    ] = None
    ssl_truststore_certificates: Annotated[
        str | None, Field(description="The authorities to trust, as PEM text instead of a file.")
    ] = None
    ssl_truststore_type: Annotated[
        str, Field(description="PEM only; for others the error says how to convert them.")
    ] = "PEM"
    ssl_keystore_location: Annotated[
        Location,
        Field(
            description="PEM file of our own key and certificate chain, where the broker asks for one. Read again "
            "when it changes."
        ),
    ] = None
    ssl_key_location: Annotated[
        Location,
        Field(description="PEM file of our own key, when it is not in that of the chain. Read again when it changes."),
    ] = None
    ssl_keystore_certificate_chain: Annotated[
        str | None, Field(description="Our certificate chain, as PEM text instead of a file.")
    ] = None
    ssl_keystore_key: Annotated[
        str | None, Field(repr=False, description="Our private key, as PEM text instead of a file.")
    ] = None
    ssl_keystore_type: Annotated[str, Field(description="PEM only; for others the error says how to convert them.")] = (
        "PEM"
    )
    ssl_key_password: Annotated[
        str | None, Field(repr=False, description="Password of our private key, when it is encrypted.")
    ] = None
    ssl_endpoint_identification_algorithm: Annotated[
        str,
        BeforeValidator(_algorithm),
        Field(description='"https": the broker\'s certificate must be for the host connected to; "": it need not.'),
    ] = "https"
    ssl_enabled_protocols: Annotated[_Names, Field(description="Versions of TLS to offer: TLSv1.2, TLSv1.3.")] = (
        "TLSv1.2",
        "TLSv1.3",
    )
    ssl_cipher_suites: Annotated[
        _Names | None, Field(description="Cipher suites to offer. None: those that OpenSSL finds good.")
    ] = None
    ssl_crl_location: Annotated[
        Location, Field(description="PEM file of certificate revocation lists; a certificate on one is refused.")
    ] = None
    ssl_context: Annotated[
        Any,
        Field(
            description="A ready ssl.SSLContext, used as it is, instead of all other ssl_… options; or a function that "
            "returns one, called in a thread for each new connection."
        ),
    ] = None

    @property
    def uses_tls(self) -> bool:
        """True when connections are encrypted."""
        return has_tls(self.security_protocol)

    @property
    def uses_sasl(self) -> bool:
        """True when connections begin with credentials."""
        return has_sasl(self.security_protocol)

    def new_tls_contexts(self) -> TlsContexts | None:
        """The maker of one client's TLS contexts; None when connections are not encrypted."""
        if not self.uses_tls:
            return None
        from ...security.tls import TlsContexts

        return TlsContexts(self)

    def new_sasl_mechanism(self) -> SaslMechanism | None:
        """The mechanism of one client; None when there are no credentials."""
        if not self.uses_sasl:
            return None
        from ...security.sasl.mechanism import mechanism_for

        return mechanism_for(self)

    def check_security(self) -> None:
        """Raise ConfigurationError unless the options fit together and can be used."""
        protocol = self.security_protocol
        if protocol not in SECURITY_PROTOCOLS:
            raise ConfigurationError(
                f"security_protocol={protocol!r} is unknown: write one of {', '.join(SECURITY_PROTOCOLS)}"
            )
        self._refuse_unused("ssl_", is_used=self.uses_tls, protocol="SASL_SSL" if self.uses_sasl else "SSL")
        self._refuse_unused("sasl_", is_used=self.uses_sasl, protocol="SASL_SSL")
        if self.uses_tls:
            from ...security import tls

            tls.check_settings(self)
        if self.uses_sasl:
            from ...security.sasl import mechanism

            mechanism.check_settings(self)

    def _refuse_unused(self, prefix: str, *, is_used: bool, protocol: str) -> None:
        given = sorted(name for name in self.model_fields_set if name.startswith(prefix))
        given = [name for name in given if getattr(self, name) != default_of(type(self), name)]
        if given and not is_used:
            raise ConfigurationError(
                f"{given[0]} has no effect with security_protocol={self.security_protocol!r}: "
                f"write security_protocol={protocol!r}"
            )
