"""Chooses the broker's half of a mechanism, by the mechanism's name.

Owns the choice, and the check that each has its users' credentials. Kafka's counterpart is the server's part of
``SaslChannelBuilder``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...errors import ConfigurationError
from .gssapi import GSSAPI
from .gssapi_server import KerberosService
from .json_web_tokens import TokenValidator
from .mechanism import SaslServerExchange
from .oauthbearer import OAUTHBEARER, OAuthBearerServerExchange
from .plain import PLAIN, PlainCredentialStore, PlainServerExchange
from .scram import ScramServerExchange
from .scram_credential import SCRAM_SHA_256, SCRAM_SHA_512, DelegationToken, ScramCredentialStore

__all__ = ["SERVER_MECHANISMS", "server_mechanism"]

ServerCredentials = PlainCredentialStore | ScramCredentialStore | TokenValidator | KerberosService

SERVER_MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)


def server_mechanism(
    name: str,
    credentials: ServerCredentials,
    *,
    tokens: Mapping[str, DelegationToken] | None = None,
    now_ms: Callable[[], int] | None = None,
) -> Callable[[], SaslServerExchange]:
    """Makes the broker's half for each authentication.

    ``credentials`` is a ``PlainCredentialStore`` for PLAIN and a ``ScramCredentialStore`` for SCRAM, which may change
    while the broker runs; ``tokens`` are delegation tokens by id, for SCRAM. For OAUTHBEARER it is a
    ``TokenValidator``, and ``now_ms`` gives milliseconds since the epoch; for GSSAPI it is a ``KerberosService``.
    Raises ConfigurationError when they do not fit.
    """
    if name == PLAIN and isinstance(credentials, PlainCredentialStore):
        return lambda: PlainServerExchange(credentials)
    if name in (SCRAM_SHA_256, SCRAM_SHA_512) and isinstance(credentials, ScramCredentialStore):
        return lambda: ScramServerExchange(name, credentials, tokens=tokens)
    if name == OAUTHBEARER and isinstance(credentials, TokenValidator) and now_ms is not None:
        return lambda: OAuthBearerServerExchange(credentials, now_ms())
    if name == GSSAPI and isinstance(credentials, KerberosService):
        return credentials.exchange
    if name in SERVER_MECHANISMS:
        raise ConfigurationError(
            f"{name} has no use for a {type(credentials).__name__}"
            + (" without now_ms" if isinstance(credentials, TokenValidator) else "")
            + ": see server_mechanism"
        )
    raise ConfigurationError(f"{name!r} is not a mechanism of a broker: write one of {', '.join(SERVER_MECHANISMS)}")
