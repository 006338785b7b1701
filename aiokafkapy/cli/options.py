"""The options that several commands share: servers, ``--config``, times and offsets.

Owns their names and help texts, so that they are the same in every command; knows no command. The files that
``--config @FILE`` names are its only I/O.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from .properties import parse_properties

__all__ = [
    "DEFAULT_SERVERS",
    "DEFAULT_TIMEOUT",
    "BootstrapServers",
    "ConfigEntries",
    "Position",
    "Timeout",
    "client_options",
    "parse_config",
    "parse_pairs",
    "parse_position",
    "parse_timestamp",
]

DEFAULT_SERVERS: Final = "localhost:9092"

BootstrapServers = Annotated[
    str,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar="AIOKAFKAPY_BOOTSTRAP_SERVERS",
        help="Brokers to start from: host:port, or several with commas.",
    ),
]
ConfigEntries = Annotated[
    list[str] | None,
    typer.Option(
        "--config",
        "-X",
        metavar="KEY=VALUE|@FILE",
        help="A client option by Kafka's name, such as linger.ms=5, or a properties file. May be given several times.",
    ),
]

Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds to wait for a broker that answers.")]
DEFAULT_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition: an offset, a time, the start, the end, or a number of records before the end."""

    kind: str
    number: int = 0


def client_options(servers: str, entries: Sequence[str] | None) -> dict[str, Any]:
    """The properties of a client: ``--config`` as given, and the servers; exits with code 2 for a line that is no
    KEY=VALUE.
    """
    properties: dict[str, object] = dict(parse_config(entries))
    properties.setdefault("bootstrap.servers", servers)
    return properties


def parse_config(entries: Sequence[str] | None) -> Mapping[str, str]:
    """The properties of ``--config``, from KEY=VALUE and @FILE entries; the last one of each name counts."""
    properties: dict[str, str] = {}
    for entry in entries or ():
        if entry.startswith("@"):
            properties |= _read_properties(entry[1:])
        else:
            properties |= parse_pairs([entry], "--config")
    return properties


def parse_pairs(entries: Sequence[str] | None, option: str) -> Mapping[str, str]:
    """NAME=VALUE entries of an option as a mapping; the last one of each name counts."""
    pairs = {}
    for entry in entries or ():
        name, equals, value = entry.partition("=")
        if not equals or not name.strip():
            raise typer.BadParameter(f"{entry!r} is not NAME=VALUE", param_hint=option)
        pairs[name.strip()] = value
    return pairs


def _read_properties(file: str) -> Mapping[str, str]:
    try:
        return parse_properties(Path(file).read_text(encoding="utf-8"))
    except OSError as error:
        reason = error.strerror or type(error).__name__
    except UnicodeDecodeError:
        reason = "it is not UTF-8"
    except ValueError as error:
        reason = str(error)
    raise typer.BadParameter(f"{file}: {reason}", param_hint="--config")


def parse_timestamp(text: str) -> int:
    """Milliseconds since the epoch of ``@1700000000000``, or of an ISO 8601 date or time (UTC when it names no zone).

    Raises ValueError.
    """
    if re.fullmatch(r"@-?\d+", text):
        return int(text[1:])
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return int(moment.timestamp() * 1000)


def parse_position(text: str, option: str) -> Position:
    """Read ``earliest``, ``latest``, an offset, ``-N`` (the last N), or a time; exits with code 2 for anything else."""
    word = text.strip().lower()
    if word in ("earliest", "beginning", "start"):
        return Position("earliest")
    if word in ("latest", "end"):
        return Position("latest")
    if re.fullmatch(r"\d+", word):
        return Position("offset", int(word))
    if re.fullmatch(r"-\d+", word):
        return Position("last", int(word[1:]))
    try:
        return Position("timestamp", parse_timestamp(text.strip()))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset, -N for the last N, a time such as 2024-01-31T12:00:00Z, "
            "or milliseconds since the epoch as @1706702400000",
            param_hint=option,
        ) from None
