"""The mechanism that the settings ask for.

Owns the interfaces of all mechanisms, also a user's own, the choice among the known ones, and the checks that can be
made before anything is connected. Knows no bytes of any mechanism. Kafka's counterparts are ``SaslChannelBuilder``,
``LoginManager`` and the JDK's ``Sasl.createSaslClient``.

Rules: a ``SaslMechanism`` belongs to one client and lives as long; an exchange belongs to one authentication on one
connection. ``check_settings`` raises the errors that ``mechanism_for`` would; neither reads a file or opens a
connection, but they check whether files of tokens exist.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple, Protocol, runtime_checkable

from ...errors import ConfigurationError
from .aws_msk_iam import AWS_MSK_IAM
from .defaults import KERBEROS_SERVICE_NAME
from .gssapi import GSSAPI, GssapiMechanism
from .jaas import JaasConfig, parse_jaas_config
from .oauthbearer import OAUTHBEARER, check_extensions
from .options import SaslOptions, SaslSettings, parse_pairs
from .plain import PLAIN, PlainMechanism
from .scram import ScramMechanism
from .scram_credential import SCRAM_SHA_256, SCRAM_SHA_512
from .secret import Secret
from .token_refresh import RefreshPolicy

__all__ = ["SaslClientExchange", "SaslMechanism", "SaslServerExchange", "check_settings", "mechanism_for"]


class SaslClientExchange(Protocol):
    """One authentication on one connection: bytes in, bytes out."""

    @property
    def is_complete(self) -> bool:
        """True after the server's last word was accepted."""

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to a challenge; None when there is nothing more to say.

        The first call has ``b""`` and gives the initial response. Raises SaslAuthenticationFailedError.
        """


@runtime_checkable
class SaslMechanism(Protocol):
    """A client's way to authenticate; one object for all its connections."""

    @property
    def name(self) -> str:
        """The name that the broker knows it by, ``SCRAM-SHA-512``."""

    @property
    def blocks(self) -> bool:
        """True when an exchange's ``respond`` may take long: it is then called in a thread."""

    async def prepare(self) -> None:
        """Get the credentials for an exchange, a token say; returns at once when it is there."""

    def exchange(self, host: str) -> SaslClientExchange:
        """A new authentication with the broker at ``host``."""

    def close(self) -> None:
        """The client is closed."""


class SaslServerExchange(Protocol):
    """The broker's half of one authentication: bytes in, bytes out."""

    @property
    def is_complete(self) -> bool:
        """True when the client has proved its identity."""

    @property
    def principal(self) -> str:
        """``User:alice``, once complete."""

    @property
    def expires_at_ms(self) -> int | None:
        """The end of the credential itself, in milliseconds since the epoch; None for never."""

    def respond(self, response: bytes) -> bytes:
        """The answer; raises SaslAuthenticationFailedError with the words for the client."""


def mechanism_for(settings: SaslSettings) -> SaslMechanism:
    """The mechanism that the settings ask for; raises ConfigurationError if it cannot work."""
    options = SaslOptions.of(settings)
    wanted = options.sasl_mechanism
    if wanted is None:
        raise ConfigurationError(f"sasl_mechanism is missing: write one of {_known()}")
    if not isinstance(wanted, str):
        return _own_mechanism(wanted)
    build = _BUILDERS.get(wanted.upper())
    if build is None:
        raise ConfigurationError(f"sasl_mechanism={wanted!r} is unknown: write one of {_known()}, or pass an object")
    return build(wanted.upper(), options)


def check_settings(settings: SaslSettings) -> None:
    """Raise ConfigurationError when no mechanism can be made of the settings."""
    mechanism_for(settings)  # it opens nothing, so there is nothing to close


# internals


def _known() -> str:
    return ", ".join(map(repr, _BUILDERS))


def _own_mechanism(mechanism: Any) -> SaslMechanism:
    missing = [name for name in _INTERFACE if not hasattr(mechanism, name)]
    if missing or isinstance(mechanism, type):
        kind = f"the class {mechanism.__name__}" if isinstance(mechanism, type) else f"a {type(mechanism).__name__}"
        lack = f"lacks {', '.join(missing)}" if missing else "is not an object yet"
        raise ConfigurationError(
            f"sasl_mechanism is {kind}, which {lack}: write a name ({_known()}), or an object with "
            + ", ".join(_INTERFACE)
        )
    return mechanism  # type: ignore[no-any-return]


_INTERFACE: Final = ("name", "blocks", "prepare", "exchange", "close")


class _Login(NamedTuple):
    """A name, a password, and whether they are those of a delegation token."""

    username: str
    password: Secret[str]
    is_token: bool = False


def _plain(name: str, options: SaslOptions) -> SaslMechanism:
    login = _login(name, options)
    for option, text in (("sasl_username", Secret(login.username)), ("sasl_password", login.password)):
        if "\0" in text.reveal():
            raise ConfigurationError(f"{option} has a NUL, which PLAIN cannot send: write another, or use SCRAM")
    return PlainMechanism(login.username, login.password)


