"""OAUTHBEARER: a token names the client (RFC 7628; KIP-255, and KIP-342 for extensions), both halves.

Owns the message, the token as the rest of the product sees it, and the two halves. A client's token comes from
``tokens``; ``json_web_tokens`` checks it for the broker. Kafka's counterparts are ``OAuthBearerSaslClient``,
``OAuthBearerSaslServer`` and ``OAuthBearerClientInitialResponse``.

Rules:

- A refusal comes as JSON in the server's answer. The client replies ``\\x01``, and the server then fails with the same
  text; a client that is challenged again raises the refusal itself.
- The server's half decides by the time at which it was made: an exchange lasts no longer than a connection's set-up.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from ...errors import ConfigurationError, SaslAuthenticationFailedError
from ...states import StateTable
from .json_web_tokens import InvalidTokenError, TokenValidator
from .secret import Secret
from .wire import MAX_RECEIVE_BYTES, SASLNAME, decode_saslname

__all__ = [
    "OAUTHBEARER",
    "OAUTHBEARER_CLIENT_STATES",
    "OAUTHBEARER_SERVER_STATES",
    "OAuthBearerClientExchange",
    "OAuthBearerClientState",
    "OAuthBearerServerExchange",
    "OAuthBearerServerState",
    "OAuthBearerToken",
    "check_extensions",
]

OAUTHBEARER: Final = "OAUTHBEARER"
MAX_PAIRS: Final = 100
"""The most parts of a message, the token and its extensions: a client with a hundred thousand wants our memory."""

_KVSEP: Final = b"\1"
_KEY: Final = rb"[A-Za-z]+"
_VALUE: Final = rb"[\x21-\x7e \t\r\n]+"
_HEADER: Final = re.compile(rb"n,(?:a=(?P<authzid>" + SASLNAME + rb"))?,\x01")
_PAIR: Final = re.compile(rb"(" + _KEY + rb")=(" + _VALUE + rb")")
_BEARER: Final = re.compile(rb"(?i:bearer) +(?P<token>[-._~+/a-zA-Z0-9]+=*)")
_TOKEN: Final = re.compile(r"[-._~+/a-zA-Z0-9]+=*")
_EXTENSION_NAME: Final = re.compile(_KEY.decode())
_EXTENSION_VALUE: Final = re.compile(_VALUE.decode())


@dataclass(frozen=True, slots=True)
class OAuthBearerToken:
    """An access token. ``expires_at_ms`` is in milliseconds since the epoch; None takes ``exp`` of a JWT.

    ``principal`` and ``scope`` are for logs and for callers; a broker reads its own out of the token. Extensions
    are sent along (KIP-342): ``{"logicalCluster": "lkc-1"}``. Raises ConfigurationError for values that cannot be sent.
    """

    value: str = field(repr=False)
    expires_at_ms: int | None = None
    principal: str = ""
    scope: frozenset[str] = frozenset()
    extensions: Mapping[str, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.value, str) or not _TOKEN.fullmatch(self.value):
            raise ConfigurationError(
                "the OAUTHBEARER token is not a text of letters, digits and -._~+/: give the access token alone"
            )
        check_extensions(self.extensions)


def check_extensions(extensions: Mapping[str, str]) -> None:
    """Raise ConfigurationError for a name or a value that cannot be in the message; values are not shown."""
    for name, value in extensions.items():
        if not isinstance(name, str) or not _EXTENSION_NAME.fullmatch(name) or name.lower() == "auth":
            raise ConfigurationError(
                f"{name!r} is not the name of a SASL extension: write letters only, and not 'auth'"
            )
        if not isinstance(value, str) or not _EXTENSION_VALUE.fullmatch(value):
            raise ConfigurationError(
                f"the SASL extension {name!r} has no value that can be sent: write printable ASCII"
            )


class OAuthBearerClientState(Enum):
    """The progress of the client's half; Kafka's names."""

    SEND_CLIENT_FIRST_MESSAGE = "send_client_first_message"
    RECEIVE_SERVER_FIRST_MESSAGE = "receive_server_first_message"
    RECEIVE_SERVER_MESSAGE_AFTER_FAILURE = "receive_server_message_after_failure"
    COMPLETE = "complete"
    FAILED = "failed"


class OAuthBearerServerState(Enum):
    """The progress of the broker's half."""

    RECEIVE_CLIENT_FIRST_MESSAGE = "receive_client_first_message"
    RECEIVE_CLIENT_MESSAGE_AFTER_FAILURE = "receive_client_message_after_failure"
    COMPLETE = "complete"
    FAILED = "failed"


_C = OAuthBearerClientState
_S = OAuthBearerServerState

