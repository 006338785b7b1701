"""SASL's halves, whose peer may be anybody: an input has the peer's words, message by message.

Each message has its length before it, in two bytes. A half ends complete, or fails with the one error that says so;
once it has failed it stays so, after any message; and a client without proof never becomes a principal. GSSAPI's are
around a context that is ours: tokens themselves are read by the system's library.

Rule: the keys of a password are not computed anew for each input: a million iterations are no finding.
"""

from __future__ import annotations

import base64
import hmac
import json
import random
import re
import sys
from contextlib import AbstractContextManager
from types import SimpleNamespace
from typing import ClassVar, Final
from unittest.mock import patch

from aiokafkapy.errors import ConfigurationError, SaslAuthenticationFailedError
from aiokafkapy.security.sasl.aws_msk_iam import AwsCredentials, AwsMskIamClientExchange
from aiokafkapy.security.sasl.gssapi import GssapiClientExchange
from aiokafkapy.security.sasl.gssapi_server import GssapiServerExchange
from aiokafkapy.security.sasl.jaas import parse_jaas_config
from aiokafkapy.security.sasl.json_web_tokens import TokenValidator, unsecured_token
from aiokafkapy.security.sasl.kerberos_names import LocalNameRules
from aiokafkapy.security.sasl.mechanism import SaslClientExchange, SaslServerExchange
from aiokafkapy.security.sasl.oauthbearer import (
    OAuthBearerClientExchange,
    OAuthBearerServerExchange,
    OAuthBearerToken,
)
from aiokafkapy.security.sasl.plain import PlainCredentialStore, PlainMechanism, PlainServerExchange
from aiokafkapy.security.sasl.scram import ScramClientExchange, ScramServerExchange
from aiokafkapy.security.sasl.scram_credential import SCRAM_SHA_256, SCRAM_SHA_512, ScramCredential, scram_hash
from aiokafkapy.security.sasl.secret import Secret

from .target import Target

__all__ = ["SASL_TARGETS", "KerberosContext"]

