"""The broker's users, and their authentication at each listener.

Owns the credentials of all mechanisms and makes the sessions of connections. It must not know sockets nor requests;
the mechanisms themselves are ``aiokafkapy.security.sasl``'s, and the keys of tokens are read outside. Kafka's
counterparts are ``CredentialProvider``, ``ScramControlManager`` and ``SaslChannelBuilder``.

Rules:

- ``sasl_users`` may log in by PLAIN and by SCRAM. A change by AlterUserScramCredentials is for SCRAM only, is kept
  in the data folder, and counts before ``sasl_users`` after a restart too;
- all nodes and listeners have the same users; each listener enables its own mechanisms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, TypeAlias

from ...errors import ConfigurationError, UnacceptableCredentialError, UnsupportedSaslMechanismError
from ...security.sasl.gssapi import GSSAPI
from ...security.sasl.kerberos_names import LocalNameRules
from ...security.sasl.plain import PLAIN, PlainCredentialStore
from ...security.sasl.scram_credential import (
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramCredential,
    ScramCredentialStore,
)
from ..config import BrokerConfig
from ..listeners import Endpoint
from .files import ScramFile
from .sasl_session import SaslSession

if TYPE_CHECKING:
    from ...security.sasl.gssapi_server import KerberosService
    from ...security.sasl.json_web_tokens import TokenValidator
    from ...security.sasl.mechanism import SaslServerExchange

__all__ = ["SCRAM_CODES", "Authentication", "ListenerAuthentication", "ScramChange", "TokenKeys"]

SCRAM_CODES: Final[Mapping[int, str]] = {1: SCRAM_SHA_256, 2: SCRAM_SHA_512}
"""The code of a mechanism in the SCRAM APIs."""

ScramChange = tuple[str, int, ScramCredential | None]
"""A user, the code of a mechanism, and the new credential or None to delete it."""

Mechanisms: TypeAlias = "dict[str, Callable[[], SaslServerExchange]]"


class TokenKeys(Protocol):
    """The keys of one listener's tokens, which were read."""

    @property
    def jwks(self) -> object:
        """The JWKS as it was read last, which may be any JSON value."""

    def refresh(self, validator: TokenValidator, now_ms: int) -> None:
        """Give the validator newer keys if it is time; called before each authentication."""

    def ask_again(self, validator: TokenValidator, now_ms: int) -> None:
        """A token came with a key that is not known."""

    def close(self) -> None:
        """Ask no more."""


