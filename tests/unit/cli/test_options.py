"""The forms of servers, pairs, times and positions on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer

from aiokafkapy.cli.options import Position, client_options, parse_position, parse_timestamp
from aiokafkapy.cli.reporting import CommandError


@pytest.mark.parametrize(
    ("text", "position"),
    [
        ("earliest", Position("earliest")),
        ("Latest", Position("latest")),
        ("17", Position("offset", 17)),
        ("-5", Position("last", 5)),
        ("@1700000000000", Position("timestamp", 1_700_000_000_000)),
        ("2013-01-01T10:00:00Z", Position("timestamp", 1_357_034_400_000)),
        ("2013-01-01", Position("timestamp", 1_356_998_400_000)),
        ("@-1", Position("timestamp", 0)),
        ("0001-01-01", Position("timestamp", 0)),
        ("2013-01-01T12:00:00+02:00", Position("timestamp", 1_357_034_400_000)),
    ],
)
def test_a_position_is_a_word_an_offset_a_count_or_a_time(text: str, position: Position) -> None:
    assert parse_position(text, "--from") == position


@pytest.mark.parametrize("text", ["soon", "@99999999999999999999"])
def test_any_other_position_is_an_error_that_names_the_existing_ones(text: str) -> None:
    with pytest.raises(typer.BadParameter, match=f"'{text}' is not earliest, latest, an offset"):
        parse_position(text, "--from")


def test_a_time_without_a_zone_is_utc() -> None:
    assert parse_timestamp("2013-01-01T00:00:00") == parse_timestamp("2013-01-01T00:00:00+00:00")


def test_servers_are_an_option_that_config_may_override() -> None:
    assert client_options("h:1", ["linger.ms=5"]) == {"bootstrap.servers": "h:1", "linger.ms": "5"}
    assert client_options("h:1", ["bootstrap.servers=x:2"]) == {"bootstrap.servers": "x:2"}


def test_the_environment_s_options_are_those_of_every_command_and_config_overrides_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AIOKAFKAPY_SECURITY_PROTOCOL", "SSL")
    monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "5")
    monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "y:3")  # its command line's option has read it
    monkeypatch.setenv("AIOKAFKAPY_CONSOLE_TOKEN", "x")
    servers = {"bootstrap.servers": "h:1"}
    assert client_options("h:1", None) == servers | {"security.protocol": "SSL"}
    assert client_options("h:1", ["security.protocol=PLAINTEXT"]) == servers | {"security.protocol": "PLAINTEXT"}
    for given in ("linger_ms=7", "linger.ms=7", "queue.buffering.max.ms=7"):
        name = given.partition("=")[0]
        found = client_options("h:1", [given], is_producer=True)
        assert found == servers | {"security.protocol": "SSL", name: "7"}
    assert client_options("h:1", None, is_producer=True) == servers | {"security.protocol": "SSL", "linger.ms": "5"}


def test_an_unknown_variable_is_an_error_of_commands_that_produce(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIOKAFKAPY_LINGERMS", "5")
    assert client_options("h:1", None) == {"bootstrap.servers": "h:1"}
    with pytest.raises(CommandError, match=r"AIOKAFKAPY_LINGERMS is not an option: .*linger_ms"):
        client_options("h:1", None, is_producer=True)


def test_properties_of_a_file_stand_among_the_others_and_the_last_counts(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("linger.ms=1\nacks = all\nbootstrap.servers=x:2\n")
    found = client_options("h:1", ["acks=0", f"@{file}", "linger.ms=5"])
    assert found == {"bootstrap.servers": "x:2", "acks": "all", "linger.ms": "5"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        (b"a=\xff", "it is not UTF-8"),
        (b"\nsecret=\\u12", r"line 2: \u needs four"),
    ],
)
def test_a_file_that_cannot_be_read_is_named_with_the_reason(
    content: bytes | None, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "client.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(typer.BadParameter) as caught:
        client_options("h:1", [f"@{file}"])
    assert str(file) in caught.value.message
    assert reason in caught.value.message
    assert "secret" not in caught.value.message
