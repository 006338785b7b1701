"""The tokens that a broker believes: RFC 7515's own example, every kind of key, and forgeries."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from hypothesis import given
from hypothesis import strategies as st

from aiokafkapy.errors import ConfigurationError
from aiokafkapy.security.sasl.json_web_tokens import (
    InvalidTokenError,
    TokenValidator,
    claims_of,
    end_of,
    unsecured_token,
)
from aiokafkapy.security.sasl.secret import Secret

from .exchanges import everything_shown_of

NOW = 1_700_000_000
CLAIMS: dict[str, Any] = {"sub": "alice", "exp": NOW + 600}

# RFC 7515, appendix A.3
RFC_KEY = {
    "kty": "EC",
    "crv": "P-256",
    "x": "f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",
    "y": "x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0",
}
RFC_TOKEN = (
    "eyJhbGciOiJFUzI1NiJ9."
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ."
    "DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxfKTUJqPP3-Kg6NU1Q"
)

RSA_KEY = rsa.generate_private_key(65_537, 2_048)
OTHER_RSA_KEY = rsa.generate_private_key(65_537, 2_048)
EC_KEY = ec.generate_private_key(ec.SECP256R1())
ED_KEY = ed25519.Ed25519PrivateKey.generate()


def jwk(key: Any, kid: str, **more: str) -> dict[str, Any]:
    algorithm: Any
    if isinstance(key, rsa.RSAPrivateKey):
        algorithm = jwt.algorithms.RSAAlgorithm
    elif isinstance(key, ec.EllipticCurvePrivateKey):
        algorithm = jwt.algorithms.ECAlgorithm
    else:
        algorithm = jwt.algorithms.OKPAlgorithm
    fields: dict[str, Any] = json.loads(algorithm.to_jwk(key.public_key()))
    fields.pop("key_ops", None)
    return fields | {"kid": kid} | more


JWKS = {"keys": [jwk(RSA_KEY, "rsa"), jwk(EC_KEY, "ec"), jwk(ED_KEY, "ed")]}
SIGNING = TokenValidator(jwks=JWKS)
UNSECURED = TokenValidator(unsecured=True)


def signed(key: Any = RSA_KEY, kid: str | None = "rsa", algorithm: str = "RS256", **claims: Any) -> Secret[str]:
    return Secret(jwt.encode(CLAIMS | claims, key, algorithm, headers={"kid": kid} if kid else None))


def refusal(validator: TokenValidator, token: Secret[str], now: int = NOW) -> str:
    with pytest.raises(InvalidTokenError) as caught:
        validator.validate(token, now * 1_000)
    assert token.reveal() not in everything_shown_of(caught.value)
    return str(caught.value)


def test_the_example_of_the_rfc_is_believed() -> None:
    validator = TokenValidator(jwks={"keys": [RFC_KEY]}, sub_claim_name="iss")
    valid = validator.validate(Secret(RFC_TOKEN), 1_300_819_000_000)
    assert (valid.principal, valid.expires_at_ms) == ("joe", 1_300_819_380_000)
    assert refusal(validator, Secret(RFC_TOKEN[:-4] + "AAAA"), 1_300_819_000) == "the token's signature is wrong"


@pytest.mark.parametrize(
    ("key", "kid", "algorithm"),
    [(RSA_KEY, "rsa", "RS256"), (RSA_KEY, "rsa", "PS512"), (EC_KEY, "ec", "ES256"), (ED_KEY, "ed", "EdDSA")],
)
def test_a_token_of_each_kind_of_key_is_believed(key: Any, kid: str, algorithm: str) -> None:
    valid = SIGNING.validate(signed(key, kid, algorithm, scope="read write"), NOW * 1_000)
    assert valid.principal == "alice"
    assert valid.scope == {"read", "write"}


@pytest.mark.parametrize(
    ("token", "words"),
    [
        (signed(OTHER_RSA_KEY), "signature is wrong"),
        (signed(RSA_KEY, "unknown"), "not in the JWKS"),
        (signed(RSA_KEY, None), "not in the JWKS"),
        (signed(RSA_KEY, "ec"), "algorithm is not its key's"),
        (signed("a shared secret that is long enough for HS256", "rsa", "HS256"), "algorithm is not its key's"),
        (Secret(unsecured_token(CLAIMS)), "not in the JWKS"),
        (Secret(unsecured_token(CLAIMS) + "e30"), "not in the JWKS"),
    ],
)
def test_a_forged_token_is_not_believed(token: Secret[str], words: str) -> None:
    assert words in refusal(SIGNING, token)


def test_a_single_key_needs_no_name_and_its_algorithm_binds() -> None:
    validator = TokenValidator(jwks={"keys": [jwk(RSA_KEY, "rsa", alg="RS512")]})
    assert validator.validate(signed(RSA_KEY, None, "RS512"), NOW * 1_000).principal == "alice"
    assert "algorithm" in refusal(validator, signed(RSA_KEY, None, "RS256"))


def test_a_public_key_is_not_taken_for_a_password() -> None:
    """The old trick: sign with HS256, and the public key as the secret."""
    header, claims = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=")
        for part in ({"alg": "HS256", "kid": "rsa"}, CLAIMS)
    )
    assert "algorithm" in refusal(SIGNING, Secret(f"{header.decode()}.{claims.decode()}.AAAA"))


def test_signed_tokens_are_not_believed_where_nobody_can_check_them() -> None:
    assert refusal(UNSECURED, signed()) == "the token is signed, and only unsecured ones are believed here"
    forged = unsecured_token(CLAIMS) + "AAAA"
    assert "only unsecured" in refusal(UNSECURED, Secret(forged))


def test_keys_can_be_replaced() -> None:
    validator = TokenValidator(jwks=JWKS)
    validator.use_keys({"keys": [jwk(OTHER_RSA_KEY, "rsa")]})
    assert validator.validate(signed(OTHER_RSA_KEY), NOW * 1_000).principal == "alice"
    assert "signature" in refusal(validator, signed())


@pytest.mark.parametrize(
    ("claims", "words"),
    [
        ({"exp": NOW - 30}, "the token ended 30 s ago"),
        ({"exp": None}, "the token has no exp"),
        ({"exp": "soon"}, "the token's exp is not a time"),
        ({"exp": True}, "the token's exp is not a time"),
        ({"exp": float("inf")}, "the token's exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"nbf": NOW + 31}, "the token's nbf is 31 s ahead"),
        ({"iat": NOW + 3_600}, "the token's iat is 3600 s ahead"),
        ({"sub": None}, "the token has no sub"),
        ({"sub": " "}, "the token has no sub"),
        ({"sub": ["alice"]}, "the token has no sub"),
        ({"iss": "other"}, "the token is from another issuer"),
        ({"iss": None}, "the token is from another issuer"),
        ({"aud": "other"}, "the token is for another audience"),
        ({"aud": ["other", 7]}, "the token is for another audience"),
        ({"scope": "read"}, "the token's scope lacks write"),
        ({"scope": {"write": True}}, "the token's scope lacks read write"),
    ],
)
def test_each_claim_is_checked(claims: dict[str, Any], words: str) -> None:
    validator = TokenValidator(unsecured=True, issuer="me", audience="kafka", scope=["read", "write"])
    good = CLAIMS | {"iss": "me", "aud": ["kafka"], "scope": ["read", "write more"]}
    assert validator.validate(Secret(unsecured_token(good)), NOW * 1_000).scope == {"read", "write", "more"}
    assert words in refusal(validator, Secret(unsecured_token(good | claims)))


@pytest.mark.parametrize("claims", [{"exp": NOW - 29}, {"nbf": NOW + 30}, {"iat": NOW + 30}, {"exp": NOW + 0.5}])
def test_clocks_may_differ_by_thirty_seconds(claims: dict[str, Any]) -> None:
    assert UNSECURED.validate(Secret(unsecured_token(CLAIMS | claims)), NOW * 1_000).principal == "alice"


def test_claims_may_have_other_names() -> None:
    validator = TokenValidator(unsecured=True, sub_claim_name="client_id", scope_claim_name="scp", scope=["a"])
    valid = validator.validate(Secret(unsecured_token({"client_id": "c", "scp": ["a"], "exp": NOW + 1})), NOW * 1_000)
    assert valid.principal == "c"
    assert valid.scope == {"a"}


@pytest.mark.parametrize(
    "token",
    ["", "a.b", "a.b.c.d", "a.b.c", "e30.e30", "!!.e30.", "e30.W10.", "\u00e9.e30.", "." * 10_000, "e3.e30."],
)
def test_a_text_that_is_not_a_token_is_refused(token: str) -> None:
    assert claims_of(Secret(token)) is None
    assert end_of(Secret(token)) is None
    with pytest.raises(InvalidTokenError):
        UNSECURED.validate(Secret(token), 0)


def test_a_million_brackets_are_not_claims() -> None:
    bomb = base64.urlsafe_b64encode(b"[" * 1_000_000).decode().rstrip("=")
    assert claims_of(Secret(f"e30.{bomb}.")) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)


NAMES = st.sampled_from(["sub", "exp", "nbf", "iat", "aud", "iss", "scope"])


@given(st.dictionaries(st.sampled_from(["alg", "kid", "typ"]), JSON), st.dictionaries(NAMES, JSON))
def test_claims_of_any_kind_are_believed_or_refused(header: dict[str, Any], claims: dict[str, Any]) -> None:
    parts = (base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in (header, claims))
    token = Secret(".".join(parts) + ".")
    for validator in (UNSECURED, SIGNING):
        with contextlib.suppress(InvalidTokenError):
            assert validator.validate(token, NOW * 1_000).principal


NO_JWKS: list[object] = [{}, [], "keys", {"keys": 5}, {"keys": None}, {"keys": {"kty": "RSA"}}, {"keys": ["x"]}]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "write jwks=.* or unsecured=True"),
        ({"jwks": JWKS, "unsecured": True}, "write jwks=.* or unsecured=True"),
        ({"jwks": {"keys": []}}, "has no public RSA, EC or OKP key"),
        ({"jwks": {"keys": [{"kty": []}, {"kid": 5}]}}, "has no public RSA, EC or OKP key"),
        ({"jwks": {"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}}, "has no public RSA, EC or OKP key"),
        ({"jwks": {"keys": [jwk(RSA_KEY, "rsa", use="enc")]}}, "has no public RSA, EC or OKP key"),
        ({"jwks": {"keys": [{"kty": "RSA", "kid": "bad"}]}}, "key 'bad' of the JWKS cannot be used"),
        ({"jwks": {"keys": [{"kty": "RSA", "kid": "bad", "n": 5, "e": []}]}}, "key 'bad' of the JWKS cannot be used"),
        ({"jwks": {"keys": [{"kty": "RSA", "kid": ["bad"]}]}}, r"has \['bad'\] as its 'kid', which is not a string"),
        *(({"jwks": wrong}, "an object with an array of objects as its 'keys'") for wrong in NO_JWKS),
    ],
)
def test_keys_that_cannot_be_used_are_an_error(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words):
        TokenValidator(**options)
