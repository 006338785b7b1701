"""The options that several commands share: servers, ``--config``, times and offsets.

Owns their names and help texts, so that they are the same in every command; knows no command. ``properties`` reads the
options of ``--config``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Final

import typer

from ..common import milliseconds
from .properties import parse_config
from .reporting import EXIT_USAGE, CommandError

__all__ = [
    "DEFAULT_SERVERS",
    "DEFAULT_TIMEOUT",
    "SERVERS_VARIABLE",
    "AsJson",
    "BootstrapServers",
    "Certificate",
    "ConfigEntries",
    "Position",
    "Timeout",
    "Tls",
    "client_options",
    "parse_position",
    "parse_timestamp",
    "given_tls",
]

DEFAULT_SERVERS: Final = "localhost:9092"
SERVERS_VARIABLE: Final = "AIOKAFKAPY_BOOTSTRAP_SERVERS"
"""The environment's variable for the servers, which a client reads as well."""

BootstrapServers = Annotated[
    str,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar=SERVERS_VARIABLE,
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
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

Tls = Annotated[
    bool, typer.Option("--tls", help="Accept the client over TLS with a throw-away CA; print the client's settings.")
]
Certificate = Annotated[
    Path | None,
    typer.Option("--certificate", metavar="FILE", help="As --tls, with your PEM file of chain and key."),
]


def _checked_timeout(seconds: float) -> float:
    if not seconds <= MAX_TIMEOUT:  # nan, too
        raise typer.BadParameter(f"must be a number of seconds, at most {MAX_TIMEOUT:,}")
    return seconds


MAX_TIMEOUT: Final = 366 * 86_400
Timeout = Annotated[
    float,
    typer.Option("--timeout", min=0.1, callback=_checked_timeout, help="Seconds to wait for a broker that answers."),
]
DEFAULT_TIMEOUT: Final = 10.0


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a partition: an offset, a time, the start, the end, or a number of records before the end."""

    kind: str
    number: int = 0


def client_options(servers: str, entries: Sequence[str] | None, *, is_producer: bool = False) -> dict[str, object]:
    """The properties of a client: the environment's, ``--config`` as given, and the servers; the last of a name counts.
    Exits with code 2 for a line that is not KEY=VALUE, and for a producer's variable that is not an option.
    """
    from ..client.options.foreign_options import LIBRDKAFKA_NAMES
    from ..client.options.translation import plain_name

    given = parse_config(entries)
    overridden = {LIBRDKAFKA_NAMES.get(name, name) for name in map(plain_name, given)}
    properties = dict(_of_environment(overridden, is_producer=is_producer))
    properties |= given
    properties.setdefault("bootstrap.servers", servers)
    return properties


def given_tls(*, is_wanted: bool, certificate: Path | None) -> bool | dict[str, str]:
    """``--tls`` and ``--certificate`` in the form for test servers."""
    return is_wanted if certificate is None else {"ssl_keystore_location": str(certificate)}


def parse_timestamp(text: str) -> int:
    """Milliseconds since the epoch of ``@1700000000000``, or of an ISO 8601 date or time (UTC when it names no zone).

    Raises ValueError.
    """
    if re.fullmatch(r"@-?\d{1,18}", text):  # a request has room for 18 digits
        return int(text[1:])
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return milliseconds(moment)


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
        # No record is older than 1970, and negative times have special meanings in a request.
        return Position("timestamp", max(0, parse_timestamp(text.strip())))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not earliest, latest, an offset, -N for the last N, a time such as 2024-01-31T12:00:00Z, "
            "or milliseconds since the epoch as @1706702400000",
            param_hint=option,
        ) from None


def _of_environment(overridden: Container[str], *, is_producer: bool) -> Iterator[tuple[str, object]]:
    """Options by Kafka's names, without those that the command line overrides, and without the servers, which have an
    option of the command line.
    """
    from ..client.config import ClientConfig, environment_variables, hint_for

    known: type[ClientConfig] = ClientConfig
    if is_producer:
        from ..producer.config import ProducerConfig

        known = ProducerConfig
    for name, variable in environment_variables(known.environment_prefix).items():
        if name == "bootstrap_servers" or name in overridden:
            continue
        if name in known.model_fields:
            yield name.replace("_", "."), os.environ[variable]
        elif is_producer:  # for a reader the producer's options are not a mistake
            raise CommandError(f"the environment's {variable} is not an option: {hint_for(known, name)}", EXIT_USAGE)
