"""Keeps the token of one client, which is asked for ahead of its end, once for all connections.

Owns the wait for a provider and the timer for the next token; ``token_refresh`` decides its time. Knows no
protocol. Thin I/O: one of the few modules of this layer that know asyncio and the time. Kafka's counterparts are
``OAuthBearerRefreshingLogin`` and ``LoginManager``.

Rules:

- A caller gets a valid token at once, if there is one, however slow or broken the provider is.
- At most one call of the provider is under way; a connection that gives up its wait does not end it for the others.
- A provider's error of I/O may pass, and is retriable; any other is a refusal. The error's text stays in the cause: it
  might have a secret in it.
- A token without a known end is asked for again by each authentication: nobody knows how long it is good.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import random as random_module
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from ...errors import ConfigurationError, KafkaConnectionError, KafkaError, SaslAuthenticationFailedError
from ...observability import RateLimitedLogger, get_logger
from .json_web_tokens import end_of, unsecured_token
from .oauthbearer import OAUTHBEARER, OAuthBearerClientExchange, OAuthBearerToken
from .secret import Secret
from .token_refresh import RETRY_AFTER_MS, RefreshPolicy, refresh_at_ms

__all__ = ["OAuthBearerMechanism", "TokenKeeper", "TokenProvider", "UnsecuredTokens", "provider_of"]

TokenProvider = Callable[[], Awaitable["OAuthBearerToken | str"]]

FETCH_TIMEOUT: Final = 60.0
"""Seconds after which a call that hangs is given up, since everybody waits for it."""
_LONGEST_TIMER_MS: Final = 24 * 3_600_000
"""A token may be good for years; a loop's timer may not."""

logger = get_logger(__name__)


def provider_of(option: object) -> TokenProvider:
    """The provider that ``sasl_oauthbearer_token_provider`` means; raises ConfigurationError for any other object."""
    call: Any = getattr(option, "token", option)
    if isinstance(option, type) or not callable(call):
        raise ConfigurationError(
            f"sasl_oauthbearer_token_provider is a {type(option).__name__}: write an async callable without arguments, "
            "or an object with `async def token(self)`, that returns a str or an OAuthBearerToken"
        )
    return call  # type: ignore[no-any-return]


class OAuthBearerMechanism:
    """OAUTHBEARER with the tokens of a provider."""

    name = OAUTHBEARER
    blocks = False

    def __init__(self, keeper: TokenKeeper) -> None:
        self._keeper = keeper

    async def prepare(self) -> None:
        """Have a valid token."""
        await self._keeper.prepare()

    def exchange(self, host: str) -> OAuthBearerClientExchange:
        """The client's half of one authentication, with the present token."""
        token = self._keeper.current
        if token is None:
            raise SaslAuthenticationFailedError("there is no valid token: await prepare() first")
        return OAuthBearerClientExchange(token)

    def close(self) -> None:
        """Ask for no more tokens."""
        self._keeper.close()


