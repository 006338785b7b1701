"""AWS_MSK_IAM's payload, and the client's reading of an answer."""

from __future__ import annotations

import importlib.util
import json
import urllib.parse

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import SaslAuthenticationFailedError
from aiokafkapy.security.sasl.aws_msk_iam import (
    AWS_MSK_IAM_STATES,
    AwsCredentials,
    AwsMskIamClientExchange,
    region_of,
    signed_payload,
)
from aiokafkapy.security.sasl.secret import Secret

from .exchanges import everything_shown_of

HOST = "b-1.demo.abc123.c2.kafka.us-east-1.amazonaws.com"
NOW = 1_700_000_000.0
SECRET = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
CREDENTIALS = AwsCredentials("AKIAIOSFODNN7EXAMPLE", Secret(SECRET))
TEMPORARY = AwsCredentials("ASIAIOSFODNN7EXAMPLE", Secret(SECRET), Secret("session/token+="))
ANSWER = b'{"version":"2020_10_22","request-id":"9fdf0f53-0b8a-4e8f-9a50-000000000000"}'


def test_the_payload_has_the_fields_that_msk_wants() -> None:
    fields = json.loads(signed_payload(HOST, "us-east-1", CREDENTIALS, NOW))
    signature = fields.pop("x-amz-signature")
    assert fields == {
        "version": "2020_10_22",
        "host": HOST,
        "user-agent": "aiokafkapy",
        "action": "kafka-cluster:Connect",
        "x-amz-algorithm": "AWS4-HMAC-SHA256",
        "x-amz-credential": "AKIAIOSFODNN7EXAMPLE/20231114/us-east-1/kafka-cluster/aws4_request",
        "x-amz-date": "20231114T221320Z",
        "x-amz-expires": "900",
        "x-amz-signedheaders": "host",
    }
    assert len(bytes.fromhex(signature)) == 32


def test_a_session_token_is_sent_and_signed() -> None:
    fields = json.loads(signed_payload(HOST, "us-east-1", TEMPORARY, NOW))
    assert fields["x-amz-security-token"] == "session/token+="
    other = AwsCredentials(TEMPORARY.access_key_id, TEMPORARY.secret_access_key, Secret("another"))
    assert json.loads(signed_payload(HOST, "us-east-1", other, NOW))["x-amz-signature"] != fields["x-amz-signature"]


@pytest.mark.parametrize(
    ("credentials", "signature"),
    [
        (CREDENTIALS, "2dc7f5d7f2350c8f680ec1ed8c644a3123578b674f874ac57c0921039f1d7926"),
        (TEMPORARY, "513897f0182a78292663b28c64f94fb20077827dc0bd2f4303ebe1b8cbb420aa"),
    ],
)
def test_the_signature_is_that_of_botocore(credentials: AwsCredentials, signature: str) -> None:
    """botocore 1.44.5 made these; the next test asks the one that is installed."""
    assert json.loads(signed_payload(HOST, "eu-west-2", credentials, NOW))["x-amz-signature"] == signature


@pytest.mark.skipif(importlib.util.find_spec("botocore") is None, reason="botocore is not installed")
@pytest.mark.parametrize("credentials", [CREDENTIALS, TEMPORARY])
def test_botocore_signs_the_same(credentials: AwsCredentials, monkeypatch: pytest.MonkeyPatch) -> None:
    import datetime

    auth = importlib.import_module("botocore.auth")
    requests = importlib.import_module("botocore.awsrequest")
    keys = importlib.import_module("botocore.credentials")
    token = credentials.session_token
    signer = auth.SigV4QueryAuth(
        keys.Credentials(credentials.access_key_id, SECRET, token.reveal() if token else None),
        "kafka-cluster",
        "eu-west-2",
        expires=900,
    )
    now = datetime.datetime.fromtimestamp(NOW, datetime.UTC)
    for name in ("get_current_datetime", "get_current_datetime_utc"):
        if hasattr(auth, name):
            monkeypatch.setattr(auth, name, lambda *_, **__: now)
    request = requests.AWSRequest("GET", f"https://{HOST}/", params={"Action": "kafka-cluster:Connect"})
    signer.add_auth(request)
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(request.url).query))
    fields = json.loads(signed_payload(HOST, "eu-west-2", credentials, NOW))
    assert {name.lower(): value for name, value in query.items()} == {
        name: value for name, value in fields.items() if name.startswith("x-amz-") or name == "action"
    }


@pytest.mark.parametrize(
    ("host", "region"),
    [
        (HOST, "us-east-1"),
        ("b-1-public.demo.abc.c2.kafka.EU-WEST-2.amazonaws.com", "eu-west-2"),
        ("boot-xyz.c3.kafka-serverless.ap-south-1.amazonaws.com", "ap-south-1"),
        ("b-1.demo.abc.c2.kafka.cn-north-1.amazonaws.com.cn", "cn-north-1"),
        (HOST + ".", "us-east-1"),
    ],
)
def test_the_region_is_in_msks_names(host: str, region: str) -> None:
    assert region_of(host) == region


@pytest.mark.parametrize("host", ["localhost", "10.0.0.1", "kafka.us-east-1.amazonaws.com", HOST + ".evil.example"])
def test_another_name_needs_a_region(host: str) -> None:
    with pytest.raises(SaslAuthenticationFailedError, match="has no AWS region in it: write sasl_aws_msk_iam_region"):
        region_of(host)


def test_the_exchange_is_a_payload_and_an_answer() -> None:
    client = AwsMskIamClientExchange(HOST, "us-east-1", CREDENTIALS, NOW)
    assert client.respond(b"") == signed_payload(HOST, "us-east-1", CREDENTIALS, NOW)
    assert not client.is_complete
    assert client.respond(ANSWER) is None
    assert client.is_complete


@given(st.binary(max_size=100) | st.sampled_from([b"[" * 10_000, b"{}", b"[]", b'{"version":"2"}', ANSWER * 1_000]))
def test_another_answer_is_a_refusal_for_good(answer: bytes) -> None:
    client = AwsMskIamClientExchange(HOST, "us-east-1", TEMPORARY, NOW)
    client.respond(b"")
    for _ in range(2):
        with pytest.raises(SaslAuthenticationFailedError) as caught:
            client.respond(answer)
        shown = everything_shown_of(caught.value)
        assert SECRET not in shown
        assert "session/token" not in shown
    assert not client.is_complete


def test_a_challenge_before_the_first_word_is_refused() -> None:
    with pytest.raises(SaslAuthenticationFailedError):
        AwsMskIamClientExchange(HOST, "us-east-1", CREDENTIALS, NOW).respond(ANSWER)


def test_credentials_given_as_text_are_held_and_not_shown() -> None:
    given = AwsCredentials("AKIA", SECRET, "session-token")  # type: ignore[arg-type]
    assert given == AwsCredentials("AKIA", Secret(SECRET), Secret("session-token"))
    assert SECRET not in repr(given)
    assert "session-token" not in repr(given)
    assert AwsCredentials("AKIA", SECRET, "").session_token is None  # type: ignore[arg-type]


def test_the_states_end_in_two() -> None:
    table = AWS_MSK_IAM_STATES
    assert [state.value for state in table.successors if table.is_final(state)] == ["complete", "failed"]
