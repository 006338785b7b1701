"""One connection's authentication by SASL on the broker's side: the requests that may come next, and the session's end.

Owns the state of one connection and its re-authentications. Pure: bytes and times are passed in. It must not know
sockets, nor any mechanism's bytes, which ``aiokafkapy.security.sasl`` does. Kafka's counterparts are
``SaslServerAuthenticator`` and its ``ReauthInfo``.

Rules, as there:
- ApiVersions may come once before the handshake, anything else than the next step ends the connection;
- after a handshake of version 0 the client's frames are bare tokens, from 1 on SaslAuthenticate requests;
- a failure is final: its answer is held back for ``connection.failed.authentication.delay.ms``, then the connection
  ends;
- a live session authenticates again by another handshake, at most once a second, with the same mechanism and principal
  (KIP-368); a request of a session that is over ends the connection.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, Protocol

from ...errors import IllegalSaslStateError, SaslAuthenticationFailedError, UnsupportedSaslMechanismError
from ...protocol.api import ApiKey
from ...states import StateTable

if TYPE_CHECKING:
    from ...security.sasl.mechanism import SaslServerExchange

__all__ = ["SASL_STATES", "SaslSession", "SaslState", "SessionSettings"]

MIN_REAUTHENTICATION_INTERVAL: Final = 1.0
"""Seconds between two handshakes of one session (Kafka's)."""


class SaslState(Enum):
    """The requests that may come next."""

    HANDSHAKE_OR_VERSIONS = "nothing came yet"
    HANDSHAKE = "ApiVersions came"
    AUTHENTICATE = "the mechanism is agreed, its exchange goes on"
    COMPLETE = "authenticated: any request may come"
    REAUTHENTICATE = "a live session's handshake came"
    BAD_MECHANISM = "a live session's handshake asked for another mechanism"
    FAILED = "the connection is about to be closed"


_S = SaslState
SASL_STATES = StateTable(
    "SASL session",
    _S.HANDSHAKE_OR_VERSIONS,
    {
        _S.HANDSHAKE_OR_VERSIONS: {_S.HANDSHAKE, _S.AUTHENTICATE, _S.FAILED},
        _S.HANDSHAKE: {_S.AUTHENTICATE, _S.FAILED},
        _S.AUTHENTICATE: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: {_S.REAUTHENTICATE, _S.FAILED},
        _S.REAUTHENTICATE: {_S.AUTHENTICATE, _S.BAD_MECHANISM, _S.FAILED},
        _S.BAD_MECHANISM: {_S.FAILED},
        _S.FAILED: set(),
    },
)

_ADMITTED: Final[Mapping[SaslState, tuple[int, ...]]] = {
    _S.HANDSHAKE_OR_VERSIONS: (ApiKey.API_VERSIONS, ApiKey.SASL_HANDSHAKE),
    _S.HANDSHAKE: (ApiKey.SASL_HANDSHAKE,),
    _S.REAUTHENTICATE: (ApiKey.SASL_HANDSHAKE,),
    _S.AUTHENTICATE: (ApiKey.SASL_AUTHENTICATE,),
    _S.BAD_MECHANISM: (ApiKey.SASL_AUTHENTICATE,),
}


class SessionSettings(Protocol):
    """A session's view of its listener and of the users."""

    @property
    def mechanisms(self) -> Mapping[str, Callable[[], SaslServerExchange]]:
        """Factories of the broker's half, by the names of the mechanisms that are enabled."""

    @property
    def max_reauth_ms(self) -> int:
        """The longest that a session lives; 0 for no limit."""

    @property
    def failure_delay(self) -> float:
        """Seconds for which a refusal is held back."""

    @property
    def max_receive_size(self) -> int:
        """The largest frame before the client is authenticated."""

    @property
    def is_refusing(self) -> bool:
        """Whether everybody is refused (a fault)."""


class SaslSession:
    """The state of one connection. ``principal`` is that of its last authentication, None before."""

    __slots__ = (
        "_exchange",
        "_expires_at",
        "_has_frames",
        "_mechanism",
        "_reauthenticated_at",
        "_settings",
        "principal",
        "state",
    )

    def __init__(self, settings: SessionSettings) -> None:
        self.state = SASL_STATES.initial
        self.principal: str | None = None
        self._settings = settings
        self._exchange: SaslServerExchange | None = None
        self._mechanism = ""
        self._has_frames = False
        self._expires_at = math.inf
        self._reauthenticated_at = -math.inf

    @property
    def is_failed(self) -> bool:
        """Whether the connection is to be closed when its answer, if any, is out."""
        return self.state is SaslState.FAILED

    @property
    def takes_tokens(self) -> bool:
        """Whether the next frame is a bare token."""
        return self.state is SaslState.AUTHENTICATE and not self._has_frames

    @property
    def failure_delay(self) -> float:
        """Seconds for which a refusal is held back."""
        return self._settings.failure_delay

    @property
    def max_receive_size(self) -> int | None:
        """The largest frame that may come now; None for the broker's own limit."""
        return self._settings.max_receive_size if self.principal is None else None

    @property
    def mechanism_names(self) -> Sequence[str]:
        """The mechanisms that are enabled."""
        return list(self._settings.mechanisms)

    def admit(self, api_key: int, now: float) -> None:
        """Let a request pass, which may begin a re-authentication.

        Raises IllegalSaslStateError for a request that may not come now; then the session has failed.
        """
        if self.state is SaslState.COMPLETE:
            is_due = now - self._reauthenticated_at >= MIN_REAUTHENTICATION_INTERVAL
            if api_key == ApiKey.SASL_HANDSHAKE and is_due:
                self._reauthenticated_at = now
                self._change(SaslState.REAUTHENTICATE)
            elif now > self._expires_at:
                self._fail()
                raise IllegalSaslStateError("the session is over: it had to authenticate again before")
            return
        if api_key not in _ADMITTED.get(self.state, ()):
            self._fail()
            raise IllegalSaslStateError(f"unexpected request of API {api_key} during SASL authentication")

    def versions_told(self) -> None:
        """ApiVersions was answered."""
        if self.state is SaslState.HANDSHAKE_OR_VERSIONS:
            self._change(SaslState.HANDSHAKE)

    def handshake(self, mechanism: str, *, has_frames: bool) -> None:
        """Agree on a mechanism; ``has_frames`` says that its tokens come in requests.

        Raises IllegalSaslStateError when it is not the time, and UnsupportedSaslMechanismError, which is final.
        """
        if SaslState.AUTHENTICATE not in SASL_STATES.successors[self.state]:
            raise IllegalSaslStateError("SaslHandshake received after successful authentication")
        make = self._settings.mechanisms.get(mechanism)
        if make is None:
            self._fail()
            raise UnsupportedSaslMechanismError(
                f"{mechanism!r} is not enabled; enabled are {', '.join(self.mechanism_names)}"
            )
        if self.state is SaslState.REAUTHENTICATE and mechanism != self._mechanism:
            # Answered as agreed, and refused at the next step, where the client recognizes the error.
            self._change(SaslState.BAD_MECHANISM)
        else:
            self._exchange = make()
            self._change(SaslState.AUTHENTICATE)
            self._mechanism = mechanism
        self._has_frames = self._has_frames or has_frames

    def authenticate(self, token: bytes, now: float, now_ms: int) -> tuple[bytes, int]:
        """The answer to a token, and the milliseconds that the session lives from now (0: forever, or not yet begun).

        Raises IllegalSaslStateError when it is not the time, and SaslAuthenticationFailedError, which is final.
        """
        if self.state is SaslState.BAD_MECHANISM:
            self._fail()
            raise SaslAuthenticationFailedError(
                "SASL mechanism requested by client is not supported for re-authentication of mechanism"
                f" '{self._mechanism}'"
            )
        exchange = self._exchange
        if self.state is not SaslState.AUTHENTICATE or exchange is None:
            raise IllegalSaslStateError("SaslAuthenticate request received after successful authentication")
        try:
            if self._settings.is_refusing:
                raise SaslAuthenticationFailedError(
                    f"Authentication failed due to invalid credentials with SASL mechanism {self._mechanism}"
                )
            answer = exchange.respond(token)
            if not exchange.is_complete:
                return answer, 0
            self._check_unchanged(exchange.principal)
        except SaslAuthenticationFailedError:
            self._fail()
            raise
        return answer, self._complete(exchange, now, now_ms)

    def expire(self, now: float) -> bool:
        """End the session, so that its next request must be a handshake; False when there is none yet."""
        if self.principal is None or self.is_failed:
            return False
        self._expires_at = math.nextafter(now, -math.inf)
        self._reauthenticated_at = -math.inf
        return True

    # internals

    def _complete(self, exchange: SaslServerExchange, now: float, now_ms: int) -> int:
        self.principal = exchange.principal
        self._exchange = None
        self._change(SaslState.COMPLETE)
        limits = [self._settings.max_reauth_ms] if self._settings.max_reauth_ms > 0 else []
        if exchange.expires_at_ms is not None:
            limits.append(max(0, exchange.expires_at_ms - now_ms))
        lifetime_ms = min(limits, default=0)
        self._expires_at = now + lifetime_ms / 1000 if limits else math.inf
        return lifetime_ms

    def _check_unchanged(self, principal: str) -> None:
        if self.principal not in (None, principal):
            raise SaslAuthenticationFailedError(
                f"Cannot change principals during re-authentication from {self.principal}: {principal}"
            )

    def _fail(self) -> None:
        self._exchange = None
        if not self.is_failed:
            self._change(SaslState.FAILED)

    def _change(self, state: SaslState) -> None:
        self.state = SASL_STATES.transition(self.state, state)
