"""The sources of AWS_MSK_IAM's credentials: a provider of the user's own, the environment, or botocore's chain.

Owns the choice, the wait, and the times at which credentials are asked for again. Thin I/O: knows asyncio, the time,
the environment and botocore (extra ``msk``). The counterpart is AWS's ``MSKCredentialProvider``.

Rules: a provider that is not async runs in a thread, since botocore asks the instance's metadata over HTTP. Credentials
with an end are kept until five minutes before it; others are asked for by each authentication, which is cheap: botocore
keeps its own.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import inspect
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ...errors import ConfigurationError, KafkaConnectionError, KafkaError, SaslAuthenticationFailedError
from ...worker_thread import run_in_thread
from .aws_msk_iam import AWS_MSK_IAM, AwsCredentials, AwsMskIamClientExchange, region_of
from .options import SaslOptions
from .secret import Secret

__all__ = ["AwsMskIamMechanism", "botocore_provider", "environment_provider"]

CredentialsProvider = Callable[[], "AwsCredentials | Awaitable[AwsCredentials]"]

RENEW_BEFORE_MS: Final = 300_000


class AwsMskIamMechanism:
    """AWS_MSK_IAM with the credentials of a provider."""

    name = AWS_MSK_IAM
    blocks = False

    def __init__(
        self,
        options: SaslOptions,
        *,
        environment: Mapping[str, str] = os.environ,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._region = options.sasl_aws_msk_iam_region
        self._provider = _provider_of(options.sasl_aws_msk_iam_credentials_provider, environment)
        self._clock = clock
        self._credentials: AwsCredentials | None = None

    async def prepare(self) -> None:
        """Have credentials; raises SaslAuthenticationFailedError or KafkaConnectionError when there are none."""
        kept = self._credentials
        ends_at_ms = None if kept is None else kept.expires_at_ms
        if ends_at_ms is not None and self._clock() * 1_000 < ends_at_ms - RENEW_BEFORE_MS:
            return
        try:
            given = await _called(self._provider)
        except KafkaError:
            raise
        except (OSError, TimeoutError) as error:
            raise KafkaConnectionError(f"no AWS credentials could be got: {type(error).__name__}") from error
        except Exception as error:
            raise SaslAuthenticationFailedError(
                f"the provider of AWS credentials raised {type(error).__name__}"
            ) from error
        if not isinstance(given, AwsCredentials):
            raise SaslAuthenticationFailedError(
                f"the provider of AWS credentials returned a {type(given).__name__}: return an AwsCredentials"
            )
        self._credentials = given

    def exchange(self, host: str) -> AwsMskIamClientExchange:
        """The client's half of one authentication; raises SaslAuthenticationFailedError without a region."""
        if self._credentials is None:
            raise SaslAuthenticationFailedError("there are no AWS credentials: await prepare() first")
        return AwsMskIamClientExchange(host, self._region or region_of(host), self._credentials, self._clock())

    def close(self) -> None:
        """Forget the credentials."""
        self._credentials = None


def environment_provider(environment: Mapping[str, str]) -> CredentialsProvider | None:
    """The credentials in ``AWS_ACCESS_KEY_ID`` and its like; None when they are not set."""
    if not (environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY")):
        return None
    return lambda: AwsCredentials(
        environment["AWS_ACCESS_KEY_ID"],
        Secret(environment["AWS_SECRET_ACCESS_KEY"]),
        Secret(environment["AWS_SESSION_TOKEN"]) if environment.get("AWS_SESSION_TOKEN") else None,
    )


def botocore_provider() -> CredentialsProvider:
    """Credentials that botocore finds: profiles, SSO, containers, instances; it renews those that end."""
    session: Any = None

    def frozen() -> AwsCredentials:
        nonlocal session
        if session is None:  # here, because it reads files, and this runs in a thread
            session = importlib.import_module("botocore.session").Session()
        found = session.get_credentials()
        if found is None:
            raise SaslAuthenticationFailedError(
                "botocore finds no AWS credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or a profile"
            )
        keys = found.get_frozen_credentials()
        return AwsCredentials(keys.access_key, Secret(keys.secret_key), Secret(keys.token) if keys.token else None)

    return frozen


# internals


def _provider_of(option: Any, environment: Mapping[str, str]) -> CredentialsProvider:
    if option is not None:
        if isinstance(option, type) or not callable(option):
            raise ConfigurationError(
                f"sasl_aws_msk_iam_credentials_provider is a {type(option).__name__}: write a callable without "
                "arguments that returns an AwsCredentials"
            )
        return option  # type: ignore[no-any-return]
    found = environment_provider(environment)
    if found is not None:
        return found
    if importlib.util.find_spec("botocore") is None:
        raise ConfigurationError(
            "AWS_MSK_IAM has no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, write "
            "sasl_aws_msk_iam_credentials_provider, or pip install 'aiokafkapy[msk]' for botocore's"
        )
    return botocore_provider()


async def _called(provider: CredentialsProvider) -> object:
    given: object
    if inspect.iscoroutinefunction(provider):
        given = provider()
    else:
        given = await run_in_thread(asyncio.get_running_loop(), provider)
    return await given if inspect.isawaitable(given) else given
