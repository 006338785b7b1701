"""GSSAPI: Kerberos tickets (RFC 4752), the client's half over the system's Kerberos library.

Owns the steps after the context is made, where both sides agree on no security layer, as Kafka's own clients do.
The library finds the tickets: in the cache of ``kinit`` or by the keytab that KRB5_CLIENT_KTNAME names. The extra is
``kerberos``. Kafka's counterparts are ``KerberosLogin`` and the JDK's ``GssKrb5Client``.

Rules: every step may ask the KDC over the network, so the driver runs it in a thread. No authorization id is sent: the
broker takes the principal of the ticket. A KDC that cannot be reached may be reached later, and is retriable.
"""

from __future__ import annotations

import importlib
import importlib.util
from enum import Enum
from typing import Any, Final, Protocol

from ...errors import ConfigurationError, KafkaConnectionError, SaslAuthenticationFailedError
from ...states import StateTable
from .defaults import KERBEROS_SERVICE_NAME
from .wire import MAX_RECEIVE_BYTES, failed

__all__ = [
    "GSSAPI",
    "GSSAPI_CLIENT_STATES",
    "NO_SECURITY_LAYER",
    "GssapiClientExchange",
    "GssapiClientState",
    "GssapiMechanism",
    "SecurityContext",
    "check_kerberos",
]

GSSAPI: Final = "GSSAPI"
NO_SECURITY_LAYER: Final = 1
_KDC_UNREACHABLE: Final = -1765328228 & 0xFFFFFFFF
"""KRB5_KDC_UNREACH, as the minor status, which is unsigned."""


class GssapiClientState(Enum):
    """The progress of the client's half."""

    ESTABLISH_CONTEXT = "establish_context"
    CHOOSE_SECURITY_LAYER = "choose_security_layer"
    RECEIVE_ANSWER = "receive_answer"
    COMPLETE = "complete"
    FAILED = "failed"


_S = GssapiClientState

