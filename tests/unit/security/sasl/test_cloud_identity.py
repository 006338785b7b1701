"""Tokens of the machine's own identity; Azure's metadata service and AWS STS answer in this process."""

from __future__ import annotations

import http.server
import importlib.util
import threading
import urllib.parse
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from aiokafkapy.errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.cloud_identity import (
    AzureManagedIdentity,
    cloud_provider_for,
)
from aiokafkapy.security.sasl.mechanism import mechanism_for
from aiokafkapy.security.sasl.options import SaslOptions, parse_pairs
from aiokafkapy.security.sasl.tokens import OAuthBearerMechanism
from tests.unit.virtual_time import in_virtual_time

from .exchanges import everything_shown_of
from .oauth_server import Server, answer

QUERY = "api-version=2018-02-01&resource=api://orders"


def azure(**options: Any) -> SaslOptions:
    return SaslOptions(
        **{
            "sasl_mechanism": "OAUTHBEARER",
            "sasl_oauthbearer_metadata_authentication_type": "azure_imds",
            "sasl_oauthbearer_config": f"query={QUERY}",
        }
        | options
    )


def aws(config: str, **options: Any) -> SaslOptions:
    return azure(sasl_oauthbearer_metadata_authentication_type="aws_iam", sasl_oauthbearer_config=config, **options)


@pytest.mark.parametrize(
    ("endpoint_url", "asked"),
    [
        (None, f"http://169.254.169.254/metadata/identity/oauth2/token?{QUERY}"),
        ("http://127.0.0.1:40342/token", f"http://127.0.0.1:40342/token?{QUERY}"),
        ("http://127.0.0.1:40342/token?a=b", f"http://127.0.0.1:40342/token?a=b&{QUERY}"),
    ],
)
@pytest.mark.parametrize("name", ["query", "params"])
def test_azure_is_asked_with_a_get_and_its_header(endpoint_url: str | None, asked: str, name: str) -> None:
    async def program() -> None:
        server = Server(answer(expires_in="86399"))
        options = azure(sasl_oauthbearer_token_endpoint_url=endpoint_url)
        token = await AzureManagedIdentity({name: QUERY}, options, httpx.MockTransport(server))()
        (request,) = server.requests
        assert (request.method, str(request.url), request.content) == ("GET", asked, b"")
        assert request.headers["metadata"] == "true"
        assert token.value == "abc"

    in_virtual_time(program)