def _scram(name: str, options: SaslOptions) -> SaslMechanism:
    login = _login(name, options)
    return ScramMechanism(name, login.username, login.password, is_token=login.is_token)


def _login(name: str, options: SaslOptions) -> _Login:
    jaas = _jaas(name, options, "PlainLoginModule" if name == PLAIN else "ScramLoginModule")
    if jaas.options and (options.sasl_username or options.sasl_password):
        raise ConfigurationError("sasl_jaas_config and sasl_username or sasl_password contradict: write one of them")
    name_in_jaas = jaas.get("username")
    username = name_in_jaas.reveal() if name_in_jaas else options.sasl_username
    password = jaas.get("password") or options.sasl_password
    if not username:
        raise ConfigurationError(f"sasl_username is missing, which sasl_mechanism={name!r} needs: write it")
    if not isinstance(password, Secret) or not password:
        raise ConfigurationError(f"sasl_password is missing, which sasl_mechanism={name!r} needs: write it")
    for option, text in (("sasl_username", Secret(username)), ("sasl_password", password)):
        if any("\ud800" <= character <= "\udfff" for character in text.reveal()):
            raise ConfigurationError(
                f"{option} has a lone surrogate, which is not a character: write text that UTF-8 can hold"
            )
    return _Login(username, password, (jaas.get("tokenauth") or Secret("")).reveal().lower() == "true")


def _oauthbearer(name: str, options: SaslOptions) -> SaslMechanism:
    # Imported here: these modules know asyncio, and their libraries are extras.
    from .cloud_identity import cloud_provider_for
    from .oidc import provider_for
    from .tokens import OAuthBearerMechanism, TokenKeeper, TokenProvider, UnsecuredTokens, provider_of

    jaas = _jaas(name, options, "OAuthBearerLoginModule")
    own, cloud = options.sasl_oauthbearer_token_provider, options.sasl_oauthbearer_metadata_authentication_type
    provider: TokenProvider
    if own is not None:
        provider = provider_of(own)
    elif cloud not in (None, "", "none"):
        provider = cloud_provider_for(cloud, options)
    elif any(option.startswith("unsecuredLogin") for option in jaas.options):
        provider = UnsecuredTokens(jaas.options)
    else:
        provider = provider_for(_with_client_of(jaas, options))
    extensions = {
        option.removeprefix("extension_"): value.reveal()
        for option, value in jaas.options.items()
        if option.startswith("extension_")
    } | parse_pairs("sasl_oauthbearer_extensions", options.sasl_oauthbearer_extensions or "")
    check_extensions(extensions)
    return OAuthBearerMechanism(TokenKeeper(provider, RefreshPolicy.of(options), extensions=extensions))


def _with_client_of(jaas: JaasConfig, options: SaslOptions) -> SaslOptions:
    """Before KIP-1139 the client was in the JAAS string; options of their own come first, as in Java."""
    client_id, scope = (value.reveal() if value else None for value in (jaas.get("clientId"), jaas.get("scope")))
    return replace(
        options,
        sasl_oauthbearer_client_credentials_client_id=options.sasl_oauthbearer_client_credentials_client_id
        or client_id,
        sasl_oauthbearer_client_credentials_client_secret=options.sasl_oauthbearer_client_credentials_client_secret
        or jaas.get("clientSecret"),
        sasl_oauthbearer_scope=options.sasl_oauthbearer_scope or scope,
    )


def _gssapi(name: str, options: SaslOptions) -> SaslMechanism:
    if options.sasl_jaas_config:
        _jaas(name, options, "Krb5LoginModule")
    return GssapiMechanism(options.sasl_kerberos_service_name or KERBEROS_SERVICE_NAME)


def _aws_msk_iam(name: str, options: SaslOptions) -> SaslMechanism:
    from .aws_credentials import AwsMskIamMechanism

    if options.sasl_jaas_config:
        _jaas(name, options, "IAMLoginModule")
    return AwsMskIamMechanism(options)


def _jaas(name: str, options: SaslOptions, module: str) -> JaasConfig:
    """The JAAS string, or an empty one; raises ConfigurationError for the string of another mechanism."""
    text = options.sasl_jaas_config
    if not isinstance(text, Secret) or not text:
        return JaasConfig(module)
    found = parse_jaas_config(text)
    if found.module != module:
        raise ConfigurationError(
            f"sasl_jaas_config has a {found.module}, sasl_mechanism={name!r} needs a {module}: write one of them anew"
        )
    return found


_BUILDERS: Final[Mapping[str, Callable[[str, SaslOptions], SaslMechanism]]] = {
    PLAIN: _plain,
    SCRAM_SHA_256: _scram,
    SCRAM_SHA_512: _scram,
    OAUTHBEARER: _oauthbearer,
    GSSAPI: _gssapi,
    AWS_MSK_IAM: _aws_msk_iam,
}
