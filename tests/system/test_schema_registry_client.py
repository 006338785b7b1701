"""The registry's client against the registry for tests: attempts, failover, time, credentials, single flight."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager, suppress
from typing import Any

import httpx
import pytest

from aiokafkapy.errors import IllegalStateError
from aiokafkapy.integrations.schema_registry import (
    InvalidSchemaError,
    RegistryAuthenticationError,
    RegistryUnavailableError,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
    SubjectNotFoundError,
    VersionNotFoundError,
)
from aiokafkapy.testing import SchemaRegistry, TestCertificates
from tests.tcp_servers import tcp_server

SCHEMA = Schema('"string"')
RECORD = Schema('{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}')


@pytest.fixture
async def server() -> AsyncIterator[SchemaRegistry]:
    async with SchemaRegistry() as server:
        yield server


@pytest.fixture
async def client(server: SchemaRegistry) -> AsyncIterator[SchemaRegistryClient]:
    async with SchemaRegistryClient(server.url, retry_backoff_ms=1) as client:
        yield client


async def requested(server: SchemaRegistry) -> None:
    """Wait until a request has come."""
    async with asyncio.timeout(10):
        while not server.requests:  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def test_many_questions_at_once_are_one_request(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    server.register("a", SCHEMA.text)
    server.hold()
    questions = [asyncio.ensure_future(client.schema_by_id(1)) for _ in range(100)]
    await requested(server)
    questions[0].cancel()  # takes no other's answer away
    server.release()
    found = await asyncio.gather(*questions, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert {one.id for one in found[1:] if not isinstance(one, BaseException)} == {1}
    assert len(server.requests) == 1
    await client.schema_by_id(1)
    assert len(server.requests) == 1


async def test_a_failure_is_not_remembered(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    with pytest.raises(SubjectNotFoundError, match="'a'") as caught:
        await client.latest("a")
    assert (caught.value.status, caught.value.registry_code, caught.value.subject) == (404, 40401, "a")
    server.register("a", SCHEMA.text)
    assert (await client.latest("a")).version == 1
    with pytest.raises(VersionNotFoundError):
        await client.version("a", 2)


@pytest.mark.parametrize("status", [408, 429, 500, 503])
async def test_a_failure_that_passes_is_tried_again(
    server: SchemaRegistry, client: SchemaRegistryClient, status: int
) -> None:
    server.fail_next(status, times=3)
    assert (await client.register("a", SCHEMA)).id == 1
    assert len(server.requests) == 4


async def test_a_lasting_error_is_not_retried(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    with pytest.raises(InvalidSchemaError, match="42201"):
        await client.register("a", Schema('{"type":"nonsense"}'))
    server.fail_next(400)
    with pytest.raises(SchemaRegistryError, match="a fault of the test's"):
        await client.register("a", SCHEMA)
    assert len(server.requests) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"times": 0}, "times=0: write 1 or more, or None"),
        ({"times": -1}, "times=-1"),
        ({"status": 200}, "status=200: write one of no success, from 300 to 599"),
        ({"status": 600}, "status=600"),
        ({"retry_after": -1}, "retry_after=-1: write 0 or more seconds"),
    ],
)
async def test_a_fault_that_cannot_be_is_refused_and_none_is_armed(
    server: SchemaRegistry, client: SchemaRegistryClient, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        server.fail_next(**options)
    assert (await client.register("a", SCHEMA)).id == 1
    assert len(server.requests) == 1


async def test_a_fault_lasts_until_it_is_cleared(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    server.fail_next(400, times=None)
    for _ in range(3):
        with pytest.raises(SchemaRegistryError, match="a fault of the test's"):
            await client.register("a", SCHEMA)
    server.clear_faults()
    assert (await client.register("a", SCHEMA)).id == 1


async def test_retry_after_is_kept(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    server.fail_next(429, retry_after=1)
    started = asyncio.get_running_loop().time()
    await client.register("a", SCHEMA)
    assert asyncio.get_running_loop().time() - started >= 1


async def test_another_url_is_asked_when_one_is_away(server: SchemaRegistry) -> None:
    async with SchemaRegistry() as away:
        pass
    async with SchemaRegistryClient([away.url, server.url]) as client:
        assert (await client.register("a", SCHEMA)).id == 1
        await client.register("b", SCHEMA)
        # The one that answered is asked first from then on.
        assert client.requests == 3


async def test_a_question_ends_in_its_time(server: SchemaRegistry) -> None:
    server.hold()
    async with SchemaRegistryClient(server.url, timeout_ms=100) as client:
        with pytest.raises(RegistryUnavailableError, match="timeout_ms=100") as caught:
            await client.latest("a")
    assert caught.value.retriable
    server.release()
    server.fail_next(times=10_000)
    async with SchemaRegistryClient(server.url, timeout_ms=300, retry_backoff_ms=1) as client:
        with pytest.raises(RegistryUnavailableError, match="503"):
            await client.latest("a")


async def test_closing_ends_requests_under_way(server: SchemaRegistry) -> None:
    server.hold()
    client = SchemaRegistryClient(server.url)
    question = asyncio.ensure_future(client.latest("a"))
    await requested(server)
    await client.close()
    with pytest.raises(IllegalStateError, match="closed"):
        await question
    with pytest.raises(IllegalStateError, match="closed"):
        await client.latest("a")
    await client.close()


async def test_credentials_are_sent_and_never_shown() -> None:
    async with SchemaRegistry(basic_auth_user_info="ann:open sesame") as server:
        address = server.url.replace("http://", "http://ann:open%20sesame@")
        async with SchemaRegistryClient(address) as client:
            assert await client.subjects() == []
            assert "sesame" not in repr(client.config)
        async with SchemaRegistryClient(server.url, basic_auth_user_info="ann:wrong one") as client:
            with pytest.raises(RegistryAuthenticationError) as caught:
                await client.subjects()
            assert "wrong one" not in str(caught.value)
    tokens = iter(["first", "second"])

    async def token() -> str:
        return next(tokens)

    async with (
        SchemaRegistry(bearer_auth_token="second") as server,
        SchemaRegistryClient(server.url, bearer_auth_token=token) as client,
    ):
        with pytest.raises(RegistryAuthenticationError):
            await client.subjects()
        assert await client.subjects() == []


async def test_tls_with_a_certificate_of_the_clients() -> None:
    with TestCertificates() as certificates:
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(certificates.ca_file))
        context.load_cert_chain(certificates.server())
        context.verify_mode = ssl.CERT_REQUIRED
        async with SchemaRegistry(ssl_context=context) as server:
            options: Any = {"ssl_truststore_location": str(certificates.ca_file), "timeout_ms": 5_000}
            mine = str(certificates.client())
            async with SchemaRegistryClient(server.url, ssl_keystore_location=mine, **options) as client:
                assert await client.subjects() == []
            async with SchemaRegistryClient(server.url, timeout_ms=100) as client:
                with pytest.raises(RegistryUnavailableError, match="CERTIFICATE_VERIFY_FAILED"):
                    await client.subjects()


@asynccontextmanager
async def answering(body: bytes, *, status: int = 200) -> AsyncIterator[SchemaRegistryClient]:
    """A client of a server that has one answer to everything."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 %d X\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (status, len(body)) + body)
        await writer.drain()
        writer.close()

    async with tcp_server(answer) as (_, port), SchemaRegistryClient(f"http://127.0.0.1:{port}") as client:
        yield client