class UnsecuredTokens:
    """Makes unsecured tokens of a JAAS string, as Kafka's ``OAuthBearerUnsecuredLoginCallbackHandler``: for tests."""

    def __init__(self, options: Mapping[str, Secret[str]], *, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._claims: dict[str, str | float] = {
            name.removeprefix("unsecuredLoginStringClaim_"): value.reveal()
            for name, value in options.items()
            if name.startswith("unsecuredLoginStringClaim_")
        }
        self._lifetime = _number(options, "unsecuredLoginLifetimeSeconds", 3_600)
        for name in options:
            if name.startswith("unsecuredLoginNumberClaim_"):
                self._claims[name.removeprefix("unsecuredLoginNumberClaim_")] = _number(options, name, 0)
        if not self._claims.get("sub"):
            raise ConfigurationError('sasl_jaas_config lacks a principal: write unsecuredLoginStringClaim_sub="alice"')

    async def __call__(self) -> OAuthBearerToken:
        """A new token, good from now on."""
        now = self._clock()
        return OAuthBearerToken(unsecured_token({"iat": now, "exp": now + self._lifetime} | self._claims))


class TokenKeeper:
    """The current token of a provider, and the next in time. ``clock`` gives seconds since the epoch."""

    def __init__(
        self,
        provider: TokenProvider,
        policy: RefreshPolicy,
        *,
        extensions: Mapping[str, str] | None = None,
        clock: Callable[[], float] = time.time,
        random: Callable[[], float] = random_module.random,
    ) -> None:
        self._provider = provider
        self._policy = policy
        self._extensions = extensions or {}
        self._clock = clock
        self._random = random
        self._outages = RateLimitedLogger(logger)
        # the token, and its end if that is known
        self._token: OAuthBearerToken | None = None
        self._expires_at_ms: int | None = None
        # the next token
        self._fetching: asyncio.Task[KafkaError | None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    @property
    def current(self) -> OAuthBearerToken | None:
        """The token, unless there is none or it has ended."""
        ended = self._expires_at_ms is not None and self._now_ms() >= self._expires_at_ms
        return None if ended else self._token

    async def prepare(self) -> None:
        """Have a token; at once when there is a valid one.

        Raises SaslAuthenticationFailedError or, when another try may go better, KafkaConnectionError.
        """
        if self.current is not None and self._expires_at_ms is not None:
            return
        task = None if self._is_closed else self._fetch()
        if task is not None:
            await asyncio.wait((task,))  # unlike ``await task``, a cancelled wait() does not cancel the task
        if task is None or task.cancelled():
            raise SaslAuthenticationFailedError("the client is closed: no token is asked for")
        error = task.result()
        if error is not None:
            raise error.fresh() from error.__cause__

    def close(self) -> None:
        """Forget the token and ask for no more."""
        self._is_closed = True
        self._token = None
        if self._timer is not None:
            self._timer.cancel()
        if self._fetching is not None:
            self._fetching.cancel()

    # internals

    def _now_ms(self) -> int:
        return int(self._clock() * 1_000)

    def _fetch(self) -> asyncio.Task[KafkaError | None]:
        if self._fetching is None or self._fetching.done():
            self._fetching = asyncio.get_running_loop().create_task(self._try_to_fetch(), name="sasl-token")
        return self._fetching

    async def _try_to_fetch(self) -> KafkaError | None:
        """Ask the provider once; its error is returned, so that each waiter raises its own copy."""
        asked_at_ms = self._now_ms()
        limit = asyncio.timeout(FETCH_TIMEOUT)
        try:
            async with limit:
                self._take(await _awaited(self._provider()), asked_at_ms)
        except Exception as error:
            self._arm(self._now_ms() + RETRY_AFTER_MS)
            return _explained(error, is_late=limit.expired())
        return None

    def _take(self, given: Any, asked_at_ms: int) -> None:
        token = given if isinstance(given, OAuthBearerToken) else OAuthBearerToken(given)
        if self._extensions and not token.extensions:
            token = OAuthBearerToken(token.value, token.expires_at_ms, token.principal, token.scope, self._extensions)
        expires_at_ms = token.expires_at_ms if token.expires_at_ms is not None else end_of(Secret(token.value))
        now_ms = self._now_ms()
        if expires_at_ms is not None and expires_at_ms <= now_ms:
            raise SaslAuthenticationFailedError(
                f"the token that was given ended {(now_ms - expires_at_ms) / 1_000:.0f} s ago: "
                "see the provider's cache, and this machine's clock"
            )
        self._token, self._expires_at_ms = token, expires_at_ms
        if expires_at_ms is not None:
            self._arm(refresh_at_ms(asked_at_ms, expires_at_ms, now_ms, self._random(), self._policy))

    def _arm(self, at_ms: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._token is None or self._is_closed:
            return  # nothing to follow: the next connection asks
        delay_ms = min(max(at_ms - self._now_ms(), 0), _LONGEST_TIMER_MS)
        self._timer = asyncio.get_running_loop().call_later(delay_ms / 1_000, self._on_timer, at_ms)

    # asyncio callbacks

    def _on_timer(self, at_ms: int) -> None:
        if self._now_ms() < at_ms:
            self._arm(at_ms)  # its time was beyond the reach of a timer
            return
        self._fetch().add_done_callback(self._on_refreshed)

    def _on_refreshed(self, task: asyncio.Task[KafkaError | None]) -> None:
        error = None if task.cancelled() else task.result()
        if error is not None:
            left = None if self._expires_at_ms is None else max(self._expires_at_ms - self._now_ms(), 0) / 1_000
            now = task.get_loop().time()
            cause = type(error.__cause__).__name__ if error.__cause__ else None
            self._outages.log(
                "refresh", now, logging.WARNING, "sasl.login_failed", error=str(error), cause=cause, seconds_left=left
            )


# internals


def _number(options: Mapping[str, Secret[str]], name: str, default: float) -> float:
    try:
        return float(options[name].reveal()) if name in options else default
    except ValueError:
        raise ConfigurationError(f"{name} of sasl_jaas_config is not a number: write digits") from None


async def _awaited(given: object) -> Any:
    if not inspect.isawaitable(given):
        raise ConfigurationError(
            f"the token provider returned a {type(given).__name__}, not an awaitable: write `async def`, so that "
            "it cannot hold the event loop"
        )
    return await given


def _explained(error: Exception, *, is_late: bool) -> KafkaError:
    """A provider's exception, as the client's own error; a TimeoutError may be the provider's, too."""
    if isinstance(error, SaslAuthenticationFailedError | KafkaConnectionError):
        return error
    if isinstance(error, ConfigurationError):
        explained: KafkaError = SaslAuthenticationFailedError(str(error))
    elif is_late and isinstance(error, TimeoutError):
        explained = KafkaConnectionError(f"the token provider has not given a token within {FETCH_TIMEOUT:g} s")
    elif isinstance(error, OSError):
        explained = KafkaConnectionError(f"the token provider could not get a token: {type(error).__name__}")
    else:
        explained = SaslAuthenticationFailedError(f"the token provider raised {type(error).__name__}")
    explained.__cause__ = error
    return explained
