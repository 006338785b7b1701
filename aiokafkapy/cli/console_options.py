"""The console's options that several commands share, and its start: ``broker --console``, ``console``, ``demo``.

Owns their names and help texts, and the error for an address that cannot be obtained; ``Console`` serves.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from .declared_options import Option, bad_parameter
from .reporting import CommandError, say

if TYPE_CHECKING:
    from ..broker import DevBroker
    from ..console import Console
    from ..console.registry import RegistryDecoder

__all__ = [
    "CONSOLE_ADDRESS",
    "ConsoleAddress",
    "ConsoleCertificate",
    "ConsoleChoice",
    "ConsoleKey",
    "ConsoleKeyPassword",
    "ConsoleToken",
    "SchemaRegistryUrl",
    "https_options",
    "registry_decoder",
    "served",
]

CONSOLE_ADDRESS: Final = "127.0.0.1:9080"

ConsoleAddress = Annotated[
    str | None,
    Option(
        "--console-address",
        metavar="HOST:PORT",
        help="Address of the console; port 0: a free port. Beyond loopback, access needs a token.",
        show_default=CONSOLE_ADDRESS,
    ),
]
ConsoleToken = Annotated[
    str | None,
    Option(
        "--console-token",
        envvar="AIOKAFKAPY_CONSOLE_TOKEN",
        help="The console's token, 16 characters or more; otherwise one is made where it is needed.",
    ),
]
ConsoleCertificate = Annotated[
    Path | None,
    Option(
        "--console-certificate",
        metavar="FILE",
        help="Serve the console over HTTPS: a PEM file of chain and key of its certificate.",
    ),
]
ConsoleKey = Annotated[
    Path | None,
    Option("--console-key", metavar="FILE", help="PEM file of the certificate's key, if it is a separate file."),
]
ConsoleKeyPassword = Annotated[
    str | None,
    Option(
        "--console-key-password", envvar="AIOKAFKAPY_CONSOLE_KEY_PASSWORD", help="Its password, when it is encrypted."
    ),
]
SchemaRegistryUrl = Annotated[
    str | None, Option("--schema-registry", metavar="URL", help="Show Avro, Protobuf and JSON by its schemas.")
]


class ConsoleChoice:
    """The choice and the address of a console."""

    def __init__(self, *, is_wanted: bool, options: dict[str, Any], registry: str | None) -> None:
        self.is_wanted = is_wanted
        self.options = options
        self.registry = registry
        self.console: Console | None = None

    @classmethod
    def of(
        cls,
        *,
        is_wanted: bool,
        address: str | None,
        token: str | None,
        registry: str | None = None,
        tls: dict[str, str] | None = None,
    ) -> ConsoleChoice:
        """Made from the options. Exits with code 2 for an option without effect."""
        given = {"--console-address": address, "--schema-registry": registry, "--console-certificate": tls}
        for option, value in given.items():
            if value is not None and not is_wanted:
                raise bad_parameter("it has no effect without --console", option)
        options = {"address": address or CONSOLE_ADDRESS, "token": token, "tls": tls}
        return cls(is_wanted=is_wanted, options=options, registry=registry)

    @property
    def address(self) -> str | None:
        """Its address; None if no console is wanted."""
        return str(self.options["address"]) if self.is_wanted else None

    @contextlib.asynccontextmanager
    async def of_broker(self, broker: DevBroker) -> AsyncIterator[None]:
        """Serve the broker's console within the block, if one is wanted."""
        if not self.is_wanted:
            yield
            return
        from ..console import Console

        self.console = Console.of_broker(broker, **self.options, registry=registry_decoder(self.registry))
        async with served(self.console, self.options["address"], "--console-address"):
            yield

    def say(self) -> None:
        """Tell the user the console's address."""
        if self.console is not None:
            say(f"Console: {self.console.url}\n")


def https_options(certificate: Path | None, key: Path | None, password: str | None) -> dict[str, str] | None:
    """The broker's options for the console's certificate; None without one. Exits with code 2 for a key alone."""
    if certificate is None:
        if key is not None:
            raise bad_parameter("it has no effect without --console-certificate", "--console-key")
        return None
    options = {"ssl_keystore_location": str(certificate)}
    if key is not None:
        options["ssl_key_location"] = str(key)
    if password is not None:
        options["ssl_key_password"] = password
    return options


def registry_decoder(url: str | None) -> RegistryDecoder | None:
    """The decoder for the schemas of a registry, if one is named. Raises ConfigurationError if the extra is missing."""
    if url is None:
        return None
    from ..console.registry import RegistryDecoder

    return RegistryDecoder(url)


@contextlib.asynccontextmanager
async def served(console: Console, address: str, option: str) -> AsyncIterator[None]:
    """Serve it within the block. Raises CommandError, with advice, for an address that cannot be obtained."""
    try:
        await console.start()
    except OSError as error:
        raise CommandError(
            f"the console cannot listen on {address}: {error.strerror or error}; give another {option}, or port 0"
            " for a free one"
        ) from error
    try:
        yield
    finally:
        await console.stop()
