"""GSSAPI: Kerberos tickets (RFC 4752), the broker's half over the system's Kerberos library.

Owns the steps after the context is made, where the broker offers no security layer. ``kerberos_names`` maps a ticket's
name to a user. The library takes the service's keys from a keytab, which it reads again for each ticket, so that a key
may be changed while the broker runs. The client's half is ``gssapi``. Kafka's counterparts are
``SaslServerAuthenticator``, ``SaslServerCallbackHandler``, and the JDK's ``GssKrb5Server``.

Rules:

- a step takes a fraction of a millisecond and asks no KDC: it needs no thread;
- the authorization name in the client's message is ignored, as in Kafka: some clients send their broker's name there;
- a refusal has Kafka's words, and after them Kerberos's, without which a wrong keytab cannot be found.
"""

from __future__ import annotations

import importlib
import os
from enum import Enum
from typing import Any, Final

from ...errors import ConfigurationError, SaslAuthenticationFailedError
from ...states import StateTable
from .gssapi import GSSAPI, NO_SECURITY_LAYER, SecurityContext, check_kerberos
from .kerberos_names import LocalNameRules
from .wire import MAX_RECEIVE_BYTES

__all__ = [
    "GSSAPI_SERVER_STATES",
    "GssapiServerExchange",
    "GssapiServerState",
    "KerberosService",
]

_OFFER: Final = bytes((NO_SECURITY_LAYER, 0, 0, 0))
"""No layer, therefore no buffer: RFC 4752, section 3.2."""


class GssapiServerState(Enum):
    """The progress of the broker's half."""

    ESTABLISH_CONTEXT = "establish_context"
    OFFER_SECURITY_LAYER = "offer_security_layer"
    RECEIVE_CHOICE = "receive_choice"
    COMPLETE = "complete"
    FAILED = "failed"


_S = GssapiServerState

GSSAPI_SERVER_STATES: Final = StateTable(
    "GSSAPI server",
    _S.ESTABLISH_CONTEXT,
    {
        # Without mutual authentication the offer is the only answer to a ticket.
        _S.ESTABLISH_CONTEXT: {_S.OFFER_SECURITY_LAYER, _S.RECEIVE_CHOICE, _S.FAILED},
        _S.OFFER_SECURITY_LAYER: {_S.RECEIVE_CHOICE, _S.FAILED},
        _S.RECEIVE_CHOICE: {_S.COMPLETE, _S.FAILED},
        _S.COMPLETE: (),
        _S.FAILED: (),
    },
)


class KerberosService:
    """The service that clients have tickets for, such as ``kafka`` on any host, with its keys and its realm."""

    def __init__(self, service_name: str, keytab: str | None = None, rules: LocalNameRules | None = None) -> None:
        """Read the keytab; by default the one that KRB5_KTNAME names, or else the system's.

        Raises ConfigurationError when the library is missing, the keytab cannot be read or has no key of the service,
        or no configuration of Kerberos names a default realm.
        """
        check_kerberos(service_name)
        self._rules = rules or LocalNameRules()
        self._library: Any = importlib.import_module("gssapi")
        library = self._library
        try:
            self._credentials = library.Credentials(
                name=library.Name(service_name, library.NameType.hostbased_service),
                mechs=[library.MechType.kerberos],
                usage="accept",
                store=None if keytab is None else {"keytab": keytab},
            )
        except library.exceptions.GSSError as error:
            named = os.environ.get("KRB5_KTNAME")
            where = f"sasl_kerberos_keytab={keytab!r}" if keytab else f"KRB5_KTNAME={named!r}" if named else ""
            raise ConfigurationError(
                f"{where or 'the system keytab'} gives no key of the service {service_name!r}: {error.gen_message()};"
                f" write as sasl_kerberos_keytab a file with the key of {service_name}/host@REALM, as kadmin's ktadd"
                " makes it"
            ) from error
        try:
            name = library.Name("x", library.NameType.user).canonicalize(library.MechType.kerberos)
        except library.exceptions.GSSError as error:
            raise ConfigurationError(
                f"GSSAPI needs a realm: {error.gen_message()}; write default_realm in krb5.conf, which may be anywhere"
                " when the variable KRB5_CONFIG names it"
            ) from error
        self._realm = str(name).rpartition("@")[2]

    def exchange(self) -> GssapiServerExchange:
        """The broker's half of one authentication."""
        context = self._library.SecurityContext(creds=self._credentials, usage="accept")
        return GssapiServerExchange(context, self._realm, self._rules, self._library.exceptions.GSSError)