async def test_an_answer_that_is_not_a_registrys_is_reported_so() -> None:
    async with answering(b"hello") as client:
        with pytest.raises(SchemaRegistryError, match="is it a schema registry"):
            await client.subjects()


@pytest.mark.parametrize("body", [b"null", b"7", b"[1]"])
async def test_an_answer_that_is_not_an_object_is_reported_so(body: bytes) -> None:
    async with answering(body) as client:
        questions: list[Awaitable[object]] = [
            client.register("a", SCHEMA),
            client.schema_by_id(1),
            client.latest("a"),
        ]
        for question in questions:
            with pytest.raises(SchemaRegistryError, match="the registry's answer is not an object"):
                await question


@pytest.mark.parametrize(
    "body",
    [
        b"null",
        b"7",
        b'{"schema": 5}',
        b'{"id": null, "schema": "\\"string\\"", "is_compatible": true, "messages": 5}',
        b'{"id": "one", "schema": "\\"string\\""}',
        b'{"id": 1e999, "schema": "\\"string\\""}',
        b"[" * 100_000,
    ],
)
async def test_every_failure_is_an_error_of_the_registrys(body: bytes) -> None:
    async with answering(body) as client:
        questions: list[Awaitable[object]] = [
            client.register("a", SCHEMA),
            client.schema_by_guid("0" * 32),
            client.latest("a"),
            client.subjects(),
            client.versions("a"),
            client.check_compatibility("a", SCHEMA),
        ]
        for outcome in await asyncio.gather(*questions, return_exceptions=True):
            assert type(outcome) is SchemaRegistryError
    async with answering(body, status=404) as client:
        with pytest.raises(SchemaRegistryError, match="answered 404"):
            await client.subjects()


