"""The broker's halves, by the name of the mechanism.

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

SERVER_MECHANISMS: Final = (PLAIN, SCRAM_SHA_256, SCRAM_SHA_512, OAUTHBEARER, GSSAPI)


def server_mechanism(
    name: str,
    users: object,
    *,
    tokens: Mapping[str, DelegationToken] | None = None,
    now_ms: Callable[[], int] | None = None,
) -> Callable[[], SaslServerExchange]:
    """Makes the broker's half for each authentication.

    ``users`` is a ``PlainCredentialStore`` for PLAIN and a ``ScramCredentialStore`` for SCRAM, which may change while
    the broker runs; ``tokens`` are delegation tokens by id, for SCRAM. For OAUTHBEARER it is a ``TokenValidator``, and
    ``now_ms`` gives milliseconds since the epoch; for GSSAPI it is a ``KerberosService``. Raises ConfigurationError
    when they do not fit.
    """
    if name == PLAIN and isinstance(users, PlainCredentialStore):
        return lambda: PlainServerExchange(users)
    if name in (SCRAM_SHA_256, SCRAM_SHA_512) and isinstance(users, ScramCredentialStore):
        return lambda: ScramServerExchange(name, users, tokens=tokens)
    if name == OAUTHBEARER and isinstance(users, TokenValidator) and now_ms is not None:
        return lambda: OAuthBearerServerExchange(users, now_ms())
    if name == GSSAPI and isinstance(users, KerberosService):
        return users.exchange
    if name in SERVER_MECHANISMS:
        raise ConfigurationError(
            f"{name} has no use for a {type(users).__name__}"
            + (" without now_ms" if isinstance(users, TokenValidator) else "")
            + ": see server_mechanism"
        )
    raise ConfigurationError(f"{name!r} is not a mechanism of a broker: write one of {', '.join(SERVER_MECHANISMS)}")