NOW_MS: Final = 1_300_819_000_000
USER: Final = "alice"
PASSWORD: Final = "secret"
SALT: Final = bytes(16)
_SALTED: Final = {
    name: scram_hash(name).salted_password(Secret(PASSWORD.encode()), SALT, 4_096)
    for name in (SCRAM_SHA_256, SCRAM_SHA_512)
}
_CREDENTIALS: Final = {
    name: ScramCredential.from_salted_password(name, salted, iterations=4_096, salt=SALT)
    for name, salted in _SALTED.items()
}
# RFC 7515, appendix A.3: a key, and a token that is signed with it.
_JWKS: Final = {
    "keys": [
        {
            "kty": "EC",
            "crv": "P-256",
            "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
            "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
        }
    ]
}
_SIGNED_TOKEN: Final = (
    "eyJhbGciOiJFUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)


def _framed(*messages: bytes) -> bytes:
    return b"".join(len(message).to_bytes(2, "big") + message for message in messages)


def _messages(data: bytes) -> list[bytes]:
    found, place = [], 0
    while place + 2 <= len(data):
        size = int.from_bytes(data[place : place + 2], "big")
        found.append(data[place + 2 : place + 2 + size])
        place += 2 + size
    return found


class _Half(Target):
    """The rules for both kinds of halves."""

    def _said(self, half: SaslClientExchange | SaslServerExchange, message: bytes) -> bool:
        """True if the half goes on."""
        try:
            half.respond(message)
        except SaslAuthenticationFailedError:
            pass
        else:
            return True
        before = half.is_complete
        for more in (b"", message, b"\1"):
            try:
                half.respond(more)
            except SaslAuthenticationFailedError:
                continue
            raise AssertionError("it has failed, and goes on")
        assert half.is_complete == before
        return False


class _Client(_Half):
    """The input is a broker."""

    def _exchange(self) -> SaslClientExchange:
        raise NotImplementedError

    _PROOF: ClassVar[bytes] = b""
    """The bytes that only a broker with the secret can send; empty where this is not judged."""

    def run(self, data: bytes) -> None:
        half = self._exchange()
        half.respond(b"")
        for message in _messages(data):
            if not self._said(half, message):
                return
        assert not half.is_complete or self._PROOF in data


class _Server(_Half):
    """The input is a client."""

    def _exchange(self) -> SaslServerExchange:
        raise NotImplementedError

    _principal: ClassVar[str] = f"User:{USER}"

    def _proof(self) -> bytes:
        """The bytes that nobody can make without the secret: a complete exchange has sent them."""
        raise NotImplementedError

    def run(self, data: bytes) -> None:
        half = self._exchange()
        for message in _messages(data):
            goes_on = self._said(half, message)
            assert half.principal == (self._principal if half.is_complete else "")
            assert not half.is_complete or self._proof() in data
            if not goes_on:
                return


class PlainClient(_Client):
    """A client whose message the broker answers with nothing."""

    name = "sasl_plain_client"

    def valid(self, chance: random.Random) -> bytes:
        return _framed(b"")

    def _exchange(self) -> SaslClientExchange:
        return PlainMechanism(USER, Secret(PASSWORD)).exchange("host")


class PlainServer(_Server):
    """Reads a name and a password."""

    name = "sasl_plain_server"

    def valid(self, chance: random.Random) -> bytes:
        names = (chance.choice(("", USER)), chance.choice((USER, "bob")), chance.choice((PASSWORD, "x")))
        return _framed("\0".join(names).encode())

    def _proof(self) -> bytes:
        return f"\0{USER}\0{PASSWORD}".encode()

    def _exchange(self) -> SaslServerExchange:
        return PlainServerExchange(PlainCredentialStore({USER: PASSWORD}))


def _scram_exchange(name: str) -> tuple[ScramClientExchange, ScramServerExchange]:
    client = ScramClientExchange(scram_hash(name), b"n=alice,r=client", lambda salt, iterations: _SALTED[name])
    return client, ScramServerExchange(name, {USER: _CREDENTIALS[name]}, nonce=lambda: "server")


class ScramClient(_Client):
    """Reads a nonce, a salt, a count and a signature."""

    name = "sasl_scram_client"

    def valid(self, chance: random.Random) -> bytes:
        client, server = _scram_exchange(SCRAM_SHA_256)
        first = server.respond(client.respond(b"") or b"")
        last = server.respond(client.respond(first) or b"")
        return _framed(first, chance.choice((last, last, b"e=other-error")))

    def _exchange(self) -> SaslClientExchange:
        return _scram_exchange(SCRAM_SHA_256)[0]


class ScramServer(_Server):
    """Reads a name, a nonce and a proof."""

    name = "sasl_scram_server"

    def valid(self, chance: random.Random) -> bytes:
        client, server = _scram_exchange(SCRAM_SHA_512)
        first = client.respond(b"") or b""
        last = client.respond(server.respond(first)) or b""
        return _framed(chance.choice((first, first, first + b",tokenauth=true")), last)

    def _proof(self) -> bytes:
        client, server = _scram_exchange(SCRAM_SHA_512)
        last = client.respond(server.respond(client.respond(b"") or b"")) or b""
        return last.partition(b",p=")[2][:80]  # the last digits of base64 have bits that mean nothing

    def _exchange(self) -> SaslServerExchange:
        return _scram_exchange(SCRAM_SHA_512)[1]


class OAuthBearerClient(_Client):
    """Reads a refusal."""

    name = "sasl_oauthbearer_client"

    def valid(self, chance: random.Random) -> bytes:
        refusal = json.dumps({"status": "invalid_token", "scope": "a" * chance.randrange(20)}).encode()
        return _framed(*chance.choice(((b"",), (refusal, b""))))

    def _exchange(self) -> SaslClientExchange:
        return OAuthBearerClientExchange(OAuthBearerToken("abc"))


class OAuthBearerServer(_Server):
    """Reads an unsecured token, and extensions."""

    name = "sasl_oauthbearer_server"
    _VALIDATOR: ClassVar[TokenValidator] = TokenValidator(unsecured=True, audience="kafka")

    def valid(self, chance: random.Random) -> bytes:
        claims = {"sub": USER, "exp": NOW_MS // 1_000 + chance.randrange(-60, 60), "aud": ["kafka"], "scope": "a b"}
        extensions = b"".join(b"x%b=%d\1" % (b"x" * number, number) for number in range(chance.randrange(3)))
        first = b"n,,\1auth=Bearer " + unsecured_token(claims).encode() + b"\1" + extensions + b"\1"
        return _framed(first, *chance.choice(((), (b"\1",))))

    def run(self, data: bytes) -> None:
        half = self._exchange()
        for message in _messages(data):
            goes_on = self._said(half, message)
            # A client with an unsecured token may say any name, but must say one.
            assert bool(half.principal.removeprefix("User:").strip()) == half.is_complete
            assert (half.expires_at_ms is None) != half.is_complete
            if not goes_on:
                return

    def _exchange(self) -> SaslServerExchange:
        return OAuthBearerServerExchange(self._VALIDATOR, NOW_MS)


class SignedTokenServer(_Server):
    """Reads a signed token: only its issuer can change a meaningful byte of it."""

    name = "sasl_signed_token_server"
    _VALIDATOR: ClassVar[TokenValidator] = TokenValidator(jwks=_JWKS, sub_claim_name="iss")
    _principal = "User:joe"

    def valid(self, chance: random.Random) -> bytes:
        return _framed(b"n,,\1auth=Bearer " + _SIGNED_TOKEN.encode() + b"\1\1")

    def _proof(self) -> bytes:
        return _SIGNED_TOKEN[:-2].encode()  # as above

    def _exchange(self) -> SaslServerExchange:
        return OAuthBearerServerExchange(self._VALIDATOR, NOW_MS)


class _KerberosError(Exception):
    def gen_message(self) -> str:
        return "invalid token"


class KerberosContext:
    """Stands in for GSSAPI's library, with a MAC for a ticket, and for an envelope."""

    complete = False
    initiator_name = ""

    def step(self, ticket: bytes | None) -> bytes:
        assert ticket is not None
        self.initiator_name = self.unwrap(ticket).message.decode(errors="replace")
        self.complete = True
        return b"answer"

    def wrap(self, message: bytes, _: bool) -> SimpleNamespace:
        return SimpleNamespace(message=message + hmac.digest(PASSWORD.encode(), message, "sha256"))

    def unwrap(self, wrapped: bytes) -> SimpleNamespace:
        message = wrapped[:-32]
        if self.wrap(message, False).message != wrapped:
            raise _KerberosError
        return SimpleNamespace(message=message)


class _KerberosClientContext(KerberosContext):
    def step(self, token: bytes | None) -> bytes:
        if token is not None:
            self.unwrap(token)
            self.complete = True
        return b"ticket"


_KERBEROS: Final = SimpleNamespace(
    MechType=SimpleNamespace(kerberos=0),
    Name=lambda name, _: name,
    NameType=SimpleNamespace(hostbased_service=0),
    RequirementFlag=SimpleNamespace(mutual_authentication=0, integrity=0, out_of_sequence_detection=0),
    SecurityContext=lambda **_: _KerberosClientContext(),
    exceptions=SimpleNamespace(GSSError=_KerberosError),
)


class GssapiClient(_Client):
    """Reads a broker's answer to a ticket, and its offer of security layers."""

    name = "sasl_gssapi_client"
    _PROOF = bytes(KerberosContext().wrap(b"kafka", False).message)

    def session(self) -> AbstractContextManager[object]:
        return patch.dict(sys.modules, {"gssapi": _KERBEROS})

    def valid(self, chance: random.Random) -> bytes:
        offer = chance.choice((b"\1\0\0\0", b"\1\0\0\0", b"\7\0\1\0", b"\4\0\0\0", b"\1", b""))
        return _framed(self._PROOF, KerberosContext().wrap(offer, False).message, b"")

    def _exchange(self) -> SaslClientExchange:
        return GssapiClientExchange("kafka", "host")


class GssapiServer(_Server):
    """Reads the messages after a ticket was taken: nothing, and the choice of a security layer."""

    name = "sasl_gssapi_server"

    def valid(self, chance: random.Random) -> bytes:
        context = KerberosContext()
        ticket = chance.choice((b"alice@HERE", b"alice@HERE", b"bob@THERE", b"\xff"))
        choice = chance.choice((b"\1\0\0\0", b"\1\0\0\0bob", b"\4\0\0\0", b"\1", b""))
        return _framed(context.wrap(ticket, False).message, b"", context.wrap(choice, False).message)

    def _proof(self) -> bytes:
        return bytes(KerberosContext().wrap(b"alice@HERE", False).message)

    def _exchange(self) -> SaslServerExchange:
        return GssapiServerExchange(KerberosContext(), "HERE", LocalNameRules(), _KerberosError)


class AwsMskIamClient(_Client):
    """Reads an answer in JSON."""

    name = "sasl_aws_msk_iam_client"

    def valid(self, chance: random.Random) -> bytes:
        return _framed(json.dumps({"version": "2020_10_22", "request-id": base64.b64encode(SALT).decode()}).encode())

    def _exchange(self) -> SaslClientExchange:
        return AwsMskIamClientExchange("host", "us-east-1", AwsCredentials("AKIA", Secret(PASSWORD)), 1.3e9)


class Jaas(Target):
    """Java's strings, which come from a user's own files and are never quoted quite right."""

    name = "sasl_jaas"

    def valid(self, chance: random.Random) -> bytes:
        options = [f'{name}="{chance.choice((PASSWORD, "", "a b", "ü"))}"' for name in ("username", "password", "x")]
        return f"a.PlainLoginModule required {' '.join(options[: chance.randrange(4)])};".encode()

    def run(self, data: bytes) -> None:
        try:
            config = parse_jaas_config(Secret(data.decode(errors="replace")))
        except ConfigurationError as error:
            words = str(error)
        else:
            assert all(type(value) is Secret for value in config.options.values())
            return
        # Only the class is named, in quotes or after this word.
        assert PASSWORD not in re.sub(r"'[^']*'|after [^:]*:", "", words)


SASL_TARGETS: Final[tuple[type[Target], ...]] = (
    PlainClient,
    PlainServer,
    ScramClient,
    ScramServer,
    OAuthBearerClient,
    OAuthBearerServer,
    SignedTokenServer,
    GssapiClient,
    GssapiServer,
    AwsMskIamClient,
    Jaas,
)
"""All targets of this module, in its order."""
