"""A command that asks one ``TopicAdmin``, and its ``--json``.

Owns the admin's start and end, and the error text for a missing topic. It knows no command.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import typer

from ..errors import UnknownTopicOrPartitionError
from .options import client_options
from .reporting import EXIT_OK, CommandError
from .running import Stop, run

if TYPE_CHECKING:
    from ..admin import TopicAdmin

__all__ = ["echo_json", "with_admin"]


def with_admin(
    servers: str,
    entries: list[str] | None,
    timeout: float,
    work: Callable[[TopicAdmin], Awaitable[None]],
    topic: str | None = None,
) -> None:
    """Run ``work`` with an admin and end the program; an error names ``topic``."""
    options = client_options(servers, entries)

    async def command(stop: Stop) -> int:
        from ..admin import TopicAdmin
        from ..client.config import ClientConfig

        async with TopicAdmin(config=ClientConfig.from_properties(options), timeout=timeout) as admin:
            try:
                with stop.ends_at_once():
                    await work(admin)
            except UnknownTopicOrPartitionError as error:
                if error.partition is not None:
                    raise
                raise CommandError(f"there is no topic {topic}; see them with: aiokafkapy topics list") from None
        return EXIT_OK

    run(command)


def echo_json(value: object) -> None:
    """Print the value as ``--json`` promises it."""
    typer.echo(json.dumps(value, indent=2))