OAUTHBEARER_CLIENT_STATES: Final = StateTable(
    "OAUTHBEARER client",
    _C.SEND_CLIENT_FIRST_MESSAGE,
    {
        _C.SEND_CLIENT_FIRST_MESSAGE: {_C.RECEIVE_SERVER_FIRST_MESSAGE, _C.FAILED},
        _C.RECEIVE_SERVER_FIRST_MESSAGE: {_C.RECEIVE_SERVER_MESSAGE_AFTER_FAILURE, _C.COMPLETE, _C.FAILED},
        _C.RECEIVE_SERVER_MESSAGE_AFTER_FAILURE: {_C.FAILED},
        _C.COMPLETE: (),
        _C.FAILED: (),
    },
)
OAUTHBEARER_SERVER_STATES: Final = StateTable(
    "OAUTHBEARER server",
    _S.RECEIVE_CLIENT_FIRST_MESSAGE,
    {
        _S.RECEIVE_CLIENT_FIRST_MESSAGE: {_S.RECEIVE_CLIENT_MESSAGE_AFTER_FAILURE, _S.COMPLETE, _S.FAILED},
        _S.RECEIVE_CLIENT_MESSAGE_AFTER_FAILURE: {_S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


class OAuthBearerClientExchange:
    """The client's half of one authentication."""

    def __init__(self, token: OAuthBearerToken) -> None:
        self._token = token
        self._state = OAUTHBEARER_CLIENT_STATES.initial
        self._refusal = ""

    @property
    def is_complete(self) -> bool:
        """True when the server has taken the token."""
        return self._state is _C.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """The message, ``\\x01`` for a refusal, None for consent; raises SaslAuthenticationFailedError after that."""
        state = self._state
        if state is _C.SEND_CLIENT_FIRST_MESSAGE and not challenge:
            self._change(_C.RECEIVE_SERVER_FIRST_MESSAGE)
            return self._message()
        if state is _C.RECEIVE_SERVER_FIRST_MESSAGE and not challenge:
            self._change(_C.COMPLETE)
            return None
        if state is _C.RECEIVE_SERVER_FIRST_MESSAGE and len(challenge) <= MAX_RECEIVE_BYTES:
            self._change(_C.RECEIVE_SERVER_MESSAGE_AFTER_FAILURE)
            self._refusal = _words(challenge)
            return _KVSEP
        if not OAUTHBEARER_CLIENT_STATES.is_final(state):
            self._change(_C.FAILED)
        if self._refusal:
            raise SaslAuthenticationFailedError(f"the broker refused the token: {self._refusal}")
        raise SaslAuthenticationFailedError(f"the broker sent {len(challenge)} bytes that OAUTHBEARER does not know")

    # internals

    def _change(self, new: OAuthBearerClientState) -> None:
        self._state = OAUTHBEARER_CLIENT_STATES.transition(self._state, new)

    def _message(self) -> bytes:
        pairs = [f"auth=Bearer {self._token.value}", *(f"{k}={v}" for k, v in self._token.extensions.items())]
        return b"n,,\1" + "\1".join(pairs).encode("ascii") + b"\1\1"


class OAuthBearerServerExchange:
    """The broker's half of one authentication, at a time in milliseconds since the epoch."""

    def __init__(self, validator: TokenValidator, now_ms: int) -> None:
        self.principal = ""
        self.expires_at_ms: int | None = None
        self._validator = validator
        self._now_ms = now_ms
        self._state = OAUTHBEARER_SERVER_STATES.initial
        self._refusal = ""

    @property
    def is_complete(self) -> bool:
        """True when the token was taken."""
        return self._state is _S.COMPLETE

    def respond(self, response: bytes) -> bytes:
        """No bytes for a valid token, JSON for any other; raises SaslAuthenticationFailedError after that."""
        found = _read(response) if len(response) <= MAX_RECEIVE_BYTES else None
        del response  # the token is in it, and frames that raise are shown
        if self._state is _S.RECEIVE_CLIENT_FIRST_MESSAGE and found is not None:
            return self._answer(found)
        if not OAUTHBEARER_SERVER_STATES.is_final(self._state):
            self._change(_S.FAILED)
        raise SaslAuthenticationFailedError(self._refusal or _INVALID_MESSAGE)

    # internals

    def _change(self, new: OAuthBearerServerState) -> None:
        self._state = OAUTHBEARER_SERVER_STATES.transition(self._state, new)

    def _answer(self, found: _InitialResponse) -> bytes:
        try:
            valid = self._validator.validate(found.token, self._now_ms)
        except InvalidTokenError as error:
            self._change(_S.RECEIVE_CLIENT_MESSAGE_AFTER_FAILURE)
            self._refusal = error.as_json()
            return self._refusal.encode()
        if found.authorization_id not in ("", valid.principal):
            self._change(_S.FAILED)
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from the token's "
                "principal name"
            )
        self.principal = f"User:{valid.principal}"
        self.expires_at_ms = valid.expires_at_ms
        self._change(_S.COMPLETE)
        return b""


# internals

_INVALID_MESSAGE: Final = "Authentication failed: Invalid OAUTHBEARER client first message"
_SHOWN_OF_A_REFUSAL: Final = 500
"""Characters."""


@dataclass(frozen=True, slots=True)
class _InitialResponse:
    authorization_id: str
    token: Secret[str]


def _read(response: bytes) -> _InitialResponse | None:
    found = _HEADER.match(response)
    if found is None or not response.endswith(_KVSEP * 2):
        return None
    pairs = [_PAIR.fullmatch(pair) for pair in response[found.end() : -2].split(_KVSEP, MAX_PAIRS)]
    extensions = {pair[1].decode("ascii"): pair[2].decode("ascii") for pair in pairs if pair is not None}
    bearer = _BEARER.fullmatch(extensions.pop("auth", "").encode("ascii"))
    if bearer is None or len(extensions) != len(pairs) - 1:  # no token, no pair, or one twice
        return None
    authorization_id = decode_saslname(found["authzid"] or b"")
    return _InitialResponse(authorization_id, Secret(bearer["token"].decode("ascii")))


def _words(refusal: bytes) -> str:
    """The server's JSON as one line, valid or not; a terminal's control characters are replaced."""
    text = refusal[: _SHOWN_OF_A_REFUSAL * 4].decode(errors="replace")
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if isinstance(fields, dict):
        text = ", ".join(f"{name}={value}" for name, value in fields.items() if isinstance(value, str | int))
    text = "".join(character if character.isprintable() else "�" for character in text[:_SHOWN_OF_A_REFUSAL])
    return text or "without a reason"
