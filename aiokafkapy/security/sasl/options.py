"""The options of SASL, with Kafka's names and defaults.

Owns the list of options, and the grammar of options that are lists of pairs; each mechanism checks its own options.
Kafka's counterpart is ``SaslConfigs``.

Rule: an object with settings (a client's configuration, a listener) may lack attributes for mechanisms that it does not
offer: ``SaslOptions.of`` takes the defaults for them. Secrets are put into holders that do not show them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from typing import Final, Protocol

from ...errors import ConfigurationError
from . import defaults
from .secret import Secret

__all__ = ["SaslOptions", "SaslSettings", "parse_pairs"]

_UNQUOTED_COMMA: Final = re.compile(r"(?<!\\),")


class SaslSettings(Protocol):
    """The SASL options of a client's configuration; see ``SaslOptions`` for defaults."""

    @property
    def sasl_mechanism(self) -> object:
        """A name, or an object with the interface of ``SaslMechanism``; None without SASL."""

    @property
    def sasl_username(self) -> str | None:
        """The user of PLAIN and SCRAM."""

    @property
    def sasl_password(self) -> object:
        """Text, a ``Secret``, or pydantic's holder of one."""

    @property
    def sasl_jaas_config(self) -> object:
        """Kafka's ``sasl.jaas.config``, in a holder as the password."""

    @property
    def sasl_kerberos_service_name(self) -> str | None:
        """The first part of the brokers' principals."""

    @property
    def sasl_oauthbearer_token_provider(self) -> object:
        """An async callable, or an object with an async ``token()``."""


@dataclass(frozen=True, kw_only=True)
class SaslOptions:
    """Every option of SASL. ``*_ms`` are milliseconds, ``*_seconds`` are seconds; a secret is kept in a holder."""

    sasl_mechanism: object = None
    """A name, or an object with the interface of ``SaslMechanism``."""
    sasl_username: str | None = None
    sasl_password: Secret[str] | str | None = None
    sasl_jaas_config: Secret[str] | str | None = None

    sasl_kerberos_service_name: str | None = None

    sasl_oauthbearer_token_provider: object = None
    """An async callable, or an object with an async ``token()``, which gives a ``str`` or an ``OAuthBearerToken``."""
    sasl_oauthbearer_token_endpoint_url: str | None = None
    sasl_oauthbearer_jwt_retriever_class: str | None = None
    sasl_oauthbearer_metadata_authentication_type: str | None = None
    sasl_oauthbearer_config: str | None = None
    sasl_oauthbearer_extensions: str | None = None
    sasl_oauthbearer_scope: str | None = None
    sasl_oauthbearer_scope_claim_name: str = defaults.SCOPE_CLAIM_NAME
    sasl_oauthbearer_sub_claim_name: str = defaults.SUB_CLAIM_NAME
    sasl_oauthbearer_client_credentials_client_id: str | None = None
    sasl_oauthbearer_client_credentials_client_secret: Secret[str] | str | None = None
    sasl_oauthbearer_header_urlencode: bool = False
    sasl_oauthbearer_assertion_algorithm: str = defaults.ASSERTION_ALGORITHM
    sasl_oauthbearer_assertion_claim_aud: str | None = None
    sasl_oauthbearer_assertion_claim_exp_seconds: int = defaults.ASSERTION_EXP_SECONDS
    sasl_oauthbearer_assertion_claim_iss: str | None = None
    sasl_oauthbearer_assertion_claim_jti_include: bool = False
    sasl_oauthbearer_assertion_claim_nbf_seconds: int = defaults.ASSERTION_NBF_SECONDS
    sasl_oauthbearer_assertion_claim_sub: str | None = None
    sasl_oauthbearer_assertion_file: str | None = None
    sasl_oauthbearer_assertion_private_key_file: str | None = None
    sasl_oauthbearer_assertion_private_key_passphrase: Secret[str] | str | None = None
    sasl_oauthbearer_assertion_template_file: str | None = None

    sasl_login_connect_timeout_ms: int | None = None
    sasl_login_read_timeout_ms: int | None = None
    sasl_login_retry_backoff_ms: int = defaults.RETRY_BACKOFF_MS
    sasl_login_retry_backoff_max_ms: int = defaults.RETRY_BACKOFF_MAX_MS
    sasl_login_refresh_window_factor: float = defaults.REFRESH_WINDOW_FACTOR.default
    sasl_login_refresh_window_jitter: float = defaults.REFRESH_WINDOW_JITTER.default
    sasl_login_refresh_min_period_seconds: int = defaults.REFRESH_MIN_PERIOD_SECONDS.default
    sasl_login_refresh_buffer_seconds: int = defaults.REFRESH_BUFFER_SECONDS.default

    sasl_aws_msk_iam_region: str | None = None
    """Not in Kafka; by default the region is in the broker's host name."""
    sasl_aws_msk_iam_credentials_provider: object = None
    """Not in Kafka: a callable, async or not, which gives an ``AwsCredentials``."""

    def __post_init__(self) -> None:
        for name in _SECRETS:
            object.__setattr__(self, name, _held(getattr(self, name)))

    @classmethod
    def of(cls, settings: object) -> SaslOptions:
        """The options that ``settings`` has as attributes, and the defaults of the others."""
        names = [field.name for field in fields(cls) if getattr(settings, field.name, None) is not None]
        return cls(**{name: getattr(settings, name) for name in names})


_SECRETS: Final = frozenset(field.name for field in fields(SaslOptions) if "Secret" in str(field.type))


def parse_pairs(option: str, text: str) -> dict[str, str]:
    """``"a=b,c=d"`` as a dict; a comma within a value is written ``\\,``. Raises ConfigurationError otherwise."""
    pairs = {}
    for part in filter(str.strip, _UNQUOTED_COMMA.split(text)):
        name, equals, value = part.strip().partition("=")
        if not name or not equals:
            raise ConfigurationError(f"{option} has a part that is not a pair: write 'name=value,name=value'")
        pairs[name] = value.replace("\\,", ",")
    return pairs


# internals


class _PydanticSecret(Protocol):
    """pydantic's holder of a secret text."""

    def get_secret_value(self) -> str:
        """The text."""


def _held(value: Secret[str] | _PydanticSecret | str | None) -> Secret[str] | None:
    if value is None or isinstance(value, Secret):
        return value
    return Secret(value.get_secret_value() if hasattr(value, "get_secret_value") else value)
