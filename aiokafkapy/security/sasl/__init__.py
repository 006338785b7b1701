"""SASL: one file per mechanism, each a state machine of bytes, with the broker's half where the dev broker has one.

In come settings, challenges and responses; out go bytes, a principal, or SaslAuthenticationFailedError. ``mechanism``
has the interfaces and chooses the client's half, ``server`` chooses the broker's. The connection's set-up carries the
bytes (SaslHandshake, SaslAuthenticate) and knows no mechanism. Kafka's counterparts are ``common.security.plain``,
``.scram``, ``.oauthbearer`` and ``.kerberos``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazy_names

if TYPE_CHECKING:
    from .aws_msk_iam import AwsCredentials
    from .json_web_tokens import TokenValidator, unsecured_token
    from .mechanism import (
        SaslClientExchange,
        SaslMechanism,
        SaslServerExchange,
        check_settings,
        mechanism_for,
    )
    from .oauthbearer import OAuthBearerToken
    from .options import SaslOptions, SaslSettings
    from .plain import PlainCredentialStore
    from .scram_credential import DelegationToken, ScramCredential, ScramCredentialStore
    from .secret import Secret
    from .server import SERVER_MECHANISMS, server_mechanism

__all__ = [
    "SaslMechanism",
    "SaslClientExchange",
    "SaslServerExchange",
    "SaslSettings",
    "SaslOptions",
    "mechanism_for",
    "check_settings",
    "SERVER_MECHANISMS",
    "server_mechanism",
    "PlainCredentialStore",
    "ScramCredentialStore",
    "ScramCredential",
    "DelegationToken",
    "OAuthBearerToken",
    "TokenValidator",
    "AwsCredentials",
    "unsecured_token",
    "Secret",
]

# Imported on first access: most clients and brokers have no credentials.
_HOMES = {
    "AwsCredentials": "aws_msk_iam",
    "DelegationToken": "scram_credential",
    "OAuthBearerToken": "oauthbearer",
    "PlainCredentialStore": "plain",
    "SERVER_MECHANISMS": "server",
    "SaslClientExchange": "mechanism",
    "SaslMechanism": "mechanism",
    "SaslOptions": "options",
    "SaslServerExchange": "mechanism",
    "SaslSettings": "options",
    "ScramCredential": "scram_credential",
    "ScramCredentialStore": "scram_credential",
    "Secret": "secret",
    "TokenValidator": "json_web_tokens",
    "check_settings": "mechanism",
    "mechanism_for": "mechanism",
    "server_mechanism": "server",
    "unsecured_token": "json_web_tokens",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
