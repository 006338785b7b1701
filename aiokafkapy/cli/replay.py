"""``aiokafkapy replay``: a recorded conversation played again, for a client in any language.

Owns the options and the output; ``ReplayBroker`` does the work. Its bootstrap servers are the only line on stdout.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..common import DEFAULT_PORT, LAST_PORT, counted
from .options import Certificate, Tls, given_tls
from .properties import parse_pairs
from .reporting import EXIT_FAILED, EXIT_OK, EXIT_USAGE, CommandError, say
from .running import Stop, explained_port, run, say_client_tls

if TYPE_CHECKING:
    from ..testing import ReplayBroker

__all__ = ["replay"]

MOST_SHOWN: Final = 10

File = Annotated[Path, typer.Argument(help="A file of `aiokafkapy record`.")]
Port = Annotated[
    int, typer.Option("--port", "-p", min=0, max=LAST_PORT, help="Port of the first broker; 0: a free one.")
]
Speed = Annotated[
    float, typer.Option("--speed", min=0.0, help="Speed-up of the answers against the recording; 0: no delays.")
]
Users = Annotated[
    list[str] | None,
    typer.Option(
        "--user",
        metavar="NAME=PASSWORD",
        help="A user for PLAIN and SCRAM, whatever was recorded; may be given several times.",
    ),
]


def replay(
    file: File,
    port: Port = DEFAULT_PORT,
    speed: Speed = 1.0,
    user: Users = None,
    tls: Tls = False,
    certificate: Certificate = None,
) -> None:
    """Be the cluster of a recorded conversation, until Ctrl-C: the same requests get the same answers.

    The exit code is 1 when a request came that is not in the recording; the expected and the received one are printed.
    """
    users, shown = parse_pairs(user, "--user"), given_tls(is_wanted=tls, certificate=certificate)

    async def command(stop: Stop) -> int:
        from ..testing import ReplayBroker

        try:
            broker = ReplayBroker(file, speed=speed or None, port=port, sasl_users=users, tls=shown)
        except ValueError as error:  # RecordingError is one
            raise CommandError(str(error), EXIT_USAGE) from error
        with explained_port(port):
            await broker.start()
        broker.on_mismatch = lambda mismatch: say(f"not as recorded: {mismatch}")
        try:
            typer.echo(broker.bootstrap_servers)
            sys.stdout.flush()
            _say_hello(broker)
            await stop.wait()
        finally:
            await broker.stop()
        return _judged(broker)

    run(command)


def _say_hello(broker: ReplayBroker) -> None:
    recording = broker.recording
    connections = counted(len(recording.conversations), "connection")
    say(f"{counted(len(recording.exchanges), 'request')} on {connections}; Ctrl-C to stop")
    say_client_tls(broker.certificates)
    if recording.is_hashed:
        say("Payloads are digests: records are compared by the sizes of their keys and values.")
    if recording.ended is None:
        say("The recording was broken off.")


def _judged(broker: ReplayBroker) -> int:
    unplayed = broker.unplayed
    for text in unplayed[:MOST_SHOWN]:
        say(f"did not come: {text}")
    if len(unplayed) > MOST_SHOWN:
        say(f"… and {len(unplayed) - MOST_SHOWN} more")
    return EXIT_FAILED if broker.mismatches else EXIT_OK