def test_the_options_make_a_mechanism_with_extensions() -> None:
    options = azure(sasl_oauthbearer_extensions="logicalCluster=lkc-1,identityPoolId=pool-1")
    mechanism = mechanism_for(options)
    assert isinstance(mechanism, OAuthBearerMechanism)
    keeper = vars(mechanism)["_keeper"]
    assert isinstance(vars(keeper)["_provider"], AzureManagedIdentity)
    assert vars(keeper)["_extensions"] == {"logicalCluster": "lkc-1", "identityPoolId": "pool-1"}


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (azure(sasl_oauthbearer_config=None), "needs a query and nothing else: write 'query=api-version"),
        (azure(sasl_oauthbearer_config="query=a=b,region=x"), "needs a query and nothing else"),
        (azure(sasl_oauthbearer_config="query"), "sasl_oauthbearer_config has a part that is not a pair"),
        (azure(sasl_oauthbearer_metadata_authentication_type="gcp"), "'gcp' is unknown: write 'azure_imds' or 'aws"),
        (azure(sasl_oauthbearer_extensions="logicalCluster"), "sasl_oauthbearer_extensions has a part that is no"),
        (azure(sasl_oauthbearer_extensions="auth=x"), "auth"),
        (aws("audience=x"), "lacks region: write 'region="),
        (aws("region=x"), "lacks audience"),
        (aws("region=x,audience=y,colour=blue"), "has 'colour', which 'aws_iam' does not know: write region, audience"),
        (aws("region=x,audience=y,duration_seconds=59"), "duration_seconds='59': write 60 to 3600"),
        (aws("region=x,audience=y,duration_seconds=1e3"), "duration_seconds='1e3': write 60 to 3600"),
        (aws("region=x,audience=y,signing_algorithm=none"), "signing_algorithm='none': write ES384 or RS256"),
    ],
)
def test_settings_that_cannot_work_raise_at_once(options: SaslOptions, words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        mechanism_for(options)


def test_pairs_may_have_spaces_and_quoted_commas() -> None:
    assert parse_pairs("x", r" a=b , c=d\,e=f,") == {"a": "b", "c": "d,e=f"}


def test_none_means_no_such_identity() -> None:
    with pytest.raises(ConfigurationError, match="no source of tokens"):
        mechanism_for(azure(sasl_oauthbearer_metadata_authentication_type="none"))


@pytest.mark.parametrize(
    ("missing", "extra", "options"),
    [
        ("httpx", "oauth", azure()),
        ("botocore", "msk", aws("region=x,audience=y")),
    ],
)
def test_without_the_extra_it_says_how_to_get_it(
    missing: str, extra: str, options: SaslOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == missing else found(name))
    with pytest.raises(ConfigurationError, match=rf"pip install 'aiokafkapy\[{extra}\]'"):
        mechanism_for(options)


class Sts(http.server.BaseHTTPRequestHandler):
    """AWS STS, as far as ``GetWebIdentityToken`` goes; its requests are in ``asked``."""

    asked: dict[str, list[str]]
    refusal = ""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        type(self).asked = urllib.parse.parse_qs(body)
        assert self.headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIA/")
        answer = (
            f"<ErrorResponse><Error><Code>{self.refusal}</Code><Message>no</Message></Error></ErrorResponse>"
            if self.refusal
            else "<GetWebIdentityTokenResponse><GetWebIdentityTokenResult><WebIdentityToken>a.b.c</WebIdentityToken>"
            "<Expiration>2033-05-18T03:33:20Z</Expiration></GetWebIdentityTokenResult></GetWebIdentityTokenResponse>"
        ).encode()
        self.send_response(403 if self.refusal else 200)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Nowhere."""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with http.server.HTTPServer(("127.0.0.1", 0), Sts) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


async def test_aws_is_asked_through_botocore(sts: str) -> None:
    settings = f"region=eu-west-1,audience=https://kafka,duration_seconds=600,tag_team=orders,sts_endpoint={sts}"
    token = await cloud_provider_for("aws_iam", aws(settings))()
    assert (token.value, token.expires_at_ms) == ("a.b.c", 2_000_000_000_000)
    assert Sts.asked["Action"] == ["GetWebIdentityToken"]
    assert Sts.asked["Audience.member.1"] == ["https://kafka"]
    assert (Sts.asked["SigningAlgorithm"], Sts.asked["DurationSeconds"]) == (["ES384"], ["600"])
    assert (Sts.asked["Tags.member.1.Key"], Sts.asked["Tags.member.1.Value"]) == (["team"], ["orders"])


async def test_a_refusal_of_aws_is_raised_and_a_passing_failure_is_tried_again(
    sts: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = cloud_provider_for("aws_iam", aws(f"region=eu-west-1,audience=a,sts_endpoint={sts}"))
    monkeypatch.setattr(Sts, "refusal", "AccessDenied")
    with pytest.raises(SaslAuthenticationFailedError, match="AWS STS gave no token: AccessDenied") as refused:
        await provider()
    assert "hunter2" not in everything_shown_of(refused.value)
    nobody = cloud_provider_for("aws_iam", aws("region=eu-west-1,audience=a,sts_endpoint=http://127.0.0.1:1"))
    with pytest.raises(KafkaConnectionError, match="AWS STS could not be asked") as failed:
        await nobody()
    assert failed.value.retriable


async def test_no_credentials_are_a_refusal(sts: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    provider = cloud_provider_for("aws_iam", aws(f"region=eu-west-1,audience=a,sts_endpoint={sts}"))
    with pytest.raises(SaslAuthenticationFailedError, match="AWS STS gave no token: NoCredentialsError"):
        await provider()
