"""AWS's own vectors: the signing key of its documentation, its test suite, and a presigned request of S3's pages."""

from __future__ import annotations

import datetime
import hashlib

from aiokafkapy.security.sasl.secret import Secret
from aiokafkapy.security.sasl.sigv4 import ALGORITHM, SigningScope, canonical_request, uri_encoded

# Published by AWS for this purpose: they open nothing.
SUITE_KEY = Secret("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
S3_KEY = Secret("wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
EMPTY = hashlib.sha256(b"").hexdigest()


def at(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> float:
    return datetime.datetime(year, month, day, hour, minute, tzinfo=datetime.UTC).timestamp()


def test_the_signing_key_is_that_of_the_documentation() -> None:
    key = SigningScope(at(2015, 8, 30), "us-east-1", "iam").signing_key(SUITE_KEY)
    assert key.reveal().hex() == "c4afb1cc5771d871763a393e44b703571b55cc28424d1a5e86da6ed3c154a4b9"
    assert key.reveal().hex() not in repr(key)


def test_get_vanilla_of_the_test_suite() -> None:
    scope = SigningScope(at(2015, 8, 30, 12, 36), "us-east-1", "service")
    headers = {"x-amz-date": scope.timestamp, "host": "example.amazonaws.com"}
    request = canonical_request("GET", "/", {}, headers, EMPTY)
    assert request.splitlines()[:5] == ["GET", "/", "", "host:example.amazonaws.com", "x-amz-date:20150830T123600Z"]
    assert scope.signature(SUITE_KEY, request) == "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"


def test_get_vanilla_query_order_key_case_of_the_test_suite() -> None:
    scope = SigningScope(at(2015, 8, 30, 12, 36), "us-east-1", "service")
    headers = {"host": "example.amazonaws.com", "x-amz-date": scope.timestamp}
    request = canonical_request("GET", "/", {"Param2": "value2", "Param1": "value1"}, headers, EMPTY)
    assert scope.signature(SUITE_KEY, request) == "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500"


def test_a_presigned_request_of_s3s_pages() -> None:
    scope = SigningScope(at(2013, 5, 24), "us-east-1", "s3")
    parameters = {
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"AKIAIOSFODNN7EXAMPLE/{scope.text}",
        "X-Amz-Date": scope.timestamp,
        "X-Amz-Expires": "86400",
        "X-Amz-SignedHeaders": "host",
    }
    headers = {"host": "examplebucket.s3.amazonaws.com"}
    request = canonical_request("GET", "/test.txt", parameters, headers, "UNSIGNED-PAYLOAD")
    assert scope.signature(S3_KEY, request) == "aeeed9bbccd4d02ee5c0109b86d86835f995330da4c265957d157751f604d404"


def test_everything_but_unreserved_characters_is_encoded() -> None:
    assert uri_encoded("aZ09-._~") == "aZ09-._~"
    assert uri_encoded("a/b+c=d e\u00e9") == "a%2Fb%2Bc%3Dd%20e%C3%A9"
