"""``aiokafkapy doctor HOST[:PORT]``: checks whether a client reaches a cluster from here, and gives the remedy if not.

Owns the options and the output: a line for each finding as it is made, or JSON at the end with ``--json``. ``Doctor``
does the work. The exit code is 1 if a check failed; warnings are not failures.

The client's own warnings are hidden unless ``--log-level`` is given: each is already a finding.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..common import counted
from .options import DEFAULT_SERVERS, SERVERS_VARIABLE, AsJson, ConfigEntries, client_options
from .reporting import EXIT_FAILED, EXIT_OK
from .running import Stop, run

if TYPE_CHECKING:
    from ..admin import Finding

__all__ = ["doctor"]

DEFAULT_TIMEOUT: Final = 30.0
STEP_TIMEOUT: Final = 5.0
"""That of ``Doctor`` itself, whose package is not imported for the help."""
_MARKS: Final = {"ok": ("ok", "green"), "warning": ("warn", "yellow"), "failed": ("FAIL", "red")}


def doctor(
    context: typer.Context,
    servers: Annotated[
        str,
        typer.Argument(
            metavar="HOST[:PORT]",
            envvar=SERVERS_VARIABLE,
            help="Where to begin; several with commas. Without a port: 9092.",
        ),
    ] = DEFAULT_SERVERS,
    topic: Annotated[
        str | None, typer.Option("--topic", "-t", help="Also check that this topic is there, healthy and writable.")
    ] = None,
    config: ConfigEntries = None,
    timeout: Annotated[
        float,
        typer.Option(
            "--timeout", min=0.1, help=f"Seconds for the whole check; each step has at most {STEP_TIMEOUT:g}."
        ),
    ] = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Check the way to a cluster: DNS, TCP, TLS, credentials, versions, each broker's address, a topic."""
    options = client_options(servers, config)

    async def command(stop: Stop) -> int:
        from ..admin import Doctor
        from ..producer.config import ProducerConfig

        examiner = Doctor(
            # A producer's options, so that its file of properties can be given unchanged.
            ProducerConfig.from_properties(options),
            topic=topic,
            tell=(lambda finding: None) if as_json else _print,
            step_timeout=min(STEP_TIMEOUT, timeout),
        )
        with stop.ends_at_once():
            findings = await examiner.examine(timeout)
        if as_json:
            found = {"healthy": examiner.is_healthy, "findings": [finding.as_json() for finding in findings]}
            typer.echo(json.dumps(found, indent=2))
        else:
            _print_verdict(findings)
        return EXIT_OK if examiner.is_healthy else EXIT_FAILED

    if _is_quiet(context):
        logging.getLogger("aiokafkapy").setLevel(logging.CRITICAL)
    run(command)


# internals


def _is_quiet(context: typer.Context) -> bool:
    """True unless the user asked for a log level; the program restores the level at its end."""
    parent = context.parent
    source = None if parent is None else parent.get_parameter_source("log_level")
    return source is None or source.name == "DEFAULT"


def _print(finding: Finding) -> None:
    mark, color = _MARKS[finding.verdict]
    subject = f"{finding.subject}: " if finding.subject else ""
    # Coloured on a terminal only: click sees to it.
    typer.echo(f"{typer.style(f'{mark:<4}', fg=color)}  {finding.check:<8}  {subject}{finding.text}")
    if finding.advice:
        typer.echo(f"      {'':<8}  -> {finding.advice}")
    sys.stdout.flush()


def _print_verdict(findings: list[Finding]) -> None:
    counts = {verdict: sum(finding.verdict == verdict for finding in findings) for verdict in _MARKS}
    if counts["failed"]:
        typer.echo(f"{counted(counts['failed'], 'check')} failed")
    else:
        typer.echo("all is well" + (f", with {counted(counts['warning'], 'warning')}" if counts["warning"] else ""))
