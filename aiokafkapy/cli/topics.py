"""``aiokafkapy topics list | create | describe | delete | add-partitions``.

Owns the options and the output, a table or JSON with ``--json``; ``TopicAdmin`` does the work.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..common import HIDDEN, NO_LEADER, TopicPartition, counted
from ..errors import InvalidPartitionsError, TopicAlreadyExistsError, UnknownTopicOrPartitionError
from .options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT,
    BootstrapServers,
    ConfigEntries,
    Timeout,
    client_options,
)
from .properties import parse_pairs
from .reporting import EXIT_OK, CommandError
from .running import Stop, run

if TYPE_CHECKING:
    from ..admin import TopicAdmin, TopicDescription

__all__ = ["topics"]

topics = typer.Typer(help="List, create, describe and delete topics, and add partitions.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@topics.command("list")
def list_topics(
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    internal: Annotated[bool, typer.Option("--internal", help="Also Kafka's own topics.")] = False,
    as_json: AsJson = False,
) -> None:
    """List topics with their number of partitions and replicas."""

    async def work(admin: TopicAdmin) -> None:
        found = [one for one in await admin.list_topics() if internal or not one.is_internal]
        if as_json:
            _print_json([_summary(one) for one in found])
            return
        width = max([len(one.name) for one in found], default=0)
        width = max(width, len("topic"))
        typer.echo(f"{'topic':<{width}}  partitions  replicas")
        for one in found:
            summary = _summary(one)
            typer.echo(f"{one.name:<{width}}  {summary['partitions']:>10}  {summary['replication_factor']:>8}")

    _run(bootstrap_servers, config, timeout, work)


@topics.command()
def create(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, help="How many partitions.")] = 1,
    replication_factor: Annotated[
        int, typer.Option("--replication-factor", "-r", min=-1, help="Copies of each; -1: the broker's default.")
    ] = -1,
    topic_config: Annotated[
        list[str] | None,
        typer.Option("--topic-config", "-t", metavar="KEY=VALUE", help="A topic's option, such as retention.ms=-1."),
    ] = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="An existing topic is not an error.")] = False,
) -> None:
    """Create a topic and wait until it can be written to."""
    options = parse_pairs(topic_config, "--topic-config")

    async def work(admin: TopicAdmin) -> None:
        try:
            await admin.create(topic, partitions=partitions, replication_factor=replication_factor, configs=options)
        except TopicAlreadyExistsError:
            if not if_not_exists:
                raise CommandError(
                    f"topic {topic} exists already: give --if-not-exists, or see it: aiokafkapy topics describe {topic}"
                ) from None
            typer.echo(f"topic {topic} exists already")
            return
        typer.echo(f"created topic {topic} with {counted(partitions, 'partition')}")

    _run(bootstrap_servers, config, timeout, work)


@topics.command()
def describe(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    as_json: AsJson = False,
) -> None:
    """Show a topic's partitions: leaders, replicas, first and last offsets; and its own options."""

    async def work(admin: TopicAdmin) -> None:
        found = await admin.describe(topic)
        described = _summary(found) | {"configs": await admin.configs(topic)}
        described["partitions"] = await _with_offsets(found, client_options(bootstrap_servers, config), timeout)
        if as_json:
            _print_json(described)
        else:
            _print_description(described)

    _run(bootstrap_servers, config, timeout, work, topic)


@topics.command()
def delete(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a topic with all its records."""
    if not yes:
        typer.confirm(f"Delete topic {topic} with all its records?", abort=True, err=True)

    async def work(admin: TopicAdmin) -> None:
        await admin.delete(topic)
        typer.echo(f"deleted topic {topic}")

    _run(bootstrap_servers, config, timeout, work, topic)


@topics.command("add-partitions")
def add_partitions(
    topic: Name,
    total: Annotated[int, typer.Option("--total", min=1, help="How many partitions the topic has afterwards.")],
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Add partitions. Records that are there stay where they are, so keys may move to other partitions from now on."""

    async def work(admin: TopicAdmin) -> None:
        try:
            await admin.create_partitions(topic, total)
        except InvalidPartitionsError as error:
            raise CommandError(f"{error}; a topic can only get more partitions than it has") from error
        typer.echo(f"topic {topic} has {counted(total, 'partition')}")

    _run(bootstrap_servers, config, timeout, work, topic)


# internals


def _run(
    servers: str,
    entries: list[str] | None,
    timeout: float,
    work: Callable[[TopicAdmin], Awaitable[None]],
    topic: str | None = None,
) -> None:
    options = client_options(servers, entries)

    async def command(stop: Stop) -> int:
        from ..admin import TopicAdmin
        from ..client.config import ClientConfig

        async with TopicAdmin(config=ClientConfig.from_properties(options), timeout=timeout) as admin:
            try:
                with stop.ends_at_once():
                    await work(admin)
            except UnknownTopicOrPartitionError:
                raise CommandError(f"there is no topic {topic}; see them with: aiokafkapy topics list") from None
        return EXIT_OK

    run(command)


async def _with_offsets(
    topic: TopicDescription, options: Mapping[str, object], timeout: float
) -> list[dict[str, object]]:
    from ..reader import PartitionReader, ReaderConfig

    with_leader = [TopicPartition(topic.name, one.partition) for one in topic.partitions if one.leader != NO_LEADER]
    async with PartitionReader(config=ReaderConfig.from_properties(options)) as reader:
        first = await reader.beginning_offsets(with_leader, timeout)
        end = await reader.end_offsets(with_leader, timeout)
    return [
        {
            "partition": one.partition,
            "leader": one.leader,
            "replicas": list(one.replicas),
            "in_sync_replicas": list(one.in_sync_replicas),
            "first_offset": first.get(TopicPartition(topic.name, one.partition)),
            "end_offset": end.get(TopicPartition(topic.name, one.partition)),
        }
        for one in topic.partitions
    ]


def _summary(topic: TopicDescription) -> dict[str, object]:
    return {
        "topic": topic.name,
        "topic_id": None if topic.topic_id is None else str(topic.topic_id),
        "is_internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": max([len(one.replicas) for one in topic.partitions], default=0),
    }


def _print_description(described: dict[str, Any]) -> None:
    partitions = described["partitions"]
    typer.echo(f"{described['topic']}  {counted(len(partitions), 'partition')}  {_replicas(described)}")
    for name, value in described["configs"].items():
        typer.echo(f"  {name}={HIDDEN if value is None else value}")
    typer.echo("partition  leader  replicas      in sync            first          end      records")
    for one in partitions:
        first, end = one["first_offset"], one["end_offset"]
        leader = "none" if one["leader"] == NO_LEADER else str(one["leader"])
        numbers = ["?"] * 3 if first is None or end is None else [f"{number:,}" for number in (first, end, end - first)]
        typer.echo(
            f"{one['partition']:>9}  {leader:>6}  {_ids(one['replicas']):<12}  {_ids(one['in_sync_replicas']):<12}"
            + "".join(f"{number:>13}" for number in numbers)
        )


def _ids(nodes: list[int]) -> str:
    return ",".join(map(str, nodes))


def _replicas(summary: dict[str, Any]) -> str:
    count = summary["replication_factor"]
    return f"{count} replica{'' if count == 1 else 's'} each"


def _print_json(value: object) -> None:
    typer.echo(json.dumps(value, indent=2))
