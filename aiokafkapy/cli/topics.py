"""``aiokafkapy topics list | create | describe | config | delete | delete-records | add-partitions``.

Owns the options and the output, a table or JSON with ``--json``; ``TopicAdmin`` does the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ..common import HIDDEN, MAX_INT, MAX_LONG, MAX_PARTITION, MAX_SHORT, NO_LEADER, TopicPartition, counted
from ..errors import (
    InvalidConfigError,
    InvalidPartitionsError,
    KafkaConnectionError,
    KafkaTimeoutError,
    TopicAlreadyExistsError,
)
from .admin_command import echo_json, with_admin
from .options import (
    DEFAULT_SERVERS,
    DEFAULT_TIMEOUT,
    AsJson,
    BootstrapServers,
    ConfigEntries,
    Timeout,
    client_options,
)
from .properties import parse_pairs
from .reporting import CommandError, say

if TYPE_CHECKING:
    from ..admin import TopicAdmin, TopicDescription

__all__ = ["topics"]

topics = typer.Typer(
    help="List, create, describe, change and delete topics, add partitions, and delete records.", no_args_is_help=True
)

Name = Annotated[str, typer.Argument(metavar="TOPIC", help="The topic's name.")]


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
            echo_json([_summary(one) for one in found])
            return
        width = max([len(one.name) for one in found], default=0)
        width = max(width, len("topic"))
        typer.echo(f"{'topic':<{width}}  partitions  replicas")
        for one in found:
            summary = _summary(one)
            typer.echo(f"{one.name:<{width}}  {summary['partitions']:>10}  {summary['replication_factor']:>8}")

    with_admin(bootstrap_servers, config, timeout, work)


@topics.command()
def create(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    partitions: Annotated[int, typer.Option("--partitions", "-p", min=1, max=MAX_INT, help="How many partitions.")] = 1,
    replication_factor: Annotated[
        int,
        typer.Option(
            "--replication-factor", "-r", min=-1, max=MAX_SHORT, help="Copies of each; -1: the broker's default."
        ),
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

    with_admin(bootstrap_servers, config, timeout, work)


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
            echo_json(described)
        else:
            _print_description(described)

    with_admin(bootstrap_servers, config, timeout, work, topic)


@topics.command("config")
def change_config(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    given: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Give an option this value. May be given several times."),
    ] = None,
    default: Annotated[
        list[str] | None,
        typer.Option("--delete", metavar="KEY", help="Take an option back to the broker's default. Likewise."),
    ] = None,
    show_all: Annotated[bool, typer.Option("--all", help="Show also the options that the topic does not set.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a topic's own options; or change some, with --set and --delete: the others stay as they are."""
    changes = parse_pairs(given, "--set")

    async def change(admin: TopicAdmin) -> None:
        try:
            await admin.alter_configs(topic, set=changes, delete=default or ())
        except InvalidConfigError as error:
            raise CommandError(
                f"{str(error).rstrip('.')}; see all options: aiokafkapy topics config {topic} --all"
            ) from error
        if as_json:
            echo_json({"topic": topic, "set": dict(changes), "delete": default or []})
        else:
            typer.echo(f"changed {counted(len(changes) + len(default or ()), 'option')} of topic {topic}")

    async def show(admin: TopicAdmin) -> None:
        found = (await admin.describe_configs([topic]))[topic].values()
        shown = sorted(one for one in found if show_all or one.is_own)
        if as_json:
            echo_json([one._asdict() | {"source": one.source.name} for one in shown])
            return
        for one in shown:
            value = HIDDEN if one.value is None else one.value
            typer.echo(f"{one.name}={value}" + ("" if one.is_own else f"  ({one.source.name})"))

    with_admin(bootstrap_servers, config, timeout, change if changes or default else show, topic)


@topics.command("delete-records")
def delete_records(
    topic: Name,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    partitions: Annotated[
        list[int] | None,
        typer.Option(
            "--partition", "-p", min=0, max=MAX_PARTITION, help="Only of this partition. May be given several times."
        ),
    ] = None,
    before: Annotated[
        int | None,
        typer.Option("--before", metavar="OFFSET", min=0, max=MAX_LONG, help="Only those before this offset."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    as_json: AsJson = False,
) -> None:
    """Delete the records of a topic that are there now, or those before an offset; the topic stays."""
    if not yes:
        place = topic if not partitions else ", ".join(f"{topic}-{number}" for number in partitions)
        what = "all records" if before is None else f"the records before offset {before}"
        typer.confirm(f"Delete {what} of {place}?", abort=True, err=True)

    async def work(admin: TopicAdmin) -> None:
        numbers = partitions or [one.partition for one in (await admin.describe(topic)).partitions]
        offset = -1 if before is None else before  # -1: all present records
        found = await admin.delete_records({TopicPartition(topic, number): offset for number in numbers})
        if as_json:
            echo_json([{"partition": tp.partition, "first_offset": first} for tp, first in sorted(found.items())])
            return
        for tp, first in sorted(found.items()):
            typer.echo(f"{tp.topic}-{tp.partition} begins at offset {first:,}")

    with_admin(bootstrap_servers, config, timeout, work, topic)


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

    with_admin(bootstrap_servers, config, timeout, work, topic)


@topics.command("add-partitions")
def add_partitions(
    topic: Name,
    total: Annotated[
        int, typer.Option("--total", min=1, max=MAX_INT, help="How many partitions the topic has afterwards.")
    ],
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
) -> None:
    """Add partitions. Records that are there stay where they are, so keys may move to other partitions from now on."""

    async def work(admin: TopicAdmin) -> None:
        try:
            await admin.create_partitions(topic, total)
        except InvalidPartitionsError as error:
            raise CommandError(f"{str(error).rstrip('.')}; a topic can only get more partitions than it has") from error
        typer.echo(f"topic {topic} has {counted(total, 'partition')}")

    with_admin(bootstrap_servers, config, timeout, work, topic)


# internals


async def _with_offsets(
    topic: TopicDescription, options: Mapping[str, object], timeout: float
) -> list[dict[str, object]]:
    from ..reader import PartitionReader, ReaderConfig

    first: dict[TopicPartition, int] = {}
    end: dict[TopicPartition, int] = {}
    by_leader: dict[int, list[TopicPartition]] = {}
    for one in topic.partitions:
        if one.leader != NO_LEADER:
            by_leader.setdefault(one.leader, []).append(TopicPartition(topic.name, one.partition))

    async def ask(partitions: list[TopicPartition]) -> None:
        try:
            first.update(await reader.beginning_offsets(partitions, timeout))
            end.update(await reader.end_offsets(partitions, timeout))
        except (KafkaTimeoutError, KafkaConnectionError) as error:
            say(f"warning: {error}")  # the other leaders' partitions are shown

    async with PartitionReader(config=ReaderConfig.from_properties(options)) as reader:
        await asyncio.gather(*map(ask, by_leader.values()))  # not a task group, which would wrap other errors
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
    return f"{counted(summary['replication_factor'], 'replica')} each"