class Authentication:
    """The users of a cluster. ``is_refusing``: nobody is let in (a fault)."""

    def __init__(self, config: BrokerConfig, data_dir: Path | None, now_ms: Callable[[], int]) -> None:
        """Reads the SCRAM credentials of the data folder. Raises DamagedFileError, and OSError."""
        self.is_refusing = False
        self.scram = {name: ScramCredentialStore() for name in SCRAM_CODES.values()}
        self._plain = PlainCredentialStore(config.sasl_users)
        self._now_ms = now_ms
        self._file = ScramFile(data_dir)
        self._changed = self._file.load()
        for name, credentials in self._changed.items():
            self.scram[name].update({user: each for user, each in credentials.items() if each is not None})
        self._users = config.sasl_users
        self._has_hashed: set[str] = set()
        self._token_keys: list[TokenKeys] = []

    def settings_for(self, endpoint: Endpoint, keys: TokenKeys | None = None) -> ListenerAuthentication | None:
        """The settings of a listener's sessions; None for a listener without SASL.

        A listener that takes signed tokens needs ``keys``. Raises ConfigurationError.
        """
        if not endpoint.has_sasl:
            return None
        return ListenerAuthentication(self, endpoint.config, self._mechanisms(endpoint, keys))

    def close(self) -> None:
        """Ask for no more keys."""
        for keys in self._token_keys:
            keys.close()

    def change_scram(self, changes: list[ScramChange]) -> None:
        """Make changes that were checked, all or none. Raises KafkaStorageError."""
        changed = {name: dict(credentials) for name, credentials in self._changed.items()}
        for user, code, credential in changes:
            kept = changed.setdefault(SCRAM_CODES[code], {})
            kept.pop(user, None)
            if credential is not None or user in self._users:
                kept[user] = credential  # None is kept, too, or the next start would take the password again
        self._file.save(changed)
        self._changed = changed
        for user, code, credential in changes:
            store = self.scram[SCRAM_CODES[code]]
            store.pop(user, None)
            if credential is not None:
                store[user] = credential

    def check_scram_user(self, user: str, code: int) -> ScramCredentialStore:
        """The store of a mechanism's code. Raises Kafka's error for an unknown name or code."""
        if not user:
            raise UnacceptableCredentialError("Username must not be empty")
        if code not in SCRAM_CODES:
            raise UnsupportedSaslMechanismError("Unknown SCRAM mechanism")
        return self.scram[SCRAM_CODES[code]]

    # internals

    def _mechanisms(self, endpoint: Endpoint, keys: TokenKeys | None) -> Mechanisms:
        from ...security.sasl.oauthbearer import OAUTHBEARER
        from ...security.sasl.server import SERVER_MECHANISMS, server_mechanism

        found: Mechanisms = {}
        for name in endpoint.config.sasl_enabled_mechanisms:
            if name == PLAIN:
                found[name] = server_mechanism(name, self._plain)
            elif name in self.scram:
                self._hash_passwords(name)
                found[name] = server_mechanism(name, self.scram[name])
            elif name == OAUTHBEARER:
                found[name] = self._token_exchanges(endpoint.config, keys)
            elif name == GSSAPI:
                found[name] = server_mechanism(name, _kerberos_service(endpoint))
            else:
                raise ConfigurationError(
                    f"listener {endpoint.name!r}: {name!r} is not a mechanism of the dev broker's; write some of"
                    f" {', '.join(SERVER_MECHANISMS)}"
                )
        return found

    def _token_exchanges(self, config: BrokerConfig, keys: TokenKeys | None) -> Callable[[], SaslServerExchange]:
        from ...security.sasl.json_web_tokens import TokenValidator
        from ...security.sasl.oauthbearer import OAUTHBEARER
        from ...security.sasl.server import server_mechanism

        make_validator = partial(
            TokenValidator,
            issuer=config.sasl_oauthbearer_expected_issuer,
            audience=config.sasl_oauthbearer_expected_audience,
            clock_skew_seconds=config.sasl_oauthbearer_clock_skew_seconds,
            sub_claim_name=config.sasl_oauthbearer_sub_claim_name,
            scope_claim_name=config.sasl_oauthbearer_scope_claim_name,
        )
        if keys is None:
            # With a URL of keys this is refused, so that no listener believes unsecured tokens by an oversight.
            is_unsecured = config.sasl_oauthbearer_jwks_endpoint_url is None
            return server_mechanism(OAUTHBEARER, make_validator(unsecured=is_unsecured), now_ms=self._now_ms)
        validator = make_validator(jwks=keys.jwks)
        validator.on_unknown_key = lambda: keys.ask_again(validator, self._now_ms())
        self._token_keys.append(keys)
        exchange = server_mechanism(OAUTHBEARER, validator, now_ms=self._now_ms)

        def with_fresh_keys() -> SaslServerExchange:
            keys.refresh(validator, self._now_ms())
            return exchange()

        return with_fresh_keys

    def _hash_passwords(self, mechanism: str) -> None:
        # Not before a listener wants them: it takes milliseconds for each.
        if mechanism in self._has_hashed:
            return
        self._has_hashed.add(mechanism)
        store = self.scram[mechanism]
        for user, password in self._users.items():
            if user not in store and user not in self._changed.get(mechanism, {}):
                store[user] = ScramCredential.from_password(mechanism, password)


class ListenerAuthentication:
    """The settings of one listener's sessions."""

    __slots__ = ("_authentication", "failure_delay", "max_reauth_ms", "max_receive_size", "mechanisms")

    def __init__(self, authentication: Authentication, config: BrokerConfig, mechanisms: Mechanisms) -> None:
        self._authentication = authentication
        self.mechanisms = mechanisms
        self.max_reauth_ms = config.connections_max_reauth_ms
        self.failure_delay = config.connection_failed_authentication_delay_ms / 1000
        self.max_receive_size = config.sasl_server_max_receive_size

    @property
    def is_refusing(self) -> bool:
        """Whether everybody is refused."""
        return self._authentication.is_refusing

    def new_session(self) -> SaslSession:
        """The session of a new connection."""
        return SaslSession(self)


def _kerberos_service(endpoint: Endpoint) -> KerberosService:
    from ...security.sasl.gssapi_server import KerberosService

    config = endpoint.config
    try:
        rules = LocalNameRules(config.sasl_kerberos_principal_to_local_rules)
        return KerberosService(config.sasl_kerberos_service_name, config.sasl_kerberos_keytab, rules)
    except ConfigurationError as error:
        raise ConfigurationError(f"listener {endpoint.name!r}: {error}") from error
