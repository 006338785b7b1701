"""The sources of AWS's credentials, and the times at which they are asked for again."""

from __future__ import annotations

import importlib
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.aws_credentials import AwsMskIamMechanism, botocore_provider
from aiokafkapy.security.sasl.aws_msk_iam import AwsCredentials
from aiokafkapy.security.sasl.mechanism import mechanism_for
from aiokafkapy.security.sasl.options import SaslOptions
from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.testing.clock import VirtualClock
from tests.blocked_threads import blocked_default_executor

from .exchanges import everything_shown_of

KEYS = {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hunter2"}
HOST = "b-1.demo.abc123.c2.kafka.us-east-1.amazonaws.com"


def mechanism_of(provider: Any = None, clock: VirtualClock | None = None, **options: Any) -> AwsMskIamMechanism:
    given = SaslOptions(sasl_aws_msk_iam_credentials_provider=provider, **options)
    return AwsMskIamMechanism(given, environment={}, clock=clock or VirtualClock(1_700_000_000))


async def payload_of(mechanism: AwsMskIamMechanism, host: str = HOST) -> dict[str, str]:
    await mechanism.prepare()
    return dict(json.loads(mechanism.exchange(host).respond(b"") or b""))


@pytest.mark.parametrize("token", [None, "session"])
async def test_the_environment_has_credentials(token: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (KEYS | ({"AWS_SESSION_TOKEN": token} if token else {})).items():
        monkeypatch.setenv(name, value)
    if token is None:
        monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    mechanism = mechanism_for(SaslOptions(sasl_mechanism="AWS_MSK_IAM"))
    assert (mechanism.name, mechanism.blocks) == ("AWS_MSK_IAM", False)
    await mechanism.prepare()
    fields = json.loads(mechanism.exchange(HOST).respond(b"") or b"")
    assert fields["x-amz-credential"].startswith("AKIA/")
    assert "/us-east-1/" in fields["x-amz-credential"]
    assert fields.get("x-amz-security-token") == token


async def test_the_region_can_be_written_and_must_be_for_other_names() -> None:
    provider = lambda: AwsCredentials("AKIA", Secret("s"))  # noqa: E731
    fields = await payload_of(mechanism_of(provider, sasl_aws_msk_iam_region="eu-west-1"), "broker.example.com")
    assert "/eu-west-1/kafka-cluster/" in fields["x-amz-credential"]
    with pytest.raises(SaslAuthenticationFailedError, match="write sasl_aws_msk_iam_region"):
        await payload_of(mechanism_of(provider), "broker.example.com")


async def test_a_provider_may_be_async_and_one_that_is_not_runs_in_a_thread() -> None:
    threads = []

    async def in_the_loop() -> AwsCredentials:
        threads.append(threading.current_thread())
        return AwsCredentials("ASYNC", Secret("s"))

    def in_a_thread() -> AwsCredentials:
        threads.append(threading.current_thread())
        return AwsCredentials("SYNC", Secret("s"))

    assert (await payload_of(mechanism_of(in_the_loop)))["x-amz-credential"].startswith("ASYNC/")
    assert (await payload_of(mechanism_of(in_a_thread)))["x-amz-credential"].startswith("SYNC/")
    assert threads[0] is threading.main_thread()
    assert threads[1] is not threading.main_thread()


async def test_a_provider_does_not_wait_for_the_loops_own_threads() -> None:
    async with blocked_default_executor():
        mechanism = mechanism_of(lambda: AwsCredentials("SYNC", Secret("s")))
        fields = await payload_of(mechanism)
    assert fields["x-amz-credential"].startswith("SYNC/")


async def test_credentials_with_an_end_are_kept_until_five_minutes_before_it() -> None:
    clock = VirtualClock(1_700_000_000)
    calls = 0

    async def provider() -> AwsCredentials:
        nonlocal calls
        calls += 1
        return AwsCredentials(f"AKIA{calls}", Secret("s"), None, int((clock.time() + 3_600) * 1_000))

    mechanism = mechanism_of(provider, clock)
    for _ in range(3):
        await mechanism.prepare()
    assert calls == 1
    clock.advance(3_300)
    assert (await payload_of(mechanism))["x-amz-credential"].startswith("AKIA2/")
    mechanism.close()
    with pytest.raises(SaslAuthenticationFailedError, match="await prepare"):
        mechanism.exchange(HOST)


async def test_credentials_without_an_end_are_asked_for_each_time() -> None:
    given = iter("AB")
    mechanism = mechanism_of(lambda: AwsCredentials(next(given), Secret("s")))
    assert [(await payload_of(mechanism))["x-amz-credential"][0] for _ in range(2)] == ["A", "B"]


@pytest.mark.parametrize(
    ("error", "kind", "words"),
    [
        (OSError("hunter2"), KafkaConnectionError, "no AWS credentials could be got: OSError"),
        (ValueError("hunter2"), SaslAuthenticationFailedError, "the provider of AWS credentials raised ValueError"),
    ],
)
async def test_an_exception_of_a_provider_is_named_by_its_kind(
    error: Exception, kind: type[Exception], words: str
) -> None:
    def broken() -> AwsCredentials:
        raise error

    with pytest.raises(kind, match=words) as caught:
        await mechanism_of(broken).prepare()
    assert caught.value.__cause__ is error
    assert "hunter2" not in str(caught.value)


async def test_a_provider_of_something_else_is_an_error() -> None:
    with pytest.raises(SaslAuthenticationFailedError, match="returned a dict: return an AwsCredentials") as caught:
        await mechanism_of(lambda: {"secret": "hunter2"}).prepare()
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("provider", ["hunter2", AwsCredentials])
def test_an_object_that_is_not_a_provider_is_refused(provider: Any) -> None:
    with pytest.raises(ConfigurationError, match="write a callable") as caught:
        mechanism_of(provider)
    assert "hunter2" not in str(caught.value)


def test_without_any_credentials_it_says_where_they_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ConfigurationError, match=r"set AWS_ACCESS_KEY_ID .* pip install 'aiokafkapy\[msk\]'"):
        mechanism_of()


class FakeBotocore:
    """The part of botocore that is used: a session, whose credentials renew themselves."""

    def __init__(self, *keys: tuple[str, str, str | None] | None) -> None:
        self._keys = iter(keys)
        self.sessions = 0

    def Session(self) -> FakeBotocore:  # noqa: N802
        self.sessions += 1
        return self

    def get_credentials(self) -> Any:
        keys = next(self._keys)
        if keys is None:
            return None
        frozen = SimpleNamespace(access_key=keys[0], secret_key=keys[1], token=keys[2])
        return SimpleNamespace(get_frozen_credentials=lambda: frozen)


async def test_botocores_chain_is_asked_each_time_with_one_session(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeBotocore(("ONE", "s", None), ("TWO", "s", "session"), None)
    monkeypatch.setattr(importlib, "import_module", lambda name: {"botocore.session": fake}[name])
    mechanism = mechanism_of(botocore_provider())
    assert fake.sessions == 0, "checking settings reads none of botocore's files"
    assert (await payload_of(mechanism))["x-amz-credential"].startswith("ONE/")
    assert (await payload_of(mechanism))["x-amz-security-token"] == "session"
    assert fake.sessions == 1
    with pytest.raises(SaslAuthenticationFailedError, match="botocore finds no AWS credentials"):
        await mechanism.prepare()


async def test_no_secret_is_shown() -> None:
    mechanism = mechanism_of(lambda: AwsCredentials("AKIA", Secret("hunter2")))
    await mechanism.prepare()
    with pytest.raises(SaslAuthenticationFailedError) as caught:
        mechanism.exchange("localhost")
    assert "hunter2" not in everything_shown_of(caught.value) + repr(vars(mechanism))
