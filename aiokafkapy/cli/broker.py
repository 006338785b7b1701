"""`aiokafkapy broker`: the dev broker as a program of its own, for clients in any language.

Owns the options and what is printed; `DevBroker` is the broker. Bootstrap servers go to stdout as the first line,
alone, when the broker is ready, so that a script can read them; what to do next goes to stderr.
"""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from .options import parse_pairs
from .running import EXIT_OK, CommandError, Stop, counted, run, say

if TYPE_CHECKING:
    from ..broker import DevBroker

__all__ = ["broker"]


def broker(
    port: Annotated[
        int, typer.Option("--port", "-p", min=0, max=65_535, help="Port of node 1, the next follow; 0: free ones.")
    ] = 9092,
    nodes: Annotated[int, typer.Option("--nodes", "-n", min=1, help="How many nodes.")] = 1,
    data_dir: Annotated[
        Path | None, typer.Option("--data-dir", "-d", help="Keep topics and records here; otherwise in memory.")
    ] = None,
    host: Annotated[
        str, typer.Option("--host", help="Address to listen on. There is no authentication: mind who can reach it.")
    ] = "127.0.0.1",
    advertised_host: Annotated[
        str | None, typer.Option("--advertised-host", help="Name that clients are told to connect to.")
    ] = None,
    topic: Annotated[
        list[str] | None,
        typer.Option("--topic", "-t", metavar="NAME[:PARTITIONS]", help="Make this topic; may be given several times."),
    ] = None,
    config: Annotated[
        list[str] | None,
        typer.Option("--config", "-X", metavar="KEY=VALUE", help="A broker option, such as num.partitions=6."),
    ] = None,
) -> None:
    """Run an embedded Kafka broker until Ctrl-C: the real protocol, for clients in any language, without a JVM."""
    wanted = dict(_parse_topic(entry) for entry in topic or ())
    given = parse_pairs(config, "--config")
    given = parse_pairs(config, "--config")
    options: dict[str, Any] = {name.replace(".", "_"): _as_option(text) for name, text in given.items()}

    async def command(stop: Stop) -> int:
        from ..broker import DevBroker

        dev_broker = DevBroker(nodes, data_dir, host, port, advertised_host=advertised_host, **options)
        try:
            await dev_broker.start()
        except OSError as error:
            if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError) and error.filename:
                raise
            last = f" to {port + nodes - 1}" if nodes > 1 else ""
            if error.errno == errno.EADDRINUSE:
                advice = "give another --port, or --port 0 for free ones"
                raise CommandError(f"port {port}{last} of {host} is in use: {advice}") from error
            reason = error.strerror or str(error)
            advice = "give a --host of this machine, such as 127.0.0.1, and a --port that you may use"
            raise CommandError(f"cannot listen on {host}:{port}{last}: {reason}; {advice}") from error
        try:
            _create_topics(dev_broker, wanted)
            _say_hello(dev_broker, data_dir)
            await stop.wait()
        finally:
            say("stopping")
            await dev_broker.stop()
        return EXIT_OK

    run(command)


# internals


def _parse_topic(entry: str) -> tuple[str, int]:
    name, colon, partitions = entry.rpartition(":")
    if not colon:
        return entry, -1
    if not name or not partitions.isdigit() or int(partitions) < 1:
        raise typer.BadParameter(f"{entry!r} is not NAME or NAME:PARTITIONS", param_hint="--topic")
    return name, int(partitions)


def _as_option(text: str) -> int | float | bool | str:
    """An option's text as the type it looks like; the broker checks that it is the right one."""
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _create_topics(dev_broker: DevBroker, wanted: dict[str, int]) -> None:
    from ..errors import TopicAlreadyExistsError

    for name, partitions in wanted.items():
        try:
            dev_broker.create_topic(name, partitions)
        except TopicAlreadyExistsError:
            say(f"topic {name} is there already")


def _say_hello(dev_broker: DevBroker, data_dir: Path | None) -> None:
    servers = dev_broker.bootstrap_servers
    typer.echo(servers)
    sys.stdout.flush()
    running = len(dev_broker.running_nodes)
    kept = "in memory" if data_dir is None else f"in {data_dir}"
    say(
        f"\n{counted(running, 'node')} of cluster {dev_broker.cluster_id}, records {kept};"
        " Ctrl-C to stop. Try:\n\n"
        f"  echo hello | aiokafkapy produce greetings -b {servers}\n"
        f"  aiokafkapy read greetings -b {servers}\n"
        f"  aiokafkapy perf speed -b {servers}\n"
    )
