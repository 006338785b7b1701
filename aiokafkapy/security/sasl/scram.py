"""SCRAM-SHA-256 and -512: both sides prove that they know the password, and neither sends it (RFC 5802, RFC 7677).

Owns the four messages and both halves. The derivation of keys from a password is ``scram_credential``'s. Kafka's
counterparts are ``ScramSaslClient``, ``ScramSaslServer``, ``ScramMessages`` and ``ScramExtensions``.

Rules:

- The bytes are signed as they were sent, not in a rebuilt form.
- The client is complete only when the server's signature is right, which a server without the password cannot make.
- The client takes no fewer iterations than Kafka's own: a server that asks for one is after the password. It takes no
  more than it could do in a second or so: a server that asks for a billion is after the processor.
- The salted password is kept by (salt, iterations): re-authentication hashes once, not 4,096 times.
- The server refuses an unknown user and a wrong password in the same words.
- No channel binding, as in Kafka: the header is ``n,,``.
"""

from __future__ import annotations

import base64
import hmac
import re
import secrets
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Final

from ...errors import SaslAuthenticationFailedError
from ...states import StateTable
from .scram_credential import (
    MIN_ITERATIONS,
    DelegationToken,
    ScramCredential,
    ScramHash,
    password_bytes,
    scram_hash,
)
from .secret import Secret
from .wire import SASLNAME, decode_saslname, encode_saslname, failed

__all__ = [
    "MAX_CLIENT_ITERATIONS",
    "SCRAM_CLIENT_STATES",
    "SCRAM_SERVER_STATES",
    "ScramClientExchange",
    "ScramClientState",
    "ScramMechanism",
    "ScramServerExchange",
    "ScramServerState",
    "new_nonce",
]

MAX_CLIENT_ITERATIONS: Final = 1_000_000
MAX_MESSAGE_BYTES: Final = 16_384
_KEPT_SALTS: Final = 8
"""A user has one salt in a cluster, and a second one after a change of the password."""

_GS2_HEADER: Final = b"n,,"
_PRINTABLE: Final = rb"[\x21-\x2b\x2d-\x7e]+"
_VALUE: Final = rb"[\x01-\x2b\x2d-\x7f]+"
_BASE64: Final = rb"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_RESERVED: Final = rb"(?:m=" + _VALUE + rb",)?"
_EXTENSIONS: Final = rb"(?:,[A-Za-z]+=" + _VALUE + rb")*"
_CLIENT_FIRST: Final = re.compile(
    rb"(?P<header>n,(?:a=(?P<authzid>" + SASLNAME + rb"))?,)"
    rb"(?P<bare>" + _RESERVED + rb"n=(?P<name>" + SASLNAME + rb"),r=(?P<nonce>" + _PRINTABLE + rb")"
    rb"(?P<extensions>" + _EXTENSIONS + rb"))"
)
_SERVER_FIRST: Final = re.compile(
    _RESERVED
    + rb"r=(?P<nonce>"
    + _PRINTABLE
    + rb"),s=(?P<salt>"
    + _BASE64
    + rb"),i=(?P<iterations>[0-9]+)"
    + _EXTENSIONS
)
_CLIENT_FINAL: Final = re.compile(
    rb"(?P<unproved>c=(?P<channel>"
    + _BASE64
    + rb"),r=(?P<nonce>"
    + _PRINTABLE
    + rb")"
    + _EXTENSIONS
    + rb"),p=(?P<proof>"
    + _BASE64
    + rb")"
)
_SERVER_FINAL: Final = re.compile(
    rb"(?:e=(?P<error>[\x01-\x2b\x2d-\x3c\x3e-\x7f]+)|v=(?P<signature>" + _BASE64 + rb"))" + _EXTENSIONS
)


class ScramClientState(Enum):
    """The progress of the client's half; Kafka's names."""

    SEND_CLIENT_FIRST_MESSAGE = "send_client_first_message"
    RECEIVE_SERVER_FIRST_MESSAGE = "receive_server_first_message"
    RECEIVE_SERVER_FINAL_MESSAGE = "receive_server_final_message"
    COMPLETE = "complete"
    FAILED = "failed"


