"""``aiokafkapy cluster``: a cluster's id, its controller and its brokers with their racks.

Owns the options and the output, lines or JSON with ``--json``; ``TopicAdmin`` does the work. ``doctor`` looks for
faults, and connects to each broker; this only asks one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from ..common import counted
from .admin_command import echo_json, with_admin
from .options import DEFAULT_SERVERS, DEFAULT_TIMEOUT, AsJson, BootstrapServers, ConfigEntries, Timeout
from .reporting import say

if TYPE_CHECKING:
    from ..admin import TopicAdmin

__all__ = ["cluster"]


def cluster(
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a cluster's id, its controller and its running brokers."""

    async def work(admin: TopicAdmin) -> None:
        found = await admin.describe_cluster()
        controller = None if found.controller is None else found.controller.node_id
        if as_json:
            nodes = [node._asdict() for node in found.nodes]
            echo_json({"cluster_id": found.cluster_id, "controller_id": controller, "nodes": nodes})
            return
        typer.echo(f"cluster {found.cluster_id}  {counted(len(found.nodes), 'broker')}")
        for node in found.nodes:
            rack = "" if node.rack is None else f"  rack {node.rack}"
            typer.echo(f"{node.node_id:>6}  {node.address}{rack}{'  controller' if node == found.controller else ''}")
        if found.controller is None:
            say("The controller is not known: there is none, or we may not describe the cluster.")
        elif found.controller not in found.nodes:
            address = "" if found.controller.is_empty else f"  {found.controller.address}"
            typer.echo(f"{found.controller.node_id:>6}{address}  controller, no broker")

    with_admin(bootstrap_servers, config, timeout, work)
