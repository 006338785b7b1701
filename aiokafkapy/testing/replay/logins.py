"""Logins to a replay, the broker's half: SASL is not played from the recording, but carried out.

Owns the SASL requests of a connection if a replay has users. A recording has no proofs of identity, and SCRAM's differ
each time, since both sides add to them; so a client that must log in as before needs a peer that knows its password.
Pure: frames come in, answers go out. Kafka's counterpart is ``SaslServerAuthenticator``.

Rules: a user logs in by PLAIN or SCRAM, whatever was recorded; a wrong password is refused, as by a broker, and is not
a mismatch; a client may leave SASL out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ...broker.security.sasl_session import SaslSession
from ...errors import KafkaError, SaslAuthenticationFailedError
from ...protocol.api import ApiKey
from ...protocol.codec import RequestHeader, Struct, decode_request, encode_response
from ...protocol.messages import build_response
from ...security.sasl.mechanism import SaslServerExchange
from ...security.sasl.plain import PlainCredentialStore
from ...security.sasl.scram_credential import ScramCredential, ScramCredentialStore
from ...security.sasl.server import server_mechanism
from ...security.sasl.wire import MAX_RECEIVE_BYTES

__all__ = ["Login", "Logins"]

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")


class Logins:
    """The users of a replay, with their passwords. It serves as the settings of each connection's session."""

    max_reauth_ms: Final = 0
    failure_delay: Final = 0.0
    max_receive_size: Final = MAX_RECEIVE_BYTES
    is_refusing: Final = False

    def __init__(self, users: Mapping[str, str]) -> None:
        """Hashes the passwords, which takes milliseconds for each. ValueError for an empty name or password."""
        for user, password in users.items():
            if not user or not password:
                raise ValueError(f"sasl_users: {user!r} has to have a name and a password that are not empty")
        plain = PlainCredentialStore()
        for user, password in users.items():
            plain[user] = password
        self.mechanisms: dict[str, Callable[[], SaslServerExchange]] = {"PLAIN": server_mechanism("PLAIN", plain)}
        for name in _SCRAM:
            hashed = {user: ScramCredential.from_password(name, password) for user, password in users.items()}
            self.mechanisms[name] = server_mechanism(name, ScramCredentialStore(hashed))


class Login:
    """SASL of one connection."""

    def __init__(self, logins: Logins) -> None:
        self._session = SaslSession(logins)

    @property
    def is_failed(self) -> bool:
        """True if the connection must be closed after its answer."""
        return self._session.is_failed

    @property
    def takes_tokens(self) -> bool:
        """True if the next frame is a bare token (before KIP-152)."""
        return self._session.takes_tokens

    def token(self, token: bytes, now: float) -> bytes:
        """The answer to a bare token, with its size; empty if it is refused."""
        try:
            answer, _ = self._session.authenticate(token, now, 0)
        except SaslAuthenticationFailedError:
            return b""
        return len(answer).to_bytes(4, "big") + answer

    def answer(self, header: RequestHeader, frame: bytes, now: float) -> bytes | None:
        """The answer to a SASL request, with its size; None for another API. Raises MalformedFrameError."""
        if header.api_key not in (ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE):
            return None
        _, body = decode_request(frame)
        try:
            self._session.admit(header.api_key, now)
            fields = self._respond(header, body, now)
        except KafkaError as error:
            fields = {"error_code": error.code}
            if header.api_key == ApiKey.SASL_HANDSHAKE:
                fields["mechanisms"] = self._session.mechanism_names
            else:
                fields["error_message"] = str(error)
        return encode_response(build_response(header.api_key, header.api_version, **fields), header.correlation_id)

    # internals

    def _respond(self, header: RequestHeader, body: Struct, now: float) -> dict[str, object]:
        session = self._session
        if header.api_key == ApiKey.SASL_HANDSHAKE:
            session.handshake(body.mechanism, has_frames=header.api_version >= 1)
            return {"error_code": 0, "mechanisms": session.mechanism_names}
        answer, lifetime_ms = session.authenticate(bytes(body.auth_bytes), now, 0)
        return {"error_code": 0, "auth_bytes": answer, "session_lifetime": lifetime_ms}