class ScramServerState(Enum):
    """The progress of the broker's half; Kafka's names."""

    RECEIVE_CLIENT_FIRST_MESSAGE = "receive_client_first_message"
    RECEIVE_CLIENT_FINAL_MESSAGE = "receive_client_final_message"
    COMPLETE = "complete"
    FAILED = "failed"


_C = ScramClientState
_S = ScramServerState

SCRAM_CLIENT_STATES: Final = StateTable(
    "SCRAM client",
    _C.SEND_CLIENT_FIRST_MESSAGE,
    {
        _C.SEND_CLIENT_FIRST_MESSAGE: {_C.RECEIVE_SERVER_FIRST_MESSAGE, _C.FAILED},
        _C.RECEIVE_SERVER_FIRST_MESSAGE: {_C.RECEIVE_SERVER_FINAL_MESSAGE, _C.FAILED},
        _C.RECEIVE_SERVER_FINAL_MESSAGE: {_C.COMPLETE, _C.FAILED},
        _C.COMPLETE: (),
        _C.FAILED: (),
    },
)
SCRAM_SERVER_STATES: Final = StateTable(
    "SCRAM server",
    _S.RECEIVE_CLIENT_FIRST_MESSAGE,
    {
        _S.RECEIVE_CLIENT_FIRST_MESSAGE: {_S.RECEIVE_CLIENT_FINAL_MESSAGE, _S.FAILED},
        _S.RECEIVE_CLIENT_FINAL_MESSAGE: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


def new_nonce() -> str:
    """A nonce that nobody can guess, of printable characters without a comma."""
    return secrets.token_urlsafe(24)


class ScramMechanism:
    """SCRAM with one name and password, which may be a delegation token's id and HMAC (``is_token``)."""

    blocks = True

    def __init__(
        self,
        name: str,
        username: str,
        password: Secret[str],
        *,
        is_token: bool = False,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self.name = name
        self._hash = scram_hash(name)
        self._username = username
        self._password = password_bytes(password)
        self._is_token = is_token
        self._nonce = nonce
        self._salted: dict[tuple[bytes, int], Secret[bytes]] = {}

    async def prepare(self) -> None:
        """Nothing has to be fetched."""

    def exchange(self, host: str) -> ScramClientExchange:
        """The client's half of one authentication."""
        extensions = b",tokenauth=true" if self._is_token else b""
        first = b"n=%b,r=%b%b" % (encode_saslname(self._username), self._nonce().encode(), extensions)
        return ScramClientExchange(self._hash, first, self._salted_password)

    def close(self) -> None:
        """Forget the keys derived from the password."""
        self._salted.clear()

    def __repr__(self) -> str:
        return f"ScramMechanism({self.name!r}, {self._username!r})"

    def _salted_password(self, salt: bytes, iterations: int) -> Secret[bytes]:
        # Exchanges run in threads: two that come at once derive the same, and either may be kept.
        known = self._salted.get((salt, iterations))
        if known is None:
            known = self._hash.salted_password(self._password, salt, iterations)
            if len(self._salted) >= _KEPT_SALTS:
                self._salted = {}
            self._salted[salt, iterations] = known
        return known


class ScramClientExchange:
    """The client's half of one authentication."""

    def __init__(
        self, hashes: ScramHash, first_bare: bytes, salted_password: Callable[[bytes, int], Secret[bytes]]
    ) -> None:
        self._hash = hashes
        self._first_bare = first_bare
        self._salted_password = salted_password
        self._state = SCRAM_CLIENT_STATES.initial
        self._expected_signature: Secret[bytes] = Secret(b"")

    @property
    def is_complete(self) -> bool:
        """True when the server has proved that it knows the password."""
        return self._state is _C.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """The answer to the server's message; raises SaslAuthenticationFailedError for a wrong one."""
        try:
            if len(challenge) > MAX_MESSAGE_BYTES:
                raise failed(f"sent {len(challenge):,} bytes, at most {MAX_MESSAGE_BYTES:,} are taken")
            if self._state is _C.SEND_CLIENT_FIRST_MESSAGE:
                return self._send_first(challenge)
            if self._state is _C.RECEIVE_SERVER_FIRST_MESSAGE:
                return self._answer_first(challenge)
            if self._state is _C.RECEIVE_SERVER_FINAL_MESSAGE:
                self._check_final(challenge)
                return None
            raise failed(f"sent {len(challenge)} bytes after the end of {self._hash.name}")
        except SaslAuthenticationFailedError:
            if not SCRAM_CLIENT_STATES.is_final(self._state):
                self._state = SCRAM_CLIENT_STATES.transition(self._state, _C.FAILED)
            raise

    # internals

    def _send_first(self, challenge: bytes) -> bytes:
        if challenge:
            raise failed(f"sent {len(challenge)} bytes before the first of {self._hash.name}")
        self._state = SCRAM_CLIENT_STATES.transition(self._state, _C.RECEIVE_SERVER_FIRST_MESSAGE)
        return _GS2_HEADER + self._first_bare

    def _answer_first(self, challenge: bytes) -> bytes:
        found = _SERVER_FIRST.fullmatch(challenge)
        if found is None:
            raise failed(f"sent a first message that is not {self._hash.name}")
        nonce, iterations = found["nonce"], _bounded_iterations(found["iterations"])
        own_nonce = self._first_bare.partition(b",r=")[2].partition(b",")[0]
        if not nonce.startswith(own_nonce) or nonce == own_nonce:
            raise failed("did not add to the nonce that it was sent: somebody else may be answering")
        unproved = b"c=%b,r=%b" % (base64.b64encode(_GS2_HEADER), nonce)
        signed = b",".join((self._first_bare, challenge, unproved))
        proof = self._prove(self._salted_password(base64.b64decode(found["salt"]), iterations), signed)
        self._state = SCRAM_CLIENT_STATES.transition(self._state, _C.RECEIVE_SERVER_FINAL_MESSAGE)
        return b"%b,p=%b" % (unproved, base64.b64encode(proof))

    def _prove(self, salted: Secret[bytes], signed: bytes) -> bytes:
        hashes = self._hash
        client_key = hashes.mac(salted.reveal(), b"Client Key")
        self._expected_signature = Secret(hashes.mac(hashes.mac(salted.reveal(), b"Server Key"), signed))
        return _xor(client_key, hashes.mac(hashes.hash(client_key), signed))

    def _check_final(self, challenge: bytes) -> None:
        found = _SERVER_FINAL.fullmatch(challenge)
        if found is None:
            raise failed(f"sent a final message that is not {self._hash.name}")
        if found["error"] is not None:
            raise failed(f"refused: {_shown(found['error'])}")
        if not hmac.compare_digest(base64.b64decode(found["signature"]), self._expected_signature.reveal()):
            raise failed("does not know the password: its signature is wrong, so it is not the broker it should be")
        self._state = SCRAM_CLIENT_STATES.transition(self._state, _C.COMPLETE)


class ScramServerExchange:
    """The broker's half of one authentication."""

    def __init__(
        self,
        mechanism: str,
        users: Mapping[str, ScramCredential],
        *,
        tokens: Mapping[str, DelegationToken] | None = None,
        nonce: Callable[[], str] = new_nonce,
    ) -> None:
        self.principal = ""
        self.expires_at_ms: int | None = None
        self._hash = scram_hash(mechanism)
        self._users = users
        self._tokens = tokens or {}
        self._new_nonce = nonce
        self._state = SCRAM_SERVER_STATES.initial
        # between the first message and the final one
        self._owner = ""
        self._credential: ScramCredential | None = None
        self._header = self._first_bare = self._server_first = self._nonce = b""

    @property
    def is_complete(self) -> bool:
        """True when the client has proved that it knows the password."""
        return self._state is _S.COMPLETE

    def respond(self, response: bytes) -> bytes:
        """The answer to the client's message; raises SaslAuthenticationFailedError, with words for the client."""
        try:
            if len(response) > MAX_MESSAGE_BYTES:
                raise self._refused()
            if self._state is _S.RECEIVE_CLIENT_FIRST_MESSAGE:
                return self._answer_first(response)
            if self._state is _S.RECEIVE_CLIENT_FINAL_MESSAGE:
                return self._answer_final(response)
            raise self._refused()
        except SaslAuthenticationFailedError:
            self._credential = None
            if not SCRAM_SERVER_STATES.is_final(self._state):
                self._state = SCRAM_SERVER_STATES.transition(self._state, _S.FAILED)
            raise

    # internals

    def _answer_first(self, response: bytes) -> bytes:
        found = _CLIENT_FIRST.fullmatch(response)
        if found is None:
            raise self._refused()
        username = decode_saslname(found["name"])
        credential = self._credential_of(
            username, is_token=b"tokenauth=true" in found["extensions"].lower().split(b",")
        )
        if found["authzid"] is not None and decode_saslname(found["authzid"]) != username:
            raise SaslAuthenticationFailedError(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential is None or credential.iterations < MIN_ITERATIONS:
            raise self._refused()
        self._credential = credential
        self._header, self._first_bare = found["header"], found["bare"]
        self._nonce = found["nonce"] + self._new_nonce().encode()
        salt = base64.b64encode(credential.salt)
        self._server_first = b"r=%b,s=%b,i=%d" % (self._nonce, salt, credential.iterations)
        self._state = SCRAM_SERVER_STATES.transition(self._state, _S.RECEIVE_CLIENT_FINAL_MESSAGE)
        return self._server_first

    def _credential_of(self, username: str, *, is_token: bool) -> ScramCredential | None:
        if not is_token:
            self._owner = f"User:{username}"
            return self._users.get(username)
        token = self._tokens.get(username)
        if token is None:
            return None
        self._owner, self.expires_at_ms = token.owner, token.expires_at_ms
        return token.credential

    def _answer_final(self, response: bytes) -> bytes:
        found = _CLIENT_FINAL.fullmatch(response)
        credential = self._credential
        if found is None or credential is None or found["channel"] != base64.b64encode(self._header):
            raise self._refused()
        proof = base64.b64decode(found["proof"])
        if not hmac.compare_digest(found["nonce"], self._nonce) or len(proof) != self._hash.digest_bytes:
            raise self._refused()
        signed = b",".join((self._first_bare, self._server_first, found["unproved"]))
        client_key = _xor(proof, self._hash.mac(credential.stored_key, signed))
        if not hmac.compare_digest(self._hash.hash(client_key), credential.stored_key):
            raise self._refused()
        self._credential = None
        self._state = SCRAM_SERVER_STATES.transition(self._state, _S.COMPLETE)
        self.principal = self._owner
        return b"v=" + base64.b64encode(self._hash.mac(credential.server_key, signed))

    def _refused(self) -> SaslAuthenticationFailedError:
        """Kafka's text for every failure, so that a refused client does not learn how far it got."""
        return SaslAuthenticationFailedError(
            "Authentication failed during authentication due to invalid credentials with SASL mechanism "
            + self._hash.name
        )


def _bounded_iterations(digits: bytes) -> int:
    # Nine digits: int() of a megabyte of them takes seconds.
    iterations = int(digits) if len(digits) < 10 else MAX_CLIENT_ITERATIONS + 1
    if not MIN_ITERATIONS <= iterations <= MAX_CLIENT_ITERATIONS:
        raise failed(
            f"asks for {_shown(digits)} iterations of the password's hash: {MIN_ITERATIONS:,} to "
            f"{MAX_CLIENT_ITERATIONS:,} are taken"
        )
    return iterations


def _shown(text: bytes) -> str:
    return text[:100].decode("ascii", "backslashreplace") + ("…" if len(text) > 100 else "")


def _xor(left: bytes, right: bytes) -> bytes:
    size = len(left)
    return (int.from_bytes(left, "big") ^ int.from_bytes(right, "big")).to_bytes(size, "big")
