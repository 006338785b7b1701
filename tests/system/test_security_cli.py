"""The commands against a broker with TLS, users and rights, told of it by options or by a properties file."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from .command_processes import Cluster, start_broker, stop

USERS = {"alice": "correct horse = battery\\staple", "bob": "hunter2"}
"""alice may do everything, bob nothing. Of the password, a properties file needs an escape."""


@dataclass(frozen=True)
class SecuredCluster(Cluster):
    """A cluster, with the clients' settings that its broker printed."""

    settings: dict[str, str]

    def options(self, **changes: str | None) -> list[str]:
        """``--config`` for alice, unless changed; names have underscores for dots."""
        given = self.settings | {"sasl.password": USERS["alice"]}
        given |= {name.replace("_", "."): value for name, value in changes.items() if value is not None}
        gone = {name.replace("_", ".") for name, value in changes.items() if value is None}
        pairs = [f"{name}={value}" for name, value in given.items() if name not in gone]
        return [word for pair in pairs for word in ("--config", pair)]


@pytest.fixture(scope="module")
def secured() -> Iterator[SecuredCluster]:
    users = [word for name, password in USERS.items() for word in ("--user", f"{name}={password}")]
    process, servers = start_broker("--port", "0", "--tls", *users, "--super-user", "alice", "--topic", "forbidden")
    settings: dict[str, str] = {}
    try:
        assert process.stderr is not None
        while "sasl.password" not in settings:
            name, equals, value = process.stderr.readline().decode().strip().partition("=")
            if equals:
                settings[name] = value
        yield SecuredCluster(servers, settings)
    finally:
        _, err = stop(process)
    assert process.returncode == 0, err


@pytest.fixture(params=["options", "file"])
def given(request: pytest.FixtureRequest, secured: SecuredCluster, tmp_path: Path) -> list[str]:
    """The ways to tell a command of the cluster."""
    if request.param == "options":
        return secured.options()
    written = secured.settings | {"sasl.password": USERS["alice"].replace("\\", "\\\\")}
    file = tmp_path / "client.properties"
    file.write_text("# as Kafka's own tools take it\n" + "".join(f"{name} = {written[name]}\n" for name in written))
    return ["--config", f"@{file}"]


def test_every_command_gets_in(secured: SecuredCluster, given: list[str], tmp_path: Path) -> None:
    topic = f"orders-{tmp_path.name}"
    secured.run("topics", "create", topic, "--partitions", "2", *given)
    produced = secured.run("produce", topic, "--partition", "1", *given, given="one\ntwo\n")
    assert "2 records" in produced.stderr
    assert [record["value"] for record in secured.read(topic, *given)] == ["one", "two"]
    measured = json.loads(secured.run("perf", topic, "-n", "1000", "--json", *given).stdout)
    assert (measured["records"], measured["failed"]) == (1000, 0)
    described = json.loads(secured.run("topics", "describe", topic, "--json", *given).stdout)
    assert sum(one["end_offset"] for one in described["partitions"]) == 1002


COMMANDS = [["produce", "t"], ["read", "t"], ["topics", "list"], ["perf", "t", "-n", "1"]]


def refusal(secured: SecuredCluster, command: list[str], options: list[str], code: int = 1) -> str:
    """The one line that a command ends with, long before its time is over."""
    begun = time.monotonic()
    done = secured.run(*command, "--timeout", "50", *options, given="x\n", code=code)
    assert time.monotonic() - begun < 25
    assert done.stderr.count("error: ") == 1, done.stderr
    assert not any(password in done.stderr + done.stdout for password in (*USERS.values(), "guessed"))
    return done.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_a_wrong_password_is_one_line_that_does_not_show_it(secured: SecuredCluster, command: list[str]) -> None:
    said = refusal(secured, command, secured.options(sasl_password="guessed"))
    assert "refused the credentials (SCRAM-SHA-512)" in said


def test_settings_that_are_refused_have_an_error_with_the_remedy(secured: SecuredCluster) -> None:
    said = refusal(secured, ["topics", "list"], secured.options(ssl_truststore_location=None))
    assert "write that CA's certificate as ssl_truststore_location" in said
    said = refusal(secured, ["topics", "list"], secured.options(ssl_truststore_location="/no/such/ca.pem"), code=2)
    assert "/no/such/ca.pem" in said


def test_without_any_settings_the_listener_is_said_to_speak_tls(secured: SecuredCluster) -> None:
    assert "speaks TLS: write security_protocol=" in refusal(secured, ["topics", "list"], [])


@pytest.mark.parametrize("command", [["produce", "forbidden"], ["read", "forbidden"], ["perf", "forbidden", "-n", "1"]])
def test_a_missing_right_is_named_with_the_topic(secured: SecuredCluster, command: list[str]) -> None:
    done = secured.run(*command, *secured.options(sasl_username="bob", sasl_password=USERS["bob"]), given="x\n", code=1)
    assert "forbidden" in done.stderr
    assert "uthori" in done.stderr
