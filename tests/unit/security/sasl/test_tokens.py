"""One token for all connections, ahead of its end, with any behaviour of its provider."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.json_web_tokens import TokenValidator, claims_of, unsecured_token
from aiokafkapy.security.sasl.mechanism import mechanism_for
from aiokafkapy.security.sasl.oauthbearer import OAuthBearerServerExchange, OAuthBearerToken
from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.security.sasl.token_refresh import RefreshPolicy
from aiokafkapy.security.sasl.tokens import OAuthBearerMechanism, TokenKeeper, UnsecuredTokens, provider_of
from tests.unit.virtual_time import elapsed, epoch_seconds, in_virtual_time

from .exchanges import authenticate, everything_shown_of

LIFE = 600.0
POLICY = RefreshPolicy.of(SaslOptions())
"""Seconds of each token: it is asked for again after 300, which are 300 before its end."""


class Provider:
    """Numbers its tokens, and follows its orders."""

    def __init__(self, life: float | None = LIFE) -> None:
        self.life = life
        self.calls = 0
        self.under_way = 0
        self.most_under_way = 0
        self.delay = 0.0
        self.error: BaseException | None = None

    async def __call__(self) -> OAuthBearerToken:
        self.calls += 1
        self.under_way += 1
        self.most_under_way = max(self.most_under_way, self.under_way)
        try:
            if self.delay:
                await elapsed(self.delay)
            if self.error is not None:
                raise self.error
            end = None if self.life is None else int((epoch_seconds() + self.life) * 1_000)
            return OAuthBearerToken(f"token{self.calls}", end)
        finally:
            self.under_way -= 1


def keeper_of(provider: Callable[[], Awaitable[Any]], **options: Any) -> TokenKeeper:
    return TokenKeeper(provider, POLICY, clock=epoch_seconds, random=lambda: 0.0, **options)


def value_of(keeper: TokenKeeper) -> str | None:
    return keeper.current.value if keeper.current else None


def test_a_thousand_connections_ask_once() -> None:
    async def program() -> None:
        provider = Provider()
        provider.delay = 2.0
        keeper = keeper_of(provider)
        await asyncio.gather(*(keeper.prepare() for _ in range(1_000)))
        assert (provider.calls, value_of(keeper)) == (1, "token1")
        keeper.close()

    in_virtual_time(program)


def test_the_next_token_is_there_before_the_end_of_the_last() -> None:
    async def program() -> None:
        provider = Provider()
        keeper = keeper_of(provider)
        await keeper.prepare()
        await elapsed(299)
        assert provider.calls == 1
        await elapsed(2)
        assert (provider.calls, value_of(keeper)) == (2, "token2")
        await elapsed(600)
        assert (provider.calls, value_of(keeper)) == (4, "token4")
        keeper.close()
        await elapsed(700)
        assert provider.calls == 4, "a closed client asks for nothing"

    in_virtual_time(program)


@pytest.mark.parametrize("error", [None, OSError("down"), ValueError("bug")])
def test_a_slow_or_broken_provider_delays_no_client_with_a_token(error: Exception | None) -> None:
    async def program() -> None:
        provider = Provider()
        keeper = keeper_of(provider)
        await keeper.prepare()
        provider.delay, provider.error = 20.0, error
        await elapsed(301)
        assert provider.under_way == 1, "the next one is being asked for"
        before = asyncio.get_running_loop().time()
        for _ in range(10):
            await keeper.prepare()
        assert asyncio.get_running_loop().time() == before
        assert value_of(keeper) == "token1"
        keeper.close()

    in_virtual_time(program)


def test_an_outage_is_over_when_the_provider_is_back(caplog: pytest.LogCaptureFixture) -> None:
    async def program() -> None:
        provider = Provider()
        keeper = keeper_of(provider)
        await keeper.prepare()
        provider.error = OSError("hunter2")
        await elapsed(399)
        assert 9 <= provider.calls - 1 <= 11, "every ten seconds, as Java"
        assert value_of(keeper) == "token1"
        await elapsed(210)
        assert value_of(keeper) is None, "its token has ended"
        with pytest.raises(KafkaConnectionError, match="could not get a token: OSError") as caught:
            await keeper.prepare()
        assert caught.value.retriable
        provider.error = None
        await keeper.prepare()
        assert value_of(keeper) == f"token{provider.calls}"
        keeper.close()

    with caplog.at_level(logging.WARNING):
        in_virtual_time(program)
    lines = [record.getMessage() for record in caplog.records]
    assert 1 <= len(lines) <= 50
    assert all("sasl.login_failed" in line and "OSError" in line for line in lines)
    assert "hunter2" not in "".join(lines)


def test_each_waiter_raises_an_error_of_its_own() -> None:
    async def program() -> None:
        provider = Provider()
        provider.error = RuntimeError("hunter2")
        keeper = keeper_of(provider)
        found = await asyncio.gather(*(keeper.prepare() for _ in range(3)), return_exceptions=True)
        assert provider.calls == 1
        assert len({id(error) for error in found}) == 3
        for error in found:
            assert isinstance(error, SaslAuthenticationFailedError)
            assert str(error) == "the token provider raised RuntimeError"
            assert error.__cause__ is provider.error
            assert not error.retriable
        provider.error = None
        await keeper.prepare()
        assert value_of(keeper) == "token2"
        keeper.close()

    in_virtual_time(program)


def test_a_connection_that_gives_up_does_not_end_the_wait_of_others() -> None:
    async def program() -> None:
        provider = Provider()
        provider.delay = 5.0
        keeper = keeper_of(provider)
        impatient, patient = (asyncio.create_task(keeper.prepare()) for _ in range(2))
        await elapsed(1)
        impatient.cancel()
        await patient
        assert impatient.cancelled()
        assert (provider.calls, value_of(keeper)) == (1, "token1")
        keeper.close()

    in_virtual_time(program)


def test_a_provider_that_hangs_is_given_up() -> None:
    async def program() -> None:
        provider = Provider()
        provider.delay = 100_000.0
        keeper = keeper_of(provider)
        with pytest.raises(KafkaConnectionError, match="has not given a token within 60 s"):
            await keeper.prepare()
        provider.delay = 0.0
        await keeper.prepare()
        assert value_of(keeper) == "token2"
        keeper.close()

    in_virtual_time(program)


def test_a_time_out_of_the_provider_s_own_is_not_told_as_ours() -> None:
    async def program() -> None:
        provider = Provider()
        provider.error = TimeoutError()
        keeper = keeper_of(provider)
        with pytest.raises(KafkaConnectionError, match=r"^the token provider could not get a token: TimeoutError$"):
            await keeper.prepare()
        keeper.close()

    in_virtual_time(program)


def test_closing_ends_waiting_requests() -> None:
    async def program() -> None:
        provider = Provider()
        provider.delay = 50.0
        keeper = keeper_of(provider)
        waiting = asyncio.create_task(keeper.prepare())
        await elapsed(1)
        keeper.close()
        (outcome,) = await asyncio.gather(waiting, return_exceptions=True)
        assert isinstance(outcome, SaslAuthenticationFailedError)
        assert provider.under_way == 0
        with pytest.raises(SaslAuthenticationFailedError, match="the client is closed"):
            await keeper.prepare()

    in_virtual_time(program)


def test_a_token_without_a_known_end_is_asked_for_by_each_authentication() -> None:
    async def program() -> None:
        provider = Provider(life=None)
        keeper = keeper_of(provider)
        for number in (1, 2):
            await keeper.prepare()
            assert value_of(keeper) == f"token{number}"
        keeper.close()

    in_virtual_time(program)


def test_text_will_do_and_a_jwt_says_its_end_itself() -> None:
    async def program() -> None:
        calls = 0

        async def provider() -> str:
            nonlocal calls
            calls += 1
            return unsecured_token({"sub": "alice", "exp": epoch_seconds() + LIFE})

        keeper = keeper_of(provider)
        await keeper.prepare()
        await keeper.prepare()
        assert calls == 1
        await elapsed(301)
        assert calls == 2
        keeper.close()

    in_virtual_time(program)


@pytest.mark.parametrize("claims", [{}, {"exp": "soon"}, {"exp": True}, {"exp": 10**400}, {"exp": -1}])
def test_a_jwt_with_an_odd_end_has_none(claims: dict[str, Any]) -> None:
    async def program() -> None:
        async def provider() -> str:
            return unsecured_token(claims)

        keeper = keeper_of(provider)
        await keeper.prepare()
        assert keeper.current is not None
        keeper.close()

    in_virtual_time(program)


def test_a_token_that_has_ended_is_refused() -> None:
    async def program() -> None:
        keeper = keeper_of(Provider(life=-90.0))
        with pytest.raises(SaslAuthenticationFailedError, match=r"ended 90 s ago: .* this machine's clock"):
            await keeper.prepare()
        assert keeper.current is None

    in_virtual_time(program)


@pytest.mark.parametrize("given", [None, 7, "two words", b"bytes", ""])
def test_a_text_that_is_not_a_token_is_refused_without_showing_it(given: Any) -> None:
    async def program() -> None:
        async def provider() -> Any:
            return given

        with pytest.raises(SaslAuthenticationFailedError, match="give the access token alone") as caught:
            await keeper_of(provider).prepare()
        assert "two words" not in str(caught.value)

    in_virtual_time(program)


def test_a_provider_that_is_not_async_is_an_error() -> None:
    async def program() -> None:
        with pytest.raises(SaslAuthenticationFailedError, match="write `async def`"):
            await keeper_of(lambda: "token").prepare()  # type: ignore[arg-type, return-value]

    in_virtual_time(program)


class OfAiokafka:
    """A provider like aiokafka's ``AbstractTokenProvider``."""

    async def token(self) -> str:
        return "of-aiokafka"


