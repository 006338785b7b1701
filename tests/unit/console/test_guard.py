"""Requests of other pages, of other hosts, or without the token are not answered."""

from __future__ import annotations

import pytest

from aiokafkapy.console.guard import HEADER, Guard, new_token

LOCAL = Guard("127.0.0.1", 9080)
TOKEN = "a-token-of-24-characters"
REMOTE = Guard("0.0.0.0", 9080, TOKEN, allowed_hosts=("console.example",))
OURS = {"host": "127.0.0.1:9080", "origin": "http://127.0.0.1:9080", HEADER: "1"}


def status(guard: Guard, method: str, cookie: str | None = None, **headers: str) -> int:
    refusal = guard.refusal(method, {name.replace("_", "-"): value for name, value in headers.items()}, cookie)
    return 200 if refusal is None else refusal.status


@pytest.mark.parametrize("host", ["127.0.0.1:9080", "localhost:9080", "LOCALHOST:9080", "[::1]:9080"])
def test_loopback_answers_to_its_own_names(host: str) -> None:
    assert status(LOCAL, "GET", host=host) == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example:9080", "127.0.0.1.evil.example:9080", "localhost:80", "localhost", "", "127.0.0.1", "10.0.0.1:9080"],
)
def test_loopback_answers_to_no_other_name(host: str) -> None:
    """A page of evil.example whose name now leads to 127.0.0.1 has its own name in Host."""
    assert status(LOCAL, "GET", host=host) == 421
    assert status(LOCAL, "POST", **{**OURS, "host": host, "origin": f"http://{host}"}) == 421


@pytest.mark.parametrize(("has_tls", "answer"), [(False, 421), (True, 200)])
def test_a_host_without_a_port_is_that_of_the_scheme(has_tls: bool, answer: int) -> None:
    assert status(Guard("127.0.0.1", 443, has_tls=has_tls), "GET", host="localhost") == answer


@pytest.mark.parametrize(
    ("host", "answer"),
    [
        ("192.168.1.5:9080", 200),
        ("[fe80::1]:9080", 200),
        ("localhost:9080", 200),
        ("console.example", 200),
        ("console.example:443", 200),
        ("evil.example:9080", 421),
        ("192.168.1.5:81", 421),
    ],
)
def test_elsewhere_it_answers_to_addresses_and_to_the_names_that_were_allowed(host: str, answer: int) -> None:
    assert status(REMOTE, "GET", cookie=TOKEN, host=host) == answer


def test_where_there_is_a_token_it_is_asked_for() -> None:
    host = "192.168.1.5:9080"
    assert status(REMOTE, "GET", host=host) == 401
    assert status(REMOTE, "GET", cookie="a-token-of-24-character_", host=host) == 401
    assert status(REMOTE, "GET", host=host, authorization=f"Bearer {TOKEN}") == 200
    assert status(REMOTE, "GET", host=host, authorization=f"Basic {TOKEN}") == 401
    assert status(REMOTE, "GET", host=host, authorization="Bearer tökén") == 401
    assert status(REMOTE, "POST", host=host, origin=f"http://{host}", **{HEADER: "1"}) == 401


@pytest.mark.parametrize(
    "changed",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9081"},
        {HEADER: ""},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_only_our_own_page_changes_something(changed: dict[str, str]) -> None:
    assert status(LOCAL, "POST", **OURS) == 200
    headers = {**OURS, **changed}
    if not headers[HEADER]:
        del headers[HEADER]  # a form cannot send it
    assert status(LOCAL, "POST", **headers) == 403
    assert status(LOCAL, "DELETE", **headers) == 403


def test_a_program_without_an_origin_needs_the_header() -> None:
    assert status(LOCAL, "POST", host="localhost:9080", **{HEADER: "1"}) == 200
    assert status(LOCAL, "POST", host="localhost:9080") == 403


def test_read_only_refuses_every_change() -> None:
    guard = Guard("127.0.0.1", 9080, is_read_only=True)
    assert status(guard, "GET", host="localhost:9080") == 200
    assert status(guard, "POST", **OURS) == 403


def test_a_token_is_long_and_another_each_time() -> None:
    assert len({new_token() for _ in range(100)}) == 100
    assert len(new_token()) >= 24