async def test_an_answer_that_comes_in_drops_is_late_too(server: SchemaRegistry) -> None:
    answers = 0

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal answers
        answers += 1
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        with suppress(ConnectionError):
            while not writer.is_closing():
                writer.write(b" ")
                await writer.drain()
                await asyncio.sleep(0.02)
        writer.close()

    async with tcp_server(answer) as (_, port):
        urls = [f"http://127.0.0.1:{port}", server.url]
        async with SchemaRegistryClient(urls, request_timeout_ms=200) as client:
            assert await client.subjects() == []
    assert answers == 1


async def test_closing_ends_a_question_that_nobody_shares(server: SchemaRegistry) -> None:
    server.hold()
    client = SchemaRegistryClient(server.url)
    question = asyncio.ensure_future(client.subjects())
    await requested(server)
    await client.close()
    with pytest.raises(IllegalStateError, match="closed"):
        await question


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("subjects/a/versions", "[" * 100_000),
        ("subjects/a/versions", '{"schema": "x", "references": 5}'),
        ("subjects/a/versions", '{"schema": "x", "references": [{"name": "a"}]}'),
        ("subjects/a/versions", '{"schema": "\\"string\\"", "id": "one"}'),
        (f"schemas/ids/{'9' * 5000}", None),
    ],
)
async def test_the_registry_for_tests_refuses_all_that_it_cannot_read(
    server: SchemaRegistry, path: str, body: str | None
) -> None:
    async with httpx.AsyncClient(base_url=server.url) as client:
        answer = await client.request("GET" if body is None else "POST", path, content=body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error_code"]


async def test_subjects_and_levels_are_read_and_set(server: SchemaRegistry, client: SchemaRegistryClient) -> None:
    await client.register("a/b c", RECORD)
    assert (await client.subjects(), await client.versions("a/b c")) == (["a/b c"], [1])
    assert await client.compatibility("a/b c") == "BACKWARD"
    await client.set_compatibility("FULL", "a/b c")
    await client.set_compatibility("NONE")
    assert (await client.compatibility("a/b c"), await client.compatibility()) == ("FULL", "NONE")
    other = Schema(RECORD.text.replace('"a"', '"b"'))
    found = await client.check_compatibility("a/b c", other)
    assert not found
    assert any("'b'" in problem for problem in found.problems)
    assert await client.check_compatibility("a/b c", RECORD, version="latest")
    assert await client.delete_subject("a/b c") == [1]
    assert await client.delete_subject("a/b c", permanent=True) == [1]
    assert (await client.register("a/b c", SCHEMA)).version == 2 or server.store.subjects()


async def test_a_schema_is_the_same_by_id_and_by_guid(client: SchemaRegistryClient) -> None:
    registered = await client.register("a", SCHEMA)
    assert registered.guid is not None
    assert (await client.schema_by_guid(registered.guid)).schema == (await client.schema_by_id(registered.id)).schema
    assert (await client.lookup("a", SCHEMA)).guid == registered.guid