async def plain() -> str:
    return "plain"


@pytest.mark.parametrize(("option", "token"), [(plain, "plain"), (OfAiokafka(), "of-aiokafka")])
async def test_a_callable_or_an_object_with_token_is_a_provider(option: Any, token: str) -> None:
    assert await provider_of(option)() == token
    mechanism = mechanism_for(SaslOptions(sasl_mechanism="OAUTHBEARER", sasl_oauthbearer_token_provider=option))
    await mechanism.prepare()
    assert (mechanism.name, mechanism.blocks) == ("OAUTHBEARER", False)
    assert mechanism.exchange("host").respond(b"") == b"n,,\1auth=Bearer " + token.encode() + b"\1\1"
    mechanism.close()


@pytest.mark.parametrize("option", ["hunter2", OfAiokafka, 7])
def test_an_object_that_is_not_a_provider_is_refused(option: Any) -> None:
    with pytest.raises(ConfigurationError, match="write an async callable") as caught:
        provider_of(option)
    assert "hunter2" not in str(caught.value)


def test_extensions_go_with_tokens_that_have_none_of_their_own() -> None:
    async def program() -> None:
        keeper = keeper_of(Provider(), extensions={"logicalCluster": "lkc-1"})
        mechanism = OAuthBearerMechanism(keeper)
        with pytest.raises(SaslAuthenticationFailedError, match="await prepare"):
            mechanism.exchange("host")
        await mechanism.prepare()
        assert mechanism.exchange("host").respond(b"") == b"n,,\1auth=Bearer token1\1logicalCluster=lkc-1\1\1"
        mechanism.close()

        async def own() -> OAuthBearerToken:
            return OAuthBearerToken("own", extensions={"a": "b"})

        keeper = keeper_of(own, extensions={"logicalCluster": "lkc-1"})
        await keeper.prepare()
        assert keeper.current is not None
        assert keeper.current.extensions == {"a": "b"}

    in_virtual_time(program)


MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"


async def test_javas_unsecured_login_makes_tokens_that_a_broker_believes() -> None:
    jaas = f'{MODULE} unsecuredLoginStringClaim_sub="alice" unsecuredLoginNumberClaim_n="7" extension_a="b";'
    mechanism = mechanism_for(SaslOptions(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=jaas))
    await mechanism.prepare()
    client = mechanism.exchange("host")
    first = mechanism.exchange("host").respond(b"") or b""
    token = Secret(first.split(b"\1")[1].removeprefix(b"auth=Bearer ").decode())
    claims = claims_of(token) or {}
    assert claims["n"] == 7
    assert claims["exp"] - claims["iat"] == 3_600
    server = OAuthBearerServerExchange(TokenValidator(unsecured=True), int(claims["iat"] * 1_000))
    authenticate(client, server)
    assert server.principal == "User:alice"
    assert first.endswith(b"\1a=b\1\1")
    mechanism.close()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ('unsecuredLoginLifetimeSeconds="7"', "lacks a principal: write unsecuredLoginStringClaim_sub"),
        ('unsecuredLoginStringClaim_sub="a" unsecuredLoginLifetimeSeconds="x"', "LifetimeSeconds .* is not a number"),
        ('unsecuredLoginStringClaim_sub="a" extension_auth="x"', "'auth' is not the name of a SASL extension"),
    ],
)
def test_a_login_module_with_odd_options_is_an_error(options: str, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        mechanism_for(SaslOptions(sasl_mechanism="OAUTHBEARER", sasl_jaas_config=f"{MODULE} {options};"))


async def test_the_unsecured_clock_is_given() -> None:
    token = await UnsecuredTokens({"unsecuredLoginStringClaim_sub": Secret("a")}, clock=lambda: 5.0)()
    assert claims_of(Secret(token.value)) == {"iat": 5.0, "exp": 3_605.0, "sub": "a"}


def test_no_token_is_shown() -> None:
    async def program() -> None:
        provider = Provider(life=-1.0)
        keeper = keeper_of(provider)
        with pytest.raises(SaslAuthenticationFailedError) as caught:
            await keeper.prepare()
        assert "token1" not in everything_shown_of(caught.value)
        provider.life = LIFE
        await keeper.prepare()
        assert "token2" not in repr(vars(keeper))
        keeper.close()

    in_virtual_time(program)