class GssapiServerExchange:
    """The broker's half of one authentication, over a context that accepts; ``error`` is the library's exception."""

    expires_at_ms: int | None = None

    def __init__(self, context: SecurityContext, realm: str, rules: LocalNameRules, error: type[Exception]) -> None:
        self.principal = ""
        self._context = context
        self._realm = realm
        self._rules = rules
        self._error = error
        self._state = GSSAPI_SERVER_STATES.initial

    @property
    def is_complete(self) -> bool:
        """True when the client's ticket and its choice of a layer were good."""
        return self._state is _S.COMPLETE

    def respond(self, response: bytes) -> bytes:
        """The next token; raises SaslAuthenticationFailedError, with words for the client."""
        try:
            if len(response) > MAX_RECEIVE_BYTES:
                raise _refused(f"the token has {len(response):,} bytes, at most {MAX_RECEIVE_BYTES:,} are taken")
            return self._step(response)
        except self._error as error:
            cause: Any = error
            failure = _refused(cause.gen_message())
        except SaslAuthenticationFailedError as error:
            failure = error
        if not GSSAPI_SERVER_STATES.is_final(self._state):
            self._change(_S.FAILED)
        raise failure

    # internals

    def _change(self, new: GssapiServerState) -> None:
        self._state = GSSAPI_SERVER_STATES.transition(self._state, new)

    def _step(self, response: bytes) -> bytes:
        if self._state is _S.ESTABLISH_CONTEXT:
            return self._establish(response)
        if self._state is _S.OFFER_SECURITY_LAYER and not response:
            return self._offer()
        if self._state is _S.RECEIVE_CHOICE:
            return self._receive_choice(response)
        raise _refused(f"{len(response)} bytes came where GSSAPI expects none")

    def _establish(self, response: bytes) -> bytes:
        if not response:
            raise _refused("no bytes came where GSSAPI expects a ticket")
        token = self._context.step(response)
        # A refused client gets a token for it, too; the library raises the refusal when it is asked for more.
        if not self._context.complete:
            return token or b""
        if not token:
            return self._offer()
        self._change(_S.OFFER_SECURITY_LAYER)
        return token

    def _offer(self) -> bytes:
        offer = self._context.wrap(_OFFER, False).message
        self._change(_S.RECEIVE_CHOICE)
        return offer

    def _receive_choice(self, response: bytes) -> bytes:
        chosen = self._context.unwrap(response).message
        if len(chosen) < 4:
            raise _refused(f"the choice of a security layer has {len(chosen)} bytes, at least 4 are right")
        if not chosen[0] & NO_SECURITY_LAYER:
            raise _refused("a security layer of GSSAPI's own was chosen, which was not offered: use TLS")
        name = str(self._context.initiator_name)
        user = self._rules.local_name(name, self._realm)
        if user is None:
            raise _refused(
                f"{name!r} gives no user by sasl.kerberos.principal.to.local.rules; the broker's realm is {self._realm}"
            )
        self.principal = f"User:{user}"
        self._change(_S.COMPLETE)
        return b""


def _refused(reason: str) -> SaslAuthenticationFailedError:
    return SaslAuthenticationFailedError(
        f"Authentication failed during authentication due to invalid credentials with SASL mechanism {GSSAPI}: {reason}"
    )