GSSAPI_CLIENT_STATES: Final = StateTable(
    "GSSAPI client",
    _S.ESTABLISH_CONTEXT,
    {
        _S.ESTABLISH_CONTEXT: {_S.CHOOSE_SECURITY_LAYER, _S.FAILED},
        _S.CHOOSE_SECURITY_LAYER: {_S.RECEIVE_ANSWER, _S.FAILED},
        _S.RECEIVE_ANSWER: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


class GssapiMechanism:
    """GSSAPI with the tickets of this process; raises ConfigurationError when the library is not installed."""

    name = GSSAPI
    blocks = True

    def __init__(self, service_name: str = KERBEROS_SERVICE_NAME) -> None:
        check_kerberos(service_name)
        self._service_name = service_name

    async def prepare(self) -> None:
        """The library finds tickets when it needs them."""

    def exchange(self, host: str) -> GssapiClientExchange:
        """The client's half of one authentication with the service on this host."""
        return GssapiClientExchange(self._service_name, host)

    def close(self) -> None:
        """Nothing is held."""


class GssError(Protocol):
    """The part of the library's ``GSSError`` that is used here."""

    def gen_message(self) -> str:
        """The library's words, and those of the mechanism."""


class Sealed(Protocol):
    """The result of ``wrap`` and ``unwrap``."""

    @property
    def message(self) -> bytes:
        """The bytes."""


class SecurityContext(Protocol):
    """The part of the library's ``SecurityContext`` that both halves use. Each may raise its GSSError."""

    @property
    def complete(self) -> bool:
        """True when both sides have proved their identity."""

    @property
    def initiator_name(self) -> object:
        """The client's principal, by ``str``."""

    def step(self, token: bytes | None, /) -> bytes | None:
        """The next token for the other side, if any."""

    def wrap(self, message: bytes, encrypt: bool, /) -> Sealed:
        """Sign, or encrypt."""

    def unwrap(self, message: bytes, /) -> Sealed:
        """Check, and decrypt."""


class GssapiClientExchange:
    """The client's half of one authentication."""

    def __init__(self, service_name: str, host: str) -> None:
        self._target = f"{service_name}@{host}"
        self._state = GSSAPI_CLIENT_STATES.initial
        self._context: SecurityContext | None = None

    @property
    def is_complete(self) -> bool:
        """True when the broker has taken the ticket."""
        return self._state is _S.COMPLETE

    def respond(self, challenge: bytes) -> bytes | None:
        """The next token; raises SaslAuthenticationFailedError, or KafkaConnectionError when no KDC answers."""
        library: Any = importlib.import_module("gssapi")
        try:
            if len(challenge) > MAX_RECEIVE_BYTES:
                raise failed(f"sent {len(challenge):,} bytes, at most {MAX_RECEIVE_BYTES:,} are taken")
            return self._step(challenge, library)
        except library.exceptions.GSSError as error:
            failure = _explained(error, self._target)
        except SaslAuthenticationFailedError as error:
            failure = error
        if not GSSAPI_CLIENT_STATES.is_final(self._state):
            self._change(_S.FAILED)
        raise failure

    # internals

    def _change(self, new: GssapiClientState) -> None:
        self._state = GSSAPI_CLIENT_STATES.transition(self._state, new)

    def _step(self, challenge: bytes, library: object) -> bytes | None:
        if self._state is _S.ESTABLISH_CONTEXT:
            return self._establish(challenge, library)
        if self._state is _S.CHOOSE_SECURITY_LAYER and self._context is not None:
            return self._choose(self._context, challenge)
        if self._state is _S.RECEIVE_ANSWER and not challenge:
            self._change(_S.COMPLETE)
            return None
        raise failed(f"sent {len(challenge)} bytes where GSSAPI has nothing to answer")

    def _establish(self, challenge: bytes, library: object) -> bytes:
        context = self._context
        if context is None:
            if challenge:
                raise failed(f"sent {len(challenge)} bytes before the first of GSSAPI")
            context = self._context = _new_context(library, self._target)
        elif not challenge:
            raise failed("ended GSSAPI before it proved its identity")
        token = context.step(challenge or None)
        if context.complete:
            self._change(_S.CHOOSE_SECURITY_LAYER)
        return token or b""

    def _choose(self, context: SecurityContext, challenge: bytes) -> bytes:
        offered = context.unwrap(challenge).message
        if len(offered) != 4:
            raise failed(f"offers security layers in {len(offered)} bytes, 4 are right")
        if not offered[0] & NO_SECURITY_LAYER:
            raise failed("requires a GSSAPI security layer, which Kafka does not support: use TLS")
        # No layer, therefore no buffer: RFC 4752, section 3.1.
        answer = context.wrap(bytes((NO_SECURITY_LAYER, 0, 0, 0)), False).message
        self._change(_S.RECEIVE_ANSWER)
        return answer


def _new_context(library: Any, target: str) -> SecurityContext:
    """The client's context for a service."""
    flags = library.RequirementFlag
    context: SecurityContext = library.SecurityContext(
        name=library.Name(target, library.NameType.hostbased_service),
        mech=library.MechType.kerberos,
        flags=[flags.mutual_authentication, flags.integrity, flags.out_of_sequence_detection],
        usage="initiate",
    )
    return context


def check_kerberos(service_name: str) -> None:
    """Raise ConfigurationError for a text that is not the name of a service, and when the library is not installed."""
    if not service_name or "@" in service_name or "/" in service_name:
        raise ConfigurationError(
            f"sasl_kerberos_service_name={service_name!r} is not the name of a service: write the part before the "
            "host of the broker's principal, 'kafka' for kafka/broker.example.com@EXAMPLE.COM"
        )
    if importlib.util.find_spec("gssapi") is None:
        raise ConfigurationError(
            "SASL's mechanism GSSAPI needs the library gssapi: pip install 'aiokafkapy[kerberos]', for which "
            "the system's Kerberos library must be there (Debian: libkrb5-dev and a C compiler)"
        )


def _explained(error: GssError, target: str) -> SaslAuthenticationFailedError | KafkaConnectionError:
    words = f"Kerberos for {target}: {error.gen_message()}"
    if getattr(error, "min_code", 0) & 0xFFFFFFFF == _KDC_UNREACHABLE:
        return KafkaConnectionError(words)
    return SaslAuthenticationFailedError(words + " (kinit makes tickets, and klist shows them)")
