"""AWS_MSK_IAM: a presigned request for ``kafka-cluster:Connect`` says which IAM identity the client is.

Owns the payload and the client's half; there is no broker's half, since only AWS can check a signature. Signatures are
made by ``sigv4``, and credentials come from ``aws_credentials``. The counterpart is AWS's ``aws-msk-iam-auth``:
``AWS4SignedPayloadGenerator`` and ``IAMSaslClient``.

Rules: the request is good for fifteen minutes; the host is the broker's as the client knows it, because the broker
compares it with its own; the region is in the names that MSK gives, and must be written for any other name.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ...errors import SaslAuthenticationFailedError
from ...states import StateTable
from .secret import Secret
from .sigv4 import ALGORITHM, SigningScope, canonical_request

__all__ = [
    "AWS_MSK_IAM",
    "AWS_MSK_IAM_STATES",
    "AwsCredentials",
    "AwsMskIamClientExchange",
    "AwsMskIamState",
    "region_of",
    "signed_payload",
]

AWS_MSK_IAM: Final = "AWS_MSK_IAM"
VERSION: Final = "2020_10_22"
SERVICE: Final = "kafka-cluster"
ACTION: Final = "kafka-cluster:Connect"
EXPIRY_SECONDS: Final = 900
USER_AGENT: Final = "aiokafkapy"
MAX_ANSWER_BYTES: Final = 16_384
_EMPTY_HASH: Final = hashlib.sha256(b"").hexdigest()
_MSK_HOST: Final = re.compile(r".+\.kafka(?:-serverless)?\.(?P<region>[a-z0-9-]+)\.amazonaws\.com(?:\.cn)?\.?")


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """An access key; temporary ones have a session token and an end, in milliseconds since the epoch."""

    access_key_id: str
    secret_access_key: Secret[str]
    session_token: Secret[str] | None = field(default=None)
    expires_at_ms: int | None = None

    def __post_init__(self) -> None:
        # A user's own provider may give it as text.
        for name in ("secret_access_key", "session_token"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, Secret(value) if value else None)


class AwsMskIamState(Enum):
    """The progress of the client's half; names of ``IAMSaslClient``."""

    SEND_CLIENT_FIRST_MESSAGE = "send_client_first_message"
    RECEIVE_SERVER_RESPONSE = "receive_server_response"
    COMPLETE = "complete"
    FAILED = "failed"


_S = AwsMskIamState

AWS_MSK_IAM_STATES: Final = StateTable(
    "AWS_MSK_IAM client",
    _S.SEND_CLIENT_FIRST_MESSAGE,
    {
        _S.SEND_CLIENT_FIRST_MESSAGE: {_S.RECEIVE_SERVER_RESPONSE, _S.FAILED},
        _S.RECEIVE_SERVER_RESPONSE: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


class AwsMskIamClientExchange:
    """The client's half of one authentication, signed for the time ``now``, in seconds since the epoch."""

    def __init__(self, host: str, region: str, credentials: AwsCredentials, now: float) -> None:
        self._host = host
        self._region = region
        self._credentials = credentials
        self._now = now
        self._state = AWS_MSK_IAM_STATES.initial

    @property
    def is_complete(self) -> bool:
        """True when the broker has taken the request."""
        return self._state is _S.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """The payload, and None for the broker's answer; raises SaslAuthenticationFailedError for any other."""
        if self._state is _S.SEND_CLIENT_FIRST_MESSAGE and not challenge:
            self._state = AWS_MSK_IAM_STATES.transition(self._state, _S.RECEIVE_SERVER_RESPONSE)
            return signed_payload(self._host, self._region, self._credentials, self._now)
        if self._state is _S.RECEIVE_SERVER_RESPONSE and _is_answer(challenge):
            self._state = AWS_MSK_IAM_STATES.transition(self._state, _S.COMPLETE)
            return None
        if not AWS_MSK_IAM_STATES.is_final(self._state):
            self._state = AWS_MSK_IAM_STATES.transition(self._state, _S.FAILED)
        raise SaslAuthenticationFailedError(f"the broker's AWS_MSK_IAM answer of {len(challenge)} bytes is not valid")


def signed_payload(host: str, region: str, credentials: AwsCredentials, now: float) -> bytes:
    """The JSON that MSK takes, with the signature of the request that it stands for."""
    scope = SigningScope(now, region, SERVICE)
    parameters = {
        "Action": ACTION,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key_id}/{scope.text}",
        "X-Amz-Date": scope.timestamp,
        "X-Amz-Expires": str(EXPIRY_SECONDS),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        parameters["X-Amz-Security-Token"] = credentials.session_token.reveal()
    request = canonical_request("GET", "/", parameters, {"host": host}, _EMPTY_HASH)
    parameters["X-Amz-Signature"] = scope.signature(credentials.secret_access_key, request)
    fields = {"version": VERSION, "host": host, "user-agent": USER_AGENT} | {
        name.lower(): value for name, value in parameters.items()
    }
    return json.dumps(fields, separators=(",", ":")).encode()


def region_of(host: str) -> str:
    """The region in a host name of MSK's; raises SaslAuthenticationFailedError for another name."""
    found = _MSK_HOST.fullmatch(host.lower())
    if found is None:
        raise SaslAuthenticationFailedError(
            f"the host name {host[:255]!r} has no AWS region in it: write sasl_aws_msk_iam_region, 'us-east-1' say"
        )
    return found["region"]


def _is_answer(challenge: bytes) -> bool:
    if not challenge or len(challenge) > MAX_ANSWER_BYTES:
        return False
    try:
        fields = json.loads(challenge)
    except (ValueError, RecursionError):
        return False
    return isinstance(fields, dict) and fields.get("version") == VERSION
