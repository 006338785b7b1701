"""PLAIN: name and password in one message (RFC 4616), both halves.

Knows nothing of connections: the caller has to see to the encryption of the bytes. Kafka's counterparts
are ``PlainSaslServer`` and the JDK's client.

Rule: the client is complete when the server has answered its message, which it does with no bytes.
"""

from __future__ import annotations

import hmac
from collections import UserDict
from enum import Enum
from typing import Final

from ...errors import SaslAuthenticationFailedError
from ...states import StateTable
from .secret import Secret

__all__ = [
    "PLAIN",
    "PLAIN_CLIENT_STATES",
    "PlainClientExchange",
    "PlainClientState",
    "PlainCredentialStore",
    "PlainMechanism",
    "PlainServerExchange",
]

PLAIN: Final = "PLAIN"
MAX_MESSAGE_BYTES: Final = 16_384
"""Longer than any name and password; some passwords are tokens of several kilobytes."""


class PlainClientState(Enum):
    """The progress of the client's half."""

    SEND_CREDENTIALS = "send_credentials"
    RECEIVE_ANSWER = "receive_answer"
    COMPLETE = "complete"
    FAILED = "failed"


_S = PlainClientState

PLAIN_CLIENT_STATES: Final = StateTable(
    "PLAIN client",
    _S.SEND_CREDENTIALS,
    {
        _S.SEND_CREDENTIALS: {_S.RECEIVE_ANSWER, _S.FAILED},
        _S.RECEIVE_ANSWER: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


class PlainMechanism:
    """PLAIN with one name and password."""

    name = PLAIN
    blocks = False

    def __init__(self, username: str, password: Secret[str]) -> None:
        self._username = username
        self._password = password

    async def prepare(self) -> None:
        """Nothing has to be fetched."""

    def exchange(self, host: str) -> PlainClientExchange:
        """The client's half of one authentication."""
        return PlainClientExchange(self._username, self._password)

    def close(self) -> None:
        """Nothing is held."""

    def __repr__(self) -> str:
        return f"PlainMechanism({self._username!r})"


class PlainClientExchange:
    """The client's half: one message, and the server's empty answer."""

    def __init__(self, username: str, password: Secret[str]) -> None:
        self._username = username
        self._password = password
        self._state = PLAIN_CLIENT_STATES.initial

    @property
    def is_complete(self) -> bool:
        """True when the server has taken the message."""
        return self._state is _S.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """The message, and None for the server's answer to it."""
        if self._state is _S.SEND_CREDENTIALS and not challenge:
            self._state = PLAIN_CLIENT_STATES.transition(self._state, _S.RECEIVE_ANSWER)
            return b"\0%b\0%b" % (_encoded(self._username), _encoded(self._password.reveal()))
        if self._state is _S.RECEIVE_ANSWER and not challenge:
            self._state = PLAIN_CLIENT_STATES.transition(self._state, _S.COMPLETE)
            return None
        if not PLAIN_CLIENT_STATES.is_final(self._state):
            self._state = PLAIN_CLIENT_STATES.transition(self._state, _S.FAILED)
        raise SaslAuthenticationFailedError(
            f"the broker sent {len(challenge)} bytes where PLAIN has nothing to answer: is it a PLAIN listener?"
        )


class PlainCredentialStore(UserDict[str, "Secret[str] | str"]):
    """Passwords by user, as a dictionary; ``repr`` has the names only."""

    def __setitem__(self, user: str, password: Secret[str] | str) -> None:
        super().__setitem__(user, password if isinstance(password, Secret) else Secret(password))

    def matches(self, user: str, password: bytes) -> bool:
        """True when the user exists and has this password; takes as long for any password of this length."""
        known = self.get(user)
        # An unknown user is compared too, so that time does not tell which names exist.
        expected = known.reveal() if isinstance(known, Secret) else ""
        return hmac.compare_digest(_encoded(expected), password) and known is not None

    def __repr__(self) -> str:
        return f"PlainCredentialStore({sorted(self)})"


class PlainServerExchange:
    """The broker's half: complete with the first message, or failed."""

    expires_at_ms: int | None = None

    def __init__(self, users: PlainCredentialStore) -> None:
        self._users = users
        self.is_complete = False
        self.principal = ""

    def respond(self, response: bytes) -> bytes:
        """No bytes when name and password are right; raises SaslAuthenticationFailedError otherwise."""
        if self.is_complete:
            raise _refused("PLAIN is complete, nothing may follow")
        if len(response) > MAX_MESSAGE_BYTES:
            raise _refused(f"the PLAIN message has {len(response):,} bytes: at most {MAX_MESSAGE_BYTES:,} are taken")
        parts = [Secret(part) for part in response.split(b"\0")]
        del response
        if len(parts) != 3:
            raise _refused(f"a PLAIN message has 3 parts, not {len(parts)}")
        authorization_id, username = (_decoded(part.reveal()) for part in parts[:2])
        if authorization_id is None or username is None:
            raise _refused("a name in the PLAIN message is not UTF-8")
        if not username:
            raise _refused("username not specified")
        if not parts[2]:
            raise _refused("password not specified")
        if not self._users.matches(username, parts[2].reveal()):
            raise _refused("Invalid username or password")
        if authorization_id not in ("", username):
            raise _refused("Client requested an authorization id that is different from username")
        self.principal = f"User:{username}"
        self.is_complete = True
        return b""


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")  # a password that cannot be sent is refused when settings are checked


def _decoded(name: bytes) -> str | None:
    try:
        return name.decode()
    except UnicodeDecodeError:
        return None


def _refused(reason: str) -> SaslAuthenticationFailedError:
    return SaslAuthenticationFailedError(f"Authentication failed: {reason}")
