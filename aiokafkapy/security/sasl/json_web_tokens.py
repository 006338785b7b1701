"""The claims of a JSON Web Token that a broker believes (RFC 7519): its holder, its end, and its signature.

Owns reading, the signature's check and the claims' check. Knows no SASL, no clock and no network: the keys (a JWKS,
RFC 7517) are given. Kafka's counterparts are ``OAuthBearerUnsecuredJws``, ``OAuthBearerValidationUtils`` and
``BrokerJwtValidator``.

Rules:

- A token without a signature is accepted only by a validator configured so, for tests.
- With keys, the algorithm must be one of the key's own kind: a public key is not a
  password, and "none" is not an algorithm.
- A refusal says why in the broker's log, and to the client only as much as RFC 7628 lets it know.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from ...common import JsonObject
from ...errors import ConfigurationError, KafkaError
from .defaults import CLOCK_SKEW_SECONDS, SCOPE_CLAIM_NAME, SUB_CLAIM_NAME
from .secret import Secret

__all__ = ["InvalidTokenError", "TokenValidator", "ValidToken", "claims_of", "end_of", "unsecured_token"]

_ALGORITHMS: Final[Mapping[str, frozenset[str]]] = {
    "RSA": frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"}),
    "EC": frozenset({"ES256", "ES384", "ES512", "ES256K"}),
    "OKP": frozenset({"EdDSA"}),
}
"""Algorithms by the kind of key. Symmetric keys are left out: a key that checks a token could also sign one."""

_MAX_TIME: Final = 1e14
"""Seconds since the epoch, three million years from now."""


class InvalidTokenError(KafkaError):
    """The token is not believed; ``status`` and ``scope`` are RFC 7628's words for the client."""

    def __init__(
        self, reason: str, status: Literal["invalid_token", "insufficient_scope"] = "invalid_token", scope: str = ""
    ) -> None:
        super().__init__(reason)
        self.status = status
        self.scope = scope

    def as_json(self) -> str:
        """The server's answer."""
        return json.dumps({"status": self.status} | ({"scope": self.scope} if self.scope else {}))


@dataclass(frozen=True, slots=True)
class ValidToken:
    """The checked contents of a token."""

    principal: str
    expires_at_ms: int
    scope: frozenset[str] = frozenset()


class TokenValidator:
    """Decides about tokens: signed ones by the keys of a ``jwks``, or unsecured ones (``unsecured=True``), never both.

    ``issuer``, ``audience`` and ``scope`` are checked when given. Keys may be replaced: ``use_keys``. Raises
    ConfigurationError for neither or both, and for keys that cannot be used.
    """

    def __init__(
        self,
        *,
        jwks: object = None,
        unsecured: bool = False,
        issuer: str | None = None,
        audience: str | None = None,
        scope: Iterable[str] = (),
        clock_skew_seconds: int = CLOCK_SKEW_SECONDS,
        sub_claim_name: str = SUB_CLAIM_NAME,
        scope_claim_name: str = SCOPE_CLAIM_NAME,
    ) -> None:
        if (jwks is None) != unsecured:
            raise ConfigurationError(
                "a broker believes signed tokens or unsecured ones: write jwks={…} or unsecured=True"
            )
        self._issuer = issuer
        self._audience = audience
        self._required_scope = frozenset(scope)
        self._skew_ms = clock_skew_seconds * 1_000
        self._sub_claim_name = sub_claim_name
        self._scope_claim_name = scope_claim_name
        self._keys: Mapping[str | None, _Key] | None = None
        self.on_unknown_key: Callable[[], object] | None = None
        """Called when a token is signed with an unknown key."""
        if jwks is not None:
            self.use_keys(jwks)

    def use_keys(self, jwks: object) -> None:
        """Believe these keys from now on, and no others. Raises ConfigurationError for any but a JWKS."""
        self._keys = _keys_of(jwks)

    def validate(self, token: Secret[str], now_ms: int) -> ValidToken:
        """The token's claims, at a time in milliseconds since the epoch; raises InvalidTokenError."""
        header, claims = _parsed(token)
        if self._keys is None:
            if header.get("alg") != "none" or not token.reveal().endswith("."):
                raise InvalidTokenError("the token is signed, and only unsecured ones are believed here")
        else:
            key = _key_for(header, self._keys)
            if key is None:
                if self.on_unknown_key is not None:
                    self.on_unknown_key()
                raise InvalidTokenError("the token is signed with a key that is not in the JWKS")
            _check_signature(token, header, key)
        return self._check_claims(claims, now_ms)

    # internals

    def _check_claims(self, claims: Mapping[str, object], now_ms: int) -> ValidToken:
        expires_at_ms = _milliseconds(claims, "exp")
        if expires_at_ms is None:
            raise InvalidTokenError("the token has no exp")
        if now_ms >= expires_at_ms + self._skew_ms:
            raise InvalidTokenError(f"the token ended {(now_ms - expires_at_ms) // 1_000} s ago")
        for name in ("nbf", "iat"):
            since_ms = _milliseconds(claims, name)
            if since_ms is not None and now_ms < since_ms - self._skew_ms:
                raise InvalidTokenError(f"the token's {name} is {(since_ms - now_ms) // 1_000} s ahead")
        if self._issuer is not None and claims.get("iss") != self._issuer:
            raise InvalidTokenError("the token is from another issuer")
        if self._audience is not None and self._audience not in _texts(claims.get("aud")):
            raise InvalidTokenError("the token is for another audience")
        scope = frozenset(_words(claims.get(self._scope_claim_name)))
        if not self._required_scope <= scope:
            missing = " ".join(sorted(self._required_scope - scope))
            raise InvalidTokenError(f"the token's scope lacks {missing}", "insufficient_scope", missing)
        principal = claims.get(self._sub_claim_name)
        if not isinstance(principal, str) or not principal.strip():
            raise InvalidTokenError(f"the token has no {self._sub_claim_name}")
        return ValidToken(principal, expires_at_ms, scope)


