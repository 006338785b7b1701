"""``aiokafkapy pipeline``: the demo's Spark job alone, on any master and any cluster.

Owns the options; everything else is in ``aiokafkapy.demo``.
"""

from __future__ import annotations

import json
from functools import partial
from typing import Annotated

import typer

from .demo_options import MASTER, NODES, OUT, TOPIC, Data, Master, Nodes, Out, SparkConf
from .options import SERVERS_VARIABLE, AsJson
from .progress import progress
from .properties import parse_pairs
from .reporting import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK
from .running import Stop, run

__all__ = ["pipeline"]


def pipeline(
    bootstrap_servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-servers",
            "-b",
            envvar=SERVERS_VARIABLE,
            help="Use this cluster, which the executors must reach too; otherwise an embedded broker is started.",
        ),
    ] = None,
    topic: Annotated[
        str, typer.Option("--topic", help="The topic with the flights; filled when it is empty or not there.")
    ] = TOPIC,
    master: Master = MASTER,
    out: Out = OUT,
    conf: SparkConf = None,
    limit: Annotated[
        int | None, typer.Option("--limit", min=1, help="Use only the first N flights of the topic.")
    ] = None,
    nodes: Nodes = NODES,
    data: Data = None,
    as_json: AsJson = False,
) -> None:
    r"""Run Spark over the flights in Kafka: delays by carrier, hour and route, and as a stream by airport.

    Results go to Kafka topics and to Parquet, are read back, and are checked against pandas, to the row. Needs Java,
    and: pip install 'aiokafkapy\[demo]'. Exit code 1 when a check fails.
    """

    async def command(stop: Stop) -> int:
        from ..demo.pipeline.runner import render
        from ..demo.runner import DemoOptions, run_pipeline_alone

        options = DemoOptions(
            bootstrap_servers=bootstrap_servers,
            topic=topic,
            limit=limit,
            nodes=nodes,
            data=data,
            master=master,
            out=out,
            conf=dict(parse_pairs(conf, "--conf")),
        )
        report = await run_pipeline_alone(options, stop, partial(progress, unit="flights"))
        if report is None:
            return EXIT_INTERRUPTED
        typer.echo(json.dumps(report.as_json(), indent=2) if as_json else "\n".join(render(report)))
        return EXIT_OK if report.has_passed else EXIT_FAILED

    run(command)
