"""Tokens of the machine's own identity: Azure's managed identity (IMDS) and AWS's outbound federation (STS).

Owns the two requests and the string of settings for them. Thin I/O over httpx (extra ``oauth``) and botocore (extra
``msk``). Java has no counterpart; the names, and the grammar of ``sasl_oauthbearer_config``, are librdkafka's
(``sasl.oauthbearer.metadata.authentication.type``).

Rule: an error in the settings is raised when the client is made, not when the first token is requested.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ...errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from ...worker_thread import run_in_thread
from .oauthbearer import OAuthBearerToken
from .oidc import TokenEndpoint
from .options import SaslOptions, parse_pairs
from .secret import Secret

if TYPE_CHECKING:
    import httpx

__all__ = ["AwsWebIdentity", "AzureManagedIdentity", "cloud_provider_for"]

AZURE_URL: Final = "http://169.254.169.254/metadata/identity/oauth2/token"
"""The same on every machine of Azure, and reachable from that machine alone."""
_AWS_SETTINGS: Final = ("region", "audience", "duration_seconds", "signing_algorithm", "sts_endpoint")
_ALGORITHMS: Final = ("ES384", "RS256")
_TAG: Final = "tag_"


def cloud_provider_for(kind: str, options: SaslOptions) -> AzureManagedIdentity | AwsWebIdentity:
    """The provider of ``sasl_oauthbearer_metadata_authentication_type``; raises ConfigurationError for an unknown
    kind, for missing or wrong settings, and for an extra that is not installed.
    """
    settings = parse_pairs("sasl_oauthbearer_config", options.sasl_oauthbearer_config or "")
    if kind == "azure_imds":
        return AzureManagedIdentity(settings, options)
    if kind == "aws_iam":
        return AwsWebIdentity(AwsSettings.of(settings))
    raise ConfigurationError(
        f"sasl_oauthbearer_metadata_authentication_type={kind!r} is unknown: write 'azure_imds' or 'aws_iam'"
    )


class AzureManagedIdentity:
    """GETs a token of the machine's managed identity from the Instance Metadata Service."""

    def __init__(
        self, settings: dict[str, str], options: SaslOptions, transport: httpx.AsyncBaseTransport | None = None
    ) -> None:
        query = settings.pop("query", None) or settings.pop("params", None)
        if settings or not query:
            raise ConfigurationError(
                "sasl_oauthbearer_config of 'azure_imds' needs a query and nothing else: write "
                "'query=api-version=2018-02-01&resource=api://…', with &client_id=… for a user-assigned identity"
            )
        url = options.sasl_oauthbearer_token_endpoint_url or AZURE_URL
        url = f"{url}{'&' if '?' in url else '?'}{query}"
        self._endpoint = TokenEndpoint(options, url=url, transport=transport)

    async def __call__(self) -> OAuthBearerToken:
        """A new token."""
        return await self._endpoint.token(None, {"Metadata": Secret("true")})


@dataclass(frozen=True, kw_only=True)
class AwsSettings:
    """The arguments of ``GetWebIdentityToken``; defaults and limits are those of AWS."""

    region: str
    audience: str
    duration_seconds: int = 300
    signing_algorithm: str = "ES384"
    sts_endpoint: str | None = None
    tags: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: dict[str, str]) -> AwsSettings:
        """Settings of ``sasl_oauthbearer_config``; raises ConfigurationError with the name of the wrong one."""
        tags = {name.removeprefix(_TAG): value for name, value in settings.items() if name.startswith(_TAG)}
        for name in settings:
            if name not in _AWS_SETTINGS and not name.startswith(_TAG):
                raise _wrong(f"has {name!r}, which 'aws_iam' does not know: write {', '.join(_AWS_SETTINGS)} or tag_…")
        for name in ("region", "audience"):
            if not settings.get(name):
                raise _wrong(f"of 'aws_iam' lacks {name}: write 'region=eu-west-1,audience=https://…'")
        seconds = settings.get("duration_seconds", "300")
        if not seconds.isascii() or not seconds.isdigit() or not 60 <= int(seconds) <= 3_600:
            raise _wrong(f"has duration_seconds={seconds!r}: write 60 to 3600")
        algorithm = settings.get("signing_algorithm", "ES384")
        if algorithm not in _ALGORITHMS:
            raise _wrong(f"has signing_algorithm={algorithm!r}: write {' or '.join(_ALGORITHMS)}")
        return cls(
            region=settings["region"],
            audience=settings["audience"],
            duration_seconds=int(seconds),
            signing_algorithm=algorithm,
            sts_endpoint=settings.get("sts_endpoint") or None,
            tags=tags,
        )


class AwsWebIdentity:
    """Asks AWS STS for a token about the identity of botocore's credentials (``GetWebIdentityToken``)."""

    def __init__(self, settings: AwsSettings) -> None:
        if importlib.util.find_spec("botocore") is None:
            raise ConfigurationError("'aws_iam' needs botocore: pip install 'aiokafkapy[msk]'")
        self._settings = settings
        self._client: Any = None

    async def __call__(self) -> OAuthBearerToken:
        """A new token; raises SaslAuthenticationFailedError, or KafkaConnectionError when STS cannot be reached."""
        loop = asyncio.get_running_loop()
        exceptions = await run_in_thread(loop, importlib.import_module, "botocore.exceptions")
        refusal = ""
        try:
            return await run_in_thread(loop, self._ask)
        except (exceptions.HTTPClientError, exceptions.EndpointConnectionError) as error:
            raise KafkaConnectionError(f"AWS STS could not be asked: {type(error).__name__}") from None
        except exceptions.ClientError as error:
            refusal = f": {error.response.get('Error', {}).get('Code', '')}"
        except exceptions.BotoCoreError as error:
            refusal = f": {type(error).__name__}"
        raise SaslAuthenticationFailedError(f"AWS STS gave no token{refusal}")

    # internals

    def _ask(self) -> OAuthBearerToken:
        settings = self._settings
        if self._client is None:  # here, because it reads files, and this runs in a thread
            session = importlib.import_module("botocore.session").Session()
            self._client = session.create_client("sts", settings.region, endpoint_url=settings.sts_endpoint)
        if not hasattr(self._client, "get_web_identity_token"):
            raise SaslAuthenticationFailedError(
                "this botocore does not know GetWebIdentityToken: pip install --upgrade botocore"
            )
        given = self._client.get_web_identity_token(
            Audience=[settings.audience],
            SigningAlgorithm=settings.signing_algorithm,
            DurationSeconds=settings.duration_seconds,
            Tags=[{"Key": name, "Value": value} for name, value in settings.tags.items()],
        )
        return OAuthBearerToken(given["WebIdentityToken"], int(given["Expiration"].timestamp() * 1_000))


def _wrong(what: str) -> ConfigurationError:
    return ConfigurationError(f"sasl_oauthbearer_config {what}")