def claims_of(token: Secret[str]) -> Mapping[str, Any] | None:
    """The unchecked claims of a JWT; None for a token that is not a JWT."""
    try:
        return _parsed(token)[1]
    except InvalidTokenError:
        return None


def end_of(token: Secret[str]) -> int | None:
    """The end that a JWT itself gives, in milliseconds since the epoch; None without one, or if it is not a JWT."""
    try:
        end_ms = _milliseconds(claims_of(token) or {}, "exp")
    except InvalidTokenError:
        return None
    return end_ms if end_ms is not None and end_ms > 0 else None


def unsecured_token(claims: Mapping[str, Any]) -> str:
    """An unsecured JWS of these claims, for tests, as Kafka's ``OAuthBearerUnsecuredLoginCallbackHandler`` makes it."""
    parts = ({"alg": "none"}, dict(claims))
    return "".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() + "." for part in parts)


# internals


def _parsed(token: Secret[str]) -> tuple[JsonObject, JsonObject]:
    parts = [Secret(part) for part in token.reveal().split(".", 3)]
    if len(parts) != 3:
        raise InvalidTokenError(f"a JSON Web Token has 3 parts, not {len(parts)}")
    header, claims = (_json_object(part) for part in parts[:2])
    if header is None or claims is None:
        raise InvalidTokenError("the token's header or claims are not a JSON object in base64url")
    return header, claims


def _json_object(part: Secret[str]) -> JsonObject | None:
    text = part.reveal()
    try:
        # Padding that is too long is cut; characters outside the alphabet are refused.
        data = base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
        found = json.loads(data)
    except (ValueError, RecursionError):  # not ASCII, not base64, not UTF-8, not JSON, or a million brackets
        return None
    return found if isinstance(found, dict) else None


def _milliseconds(claims: Mapping[str, object], name: str) -> int | None:
    value = claims.get(name)
    if value is None:
        return None
    # Compared, not converted: an int may have four thousand digits, a float be NaN.
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_MAX_TIME < value < _MAX_TIME:
        raise InvalidTokenError(f"the token's {name} is not a time")
    return int(value * 1_000)


def _texts(value: object) -> list[str]:
    return [text for text in (value if isinstance(value, list) else [value]) if isinstance(text, str)]


def _words(scope: object) -> list[str]:
    """A scope is a text of words, or a list of them, as Kafka takes it."""
    return [word for text in _texts(scope) for word in text.split()]


@dataclass(frozen=True, slots=True)
class _Key:
    key: Any
    algorithms: frozenset[str]


def _keys_of(jwks: object) -> dict[str | None, _Key]:
    """The keys for signatures by their ids; those of other kinds are left out (RFC 7517, section 5)."""
    keys = jwks.get("keys") if isinstance(jwks, Mapping) else None
    if not isinstance(keys, list | tuple) or not all(isinstance(key, Mapping) for key in keys):
        raise ConfigurationError("a JWKS is an object with an array of objects as its 'keys'")
    found: dict[str | None, _Key] = {}
    for key in keys:
        kind = key.get("kty")
        if isinstance(kind, str) and kind in _ALGORITHMS and key.get("use", "sig") == "sig":
            kid = key.get("kid")
            if kid is not None and not isinstance(kid, str):
                raise ConfigurationError(f"a key of the JWKS has {kid!r:.80} as its 'kid', which is not a string")
            found[kid] = _key_of(key, kind)
    if not found:
        raise ConfigurationError("the JWKS has no public RSA, EC or OKP key for signatures: see its 'keys'")
    return found


def _key_of(key: Mapping[str, object], kind: str) -> _Key:
    try:
        import jwt
    except ImportError:
        raise ConfigurationError("signed tokens need PyJWT: pip install 'aiokafkapy[oauth]'") from None
    wanted = key.get("alg")
    algorithms = frozenset(each for each in _ALGORITHMS[kind] if not wanted or each == wanted)
    try:
        return _Key(jwt.PyJWK(dict(key)).key, algorithms)
    except (jwt.PyJWTError, ValueError, TypeError, AttributeError) as error:  # PyJWT takes numbers for text
        raise ConfigurationError(f"key {key.get('kid')!r} of the JWKS cannot be used: {error}") from None


def _key_for(header: Mapping[str, object], keys: Mapping[str | None, _Key]) -> _Key | None:
    kid = header.get("kid")
    if kid is None and len(keys) == 1:
        return next(iter(keys.values()))
    return keys.get(kid) if kid is None or isinstance(kid, str) else None


def _check_signature(token: Secret[str], header: Mapping[str, object], key: _Key) -> None:
    import jwt

    if header.get("alg") not in key.algorithms:
        raise InvalidTokenError("the token's algorithm is not its key's")
    try:
        jwt.PyJWS().decode(token.reveal(), key.key, algorithms=sorted(key.algorithms))
    except (jwt.PyJWTError, ValueError, TypeError):  # ES256 with a key of another curve is a TypeError
        raise InvalidTokenError("the token's signature is wrong") from None
