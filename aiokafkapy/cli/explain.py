"""``aiokafkapy explain``: the producer's configuration in force, the source of each value, and its consequences.

Owns the options, the order of precedence, and the output, text or JSON with ``--json``; ``producer.explanation`` has
the words. It makes no connection.

The order is that of a service that reads its environment, and of the other commands: defaults, variables
``AIOKAFKAPY_…``, the URL, then ``--config`` with its files, the last of a name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import ConfigurationError
from .options import DEFAULT_SERVERS, ConfigEntries
from .properties import parse_config
from .reporting import EXIT_OK, EXIT_USAGE, CommandError
from .running import Stop, run

if TYPE_CHECKING:
    from ..producer.explanation import Explanation

__all__ = ["explain"]

LONGEST_VALUE = 60
"""The most characters of a value in a line; JSON has all of it."""


def explain(
    bootstrap_servers: Annotated[
        str | None, typer.Option("--bootstrap-servers", "-b", help="Brokers to start from: host:port, with commas.")
    ] = None,
    url: Annotated[
        str | None, typer.Option("--url", help="The cluster as kafka+sasl-ssl://user:password@host:port/?acks=all.")
    ] = None,
    config: ConfigEntries = None,
    show_all: Annotated[bool, typer.Option("--all", help="Also the options that are at their default.")] = False,
    # Not ``options.AsJson``: JSON has more than the text.
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: every option, too.")] = False,
) -> None:
    """Show the producer's configuration in force: each value, where it came from, and its consequences."""
    given = list(_given(bootstrap_servers, url, config))

    async def command(stop: Stop) -> int:
        explanation = _explanation(given)
        if as_json:
            typer.echo(json.dumps(explanation.as_json(), indent=2))
        else:
            _print(explanation, show_all=show_all)
        return EXIT_OK

    run(command)


# internals


def _given(
    servers: str | None, url: str | None, entries: Sequence[str] | None
) -> Iterator[tuple[str, Mapping[str, object]]]:
    """The options of the command line, with their origins; a later one wins."""
    if url is not None:
        from ..client.options.urls import options_of_url

        try:
            yield "--url", options_of_url(url)
        except ConfigurationError as error:
            raise typer.BadParameter(str(error), param_hint="--url") from None
    if servers is not None:
        yield "--bootstrap-servers", {"bootstrap_servers": servers}
    for entry in entries or ():
        yield (entry[1:] if entry.startswith("@") else "--config"), parse_config([entry])


def _explanation(given: Sequence[tuple[str, Mapping[str, object]]]) -> Explanation:
    from ..client.config import environment_variables, options_in
    from ..client.options.translation import translated
    from ..producer.config import ProducerConfig
    from ..producer.explanation import explain

    origins = environment_variables(ProducerConfig.environment_prefix)
    values: dict[str, object] = {name: os.environ[variable] for name, variable in origins.items()}
    try:
        for origin, properties in given:
            found, given_as = translated(properties, ProducerConfig.model_fields)
            values |= found
            origins |= {name: _origin(origin, given_as.get(name)) for name in found}
    except ConfigurationError as error:
        raise CommandError(str(error), EXIT_USAGE) from None
    if "bootstrap_servers" not in values:
        values["bootstrap_servers"], origins["bootstrap_servers"] = DEFAULT_SERVERS, "default"
    try:
        return explain(ProducerConfig.from_properties({}, **values), origins)
    except ConfigurationError as error:
        whence = "; ".join(f"{name} is from {origins[name]}" for name in options_in(error, origins))
        raise CommandError(f"{error}{whence and f' ({whence})'}", EXIT_USAGE) from None


def _origin(source: str, foreign_name: str | None) -> str:
    """The source of a value, and the other client's name under which it was given."""
    return source if foreign_name is None else f"{source}, {foreign_name}"


def _print(explanation: Explanation, *, show_all: bool) -> None:
    options = [one for one in explanation.options if show_all or one.origin != "default"]
    names = max((len(one.name) for one in options), default=0)
    values = max((len(_text(one.value)) for one in options), default=0)
    for option in options:
        typer.echo(f"{option.name:<{names}}  {_text(option.value):<{values}}  ({option.origin})")
    if not show_all:
        typer.echo(f"the other {len(explanation.options) - len(options)} options are at their defaults: --all")
    typer.echo("")
    for subject, text in explanation.implications:
        typer.echo(f"{subject + ':':<14}{text}")
    for subject, text in explanation.oddities:
        typer.echo(typer.style(f"look at {subject}: {text}", fg="yellow"))


def _text(value: object) -> str:
    """On one line, and not too long: an option may be a whole file in PEM."""
    text = " ".join((",".join(map(str, value)) if isinstance(value, list) else str(value)).split())
    return text if len(text) <= LONGEST_VALUE else text[:LONGEST_VALUE] + "…"
