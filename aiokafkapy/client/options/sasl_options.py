"""The options of every client for SASL.

Owns their names and descriptions. Their defaults are in ``security.sasl.defaults``; ``security.sasl``, where the
mechanism is made, checks their combinations. Names are Kafka's with dots as underscores (``SaslConfigs``),
except for ``sasl_username`` and ``sasl_password``, which are librdkafka's and stand for the commonest
``sasl_jaas_config``, and for options without a name in Kafka: ``sasl_oauthbearer_token_provider``,
``sasl_oauthbearer_metadata_authentication_type`` with its settings and ``sasl_oauthbearer_extensions`` (librdkafka's),
and ``sasl_aws_msk_iam_…``.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Annotated, Any

from ...common import MAX_INT, MAX_LONG
from ...security.sasl import defaults

if TYPE_CHECKING:
    from pydantic import BaseModel, BeforeValidator, Field
else:
    from ...option_fields import BeforeValidator, Field
    from ...option_fields import Declared as BaseModel

__all__ = ["Location", "SaslOptionFields"]


def _path(value: object) -> object:
    return os.fspath(value) if isinstance(value, os.PathLike) else value


Location = Annotated[str | None, BeforeValidator(_path)]
"""A path, as text or as a Path."""


class SaslOptionFields(BaseModel):
    """The client's identity, and its proof."""

    sasl_mechanism: Annotated[
        Any,
        Field(
            description="PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER, GSSAPI or AWS_MSK_IAM; or an object that is "
            "a mechanism."
        ),
    ] = None
    sasl_username: Annotated[str | None, Field(description="User for PLAIN and SCRAM.")] = None
    sasl_password: Annotated[str | None, Field(repr=False, description="Password for PLAIN and SCRAM.")] = None
    sasl_jaas_config: Annotated[
        str | None,
        Field(repr=False, description="Java's string with the credentials, for PLAIN, SCRAM and OAUTHBEARER."),
    ] = None
    sasl_kerberos_service_name: Annotated[
        str | None, Field(description="First part of the brokers' Kerberos principal, for GSSAPI.")
    ] = None

    sasl_aws_msk_iam_region: Annotated[
        str | None, Field(description="AWS region of the cluster, for AWS_MSK_IAM. None: it is in the brokers' names.")
    ] = None
    sasl_aws_msk_iam_credentials_provider: Annotated[
        Any, Field(description="Callable, async or not, that gives AwsCredentials. None: the environment, or botocore.")
    ] = None

    sasl_oauthbearer_token_provider: Annotated[
        Any,
        Field(
            repr=False,
            description="Async callable that gives a token, as text or as an OAuthBearerToken; it is asked again "
            "before the token ends.",
        ),
    ] = None
    sasl_oauthbearer_token_endpoint_url: Annotated[
        str | None, Field(description="Address of an OpenID provider's tokens (KIP-768); needs the extra oauth.")
    ] = None
    sasl_oauthbearer_jwt_retriever_class: Annotated[
        str | None, Field(description="Java's class that gets tokens; only the name tells which way is meant.")
    ] = None
    sasl_oauthbearer_metadata_authentication_type: Annotated[
        str | None,
        Field(
            description="azure_imds or aws_iam: tokens of the machine's own identity, from Azure's metadata service or "
            "AWS STS."
        ),
    ] = None
    sasl_oauthbearer_config: Annotated[
        str | None,
        Field(
            description="Settings of sasl_oauthbearer_metadata_authentication_type, as name=value,name=value: see "
            "docs/security.md."
        ),
    ] = None
    sasl_oauthbearer_extensions: Annotated[
        str | None,
        Field(repr=False, description="Extensions to send with each token (KIP-342), as name=value,name=value."),
    ] = None
    sasl_oauthbearer_client_credentials_client_id: Annotated[
        str | None, Field(description="Client id, for the provider's client credentials.")
    ] = None
    sasl_oauthbearer_client_credentials_client_secret: Annotated[
        str | None, Field(repr=False, description="Client secret, for the provider's client credentials.")
    ] = None
    sasl_oauthbearer_scope: Annotated[str | None, Field(description="Scope to ask the provider for.")] = None
    sasl_oauthbearer_scope_claim_name: Annotated[str, Field(description="Claim of a token that has its scope.")] = (
        defaults.SCOPE_CLAIM_NAME
    )
    sasl_oauthbearer_sub_claim_name: Annotated[str, Field(description="Claim of a token that names its subject.")] = (
        defaults.SUB_CLAIM_NAME
    )
    sasl_oauthbearer_header_urlencode: Annotated[
        bool, Field(description="Encode id and secret as RFC 6749 has it before they are sent.")
    ] = False
    sasl_oauthbearer_assertion_algorithm: Annotated[
        str, Field(description="Algorithm that signs an assertion (KIP-1139): RS256 or ES256.")
    ] = defaults.ASSERTION_ALGORITHM
    sasl_oauthbearer_assertion_private_key_file: Annotated[
        Location, Field(description="PEM file of the key that signs assertions.")
    ] = None
    sasl_oauthbearer_assertion_private_key_passphrase: Annotated[
        str | None, Field(repr=False, description="Password of that key, when it is encrypted.")
    ] = None
    sasl_oauthbearer_assertion_file: Annotated[
        Location, Field(description="File with a ready assertion, read each time one is needed.")
    ] = None
    sasl_oauthbearer_assertion_template_file: Annotated[
        Location, Field(description="JSON file with more claims and headers of assertions.")
    ] = None
    sasl_oauthbearer_assertion_claim_aud: Annotated[str | None, Field(description="Claim aud of assertions.")] = None
    sasl_oauthbearer_assertion_claim_iss: Annotated[str | None, Field(description="Claim iss of assertions.")] = None
    sasl_oauthbearer_assertion_claim_sub: Annotated[str | None, Field(description="Claim sub of assertions.")] = None
    sasl_oauthbearer_assertion_claim_exp_seconds: Annotated[
        int, Field(ge=1, le=MAX_INT, description="Seconds that an assertion is valid.")
    ] = defaults.ASSERTION_EXP_SECONDS
    sasl_oauthbearer_assertion_claim_nbf_seconds: Annotated[
        int, Field(ge=0, le=MAX_INT, description="Seconds before now from which an assertion is valid.")
    ] = defaults.ASSERTION_NBF_SECONDS
    sasl_oauthbearer_assertion_claim_jti_include: Annotated[
        bool, Field(description="Give each assertion an id of its own.")
    ] = False

    sasl_login_connect_timeout_ms: Annotated[
        int | None, Field(ge=1, le=MAX_INT, description="Milliseconds for connecting to the provider of tokens.")
    ] = None
    sasl_login_read_timeout_ms: Annotated[
        int | None, Field(ge=1, le=MAX_INT, description="Milliseconds for the provider's answer.")
    ] = None
    sasl_login_retry_backoff_ms: Annotated[
        int, Field(ge=0, le=MAX_LONG, description="Milliseconds before the provider is asked again.")
    ] = defaults.RETRY_BACKOFF_MS
    sasl_login_retry_backoff_max_ms: Annotated[
        int, Field(ge=0, le=MAX_LONG, description="Milliseconds between attempts, at most; they double up to here.")
    ] = defaults.RETRY_BACKOFF_MAX_MS
    sasl_login_refresh_window_factor: Annotated[
        float,
        Field(
            ge=defaults.REFRESH_WINDOW_FACTOR.low,
            le=defaults.REFRESH_WINDOW_FACTOR.high,
            description="Part of a token's life after which the next one is asked for.",
        ),
    ] = defaults.REFRESH_WINDOW_FACTOR.default
    sasl_login_refresh_window_jitter: Annotated[
        float,
        Field(
            ge=defaults.REFRESH_WINDOW_JITTER.low,
            le=defaults.REFRESH_WINDOW_JITTER.high,
            description="Part of a token's life that is added at random.",
        ),
    ] = defaults.REFRESH_WINDOW_JITTER.default
    sasl_login_refresh_min_period_seconds: Annotated[
        int,
        Field(
            ge=defaults.REFRESH_MIN_PERIOD_SECONDS.low,
            le=defaults.REFRESH_MIN_PERIOD_SECONDS.high,
            description="Seconds between two tokens, at least.",
        ),
    ] = defaults.REFRESH_MIN_PERIOD_SECONDS.default
    sasl_login_refresh_buffer_seconds: Annotated[
        int,
        Field(
            ge=defaults.REFRESH_BUFFER_SECONDS.low,
            le=defaults.REFRESH_BUFFER_SECONDS.high,
            description="Seconds before a token's end at which the next one is there.",
        ),
    ] = defaults.REFRESH_BUFFER_SECONDS.default
