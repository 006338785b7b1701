"""``aiokafkapy broker``: the dev broker as a separate program, for clients in any language.

Owns the options and the output; ``DevBroker`` is the broker. When the broker is ready, its bootstrap servers are the
only line on stdout, for scripts; further instructions, and the clients' options for TLS and SASL at each listener, go
to stderr, without passwords.

Rules: the ports are open before asyncio and the broker are imported, which takes longer than everything before.
Clients can connect from then on; their requests are answered when the broker is ready. So this module imports little
at first: no asyncio, logging, inspect, dataclasses, random.
"""

from __future__ import annotations

import contextlib
import errno
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn

from ..security.protocols import has_sasl, has_tls
from .console_options import (
    ConsoleAddress,
    ConsoleCertificate,
    ConsoleChoice,
    ConsoleKey,
    ConsoleKeyPassword,
    ConsoleToken,
    SchemaRegistryUrl,
    https_options,
)
from .declared_options import Option, bad_parameter
from .properties import parse_config, parse_pairs
from .reporting import EXIT_OK, EXIT_USAGE, CommandError, say

if TYPE_CHECKING:
    import socket

    from ..broker import DevBroker, Listener
    from ..broker.config import BrokerConfig
    from ..testing import TestCertificates
    from .running import Stop

__all__ = ["allow_connections", "broker"]

DEFAULT_HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 9092
LAST_PORT: Final = 65_535
"""As in ``common``, which imports too much for a command that must listen at once."""
DESCRIPTORS: Final = 65_536
"""The descriptors to ask for: a process may have 1,024 by default, and each connection needs one."""
_WITH_PASSWORD: Final = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
"""Mechanisms that --user is for, the best first."""


# the options

_Port = Annotated[
    int | None,
    Option(
        "--port",
        "-p",
        min=0,
        max=LAST_PORT,
        help="Port of node 1; the next nodes use the next ports. 0: free ports.",
        show_default=str(DEFAULT_PORT),
    ),
]
_Nodes = Annotated[int, Option("--nodes", "-n", min=1, help="How many nodes.")]
_DataDir = Annotated[Path | None, Option("--data-dir", "-d", help="Keep topics and records here; otherwise in memory.")]
_Host = Annotated[str, Option("--host", help="Address to listen on. Without --user every client has every right.")]
_AdvertisedHost = Annotated[str | None, Option("--advertised-host", help="Name that clients are told to connect to.")]
_Topics = Annotated[
    list[str] | None,
    Option("--topic", "-t", metavar="NAME[:PARTITIONS]", help="Make this topic; may be given several times."),
]
_Config = Annotated[
    list[str] | None,
    Option(
        "--config",
        "-X",
        metavar="KEY=VALUE|@FILE",
        help="A broker option, such as num.partitions=6, or a properties file.",
    ),
]
_Listeners = Annotated[
    list[str] | None,
    Option(
        "--listener",
        "-l",
        metavar="NAME=PROTOCOL://HOST:PORT",
        help="Listen here instead of on --host and --port; may be given several times.",
    ),
]
_Tls = Annotated[bool, Option("--tls", help="Make a throw-away CA and a certificate; print clients' settings.")]
_Users = Annotated[
    list[str] | None,
    Option("--user", metavar="NAME=PASSWORD", help="A user for PLAIN and SCRAM; may be given several times."),
]
_Authorizer = Annotated[bool, Option("--authorizer", help="Let ACLs decide about each client's rights.")]
_SuperUsers = Annotated[
    list[str] | None,
    Option("--super-user", metavar="NAME", help="A principal with every right, with --authorizer; several times."),
]
_Emulate = Annotated[
    str | None,
    Option(
        "--emulate",
        metavar="VERSION",
        help="Behave like a Kafka release from 0.11 to 4.1, or like event-hubs or redpanda.",
    ),
]
_Console = Annotated[bool, Option("--console", help="Serve a page that shows and controls the broker.")]


def broker(
    port: _Port = None,
    nodes: _Nodes = 1,
    data_dir: _DataDir = None,
    host: _Host = DEFAULT_HOST,
    advertised_host: _AdvertisedHost = None,
    topic: _Topics = None,
    config: _Config = None,
    listener: _Listeners = None,
    tls: _Tls = False,
    user: _Users = None,
    authorizer: _Authorizer = False,
    super_user: _SuperUsers = None,
    emulate: _Emulate = None,
    console: _Console = False,
    console_address: ConsoleAddress = None,
    console_token: ConsoleToken = None,
    console_certificate: ConsoleCertificate = None,
    console_key: ConsoleKey = None,
    console_key_password: ConsoleKeyPassword = None,
    schema_registry: SchemaRegistryUrl = None,
) -> None:
    """Run an embedded Kafka broker until Ctrl-C: the real protocol, for clients in any language, without a JVM."""
    wanted = dict(_parse_topic(entry) for entry in topic or ())
    options = _broker_options(config, authorizer=authorizer, super_users=super_user)
    users = parse_pairs(user, "--user")
    listeners = _BrokerListeners(host, port, nodes, _parse_listeners(listener), has_users=bool(users), has_tls=tls)
    https = https_options(console_certificate, console_key, console_key_password)
    page = ConsoleChoice.of(
        is_wanted=console, address=console_address, token=console_token, registry=schema_registry, tls=https
    )
    allow_connections()
    listeners.listen()

    async def command(stop: Stop) -> int:
        from ..broker import DevBroker

        listeners.check(has_keystore=any(name.startswith("ssl_keystore_") for name in options))
        with contextlib.ExitStack() as clean_up:
            certificates = clean_up.enter_context(_certificates(listeners, data_dir, advertised_host)) if tls else None
            options.update(_tls_options(certificates), sasl_users=users, version=emulate)
            dev_broker = DevBroker(
                nodes, data_dir, advertised_host=advertised_host, listeners=listeners.for_broker(), **options
            )
            await _start(dev_broker, listeners)
            try:
                _create_topics(dev_broker, wanted)
                async with page.of_broker(dev_broker):
                    _say_hello(dev_broker, data_dir, listeners, next(iter(users), None), certificates)
                    page.say()
                    await stop.wait()
            finally:
                say("stopping")
                await dev_broker.stop()
            return EXIT_OK

    _run(command)


def allow_connections() -> None:
    """Raise this process's limit of open descriptors to ``DESCRIPTORS``, or as far as it may."""
    try:
        import resource
    except ImportError:  # Windows, which has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, DESCRIPTORS)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        with contextlib.suppress(ValueError, OSError):  # a system may refuse it; the broker then has fewer
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


# internals


def _run(command: Callable[[Stop], Awaitable[int]]) -> NoReturn:
    """Import the modules that run a command, and run it."""
    from .running import run

    if "typer" not in sys.modules:  # its callback configures logging
        from .late_logging import configure_late

        configure_late()
    run(command)


def _broker_options(config: list[str] | None, *, authorizer: bool, super_users: list[str] | None) -> dict[str, Any]:
    given = parse_config(config).items()
    options: dict[str, Any] = {name.replace(".", "_"): _as_option(text) for name, text in given}
    if authorizer or super_users:
        options["authorizer"] = True
        options["super_users"] = [name if ":" in name else f"User:{name}" for name in super_users or ()]
    return options


class _BrokerListeners:
    """The broker's listeners, from the options; ``sockets`` already listen."""

    def __init__(
        self, host: str, port: int | None, nodes: int, given: dict[str, str], *, has_users: bool, has_tls: bool
    ) -> None:
        self.host = host
        self.given_port = port
        self.nodes = nodes
        self.given = given
        self.has_users = has_users
        self.has_tls = has_tls
        self.sockets: list[socket.socket] = []

    @property
    def port(self) -> int:
        """The port of node 1."""
        return DEFAULT_PORT if self.given_port is None else self.given_port

    @property
    def protocol(self) -> str:
        """The security protocol of clients, without --listener."""
        transport = "SSL" if self.has_tls else "PLAINTEXT"
        return f"SASL_{transport}" if self.has_users else transport

    @property
    def protocols(self) -> dict[str, str]:
        """The security protocol of each listener, by the listener's name."""
        given = self.given.items()
        known = {name: address.split("://")[0] if "://" in address else name for name, address in given}
        return known or {self.protocol: self.protocol}

    def check(self, *, has_keystore: bool) -> None:
        """Raise CommandError for options without effect, and for listeners that lack an option."""
        if not self.given:
            return
        if self.given_port is not None or self.host != DEFAULT_HOST:
            raise CommandError("--host and --port have no effect with --listener: write them in it", EXIT_USAGE)
        of_tls = [name for name, protocol in self.protocols.items() if has_tls(protocol)]
        if of_tls and not self.has_tls and not has_keystore:
            advice = "give --tls for a throw-away certificate, or -X ssl.keystore.location=FILE for your own"
            raise CommandError(f"listener {of_tls[0]} speaks TLS and has no certificate: {advice}", EXIT_USAGE)
        if self.has_tls and not of_tls:
            raise CommandError("--tls: no --listener speaks TLS; write SSL:// or SASL_SSL://", EXIT_USAGE)
        if self.has_users and not any(map(has_sasl, self.protocols.values())):
            raise CommandError("--user: no --listener has SASL; write SASL_SSL:// or SASL_PLAINTEXT://", EXIT_USAGE)

    def listen(self) -> None:
        """Listen on --host and --port. A port that cannot be obtained is left to the broker, which reports it."""
        if self.given or self.port + self.nodes - 1 > LAST_PORT:  # for 0 the system chooses a free port
            return
        from ..broker.network.bound_socket import bound_socket

        try:
            for number in range(self.nodes):
                self.sockets.append(bound_socket(self.host, self.port and self.port + number))
                self.sockets[-1].listen()
        except (OSError, OverflowError):
            for opened in self.sockets:
                opened.close()
            self.sockets.clear()

    def for_broker(self) -> dict[str, str | Listener]:
        """The listeners as ``DevBroker`` takes them."""
        from ..broker import Listener

        if self.given:
            return dict(self.given)
        port = 0 if self.sockets else self.port
        return {self.protocol: Listener(self.protocol, self.host, port, sockets=self.sockets)}


def _parse_listeners(entries: list[str] | None) -> dict[str, str]:
    # PROTOCOL://host:port is a listener of that name.
    named = [entry if "=" in entry else f"{entry.split(':')[0]}={entry}" for entry in entries or ()]
    return dict(parse_pairs(named, "--listener"))


def _certificates(listeners: _BrokerListeners, data_dir: Path | None, advertised_host: str | None) -> TestCertificates:
    try:
        from ..testing import TestCertificates
    except ModuleNotFoundError as error:
        raise CommandError(f"--tls: {error}") from error
    names = dict.fromkeys(("localhost", "127.0.0.1", "::1", listeners.host, advertised_host))
    known = [name for name in names if name and name not in ("0.0.0.0", "::")]
    return TestCertificates(None if data_dir is None else data_dir / "tls", names=known)


def _tls_options(certificates: TestCertificates | None) -> dict[str, Any]:
    made = {} if certificates is None else certificates.server_options()
    return {name: value for name, value in made.items() if name != "security_protocol"}


async def _start(dev_broker: DevBroker, listeners: _BrokerListeners) -> None:
    try:
        await dev_broker.start()
    except OSError as error:
        if isinstance(error, FileNotFoundError | PermissionError | NotADirectoryError) and error.filename:
            raise
        reason = error.strerror or str(error)
        if listeners.given:
            raise CommandError(
                f"cannot listen on {', '.join(listeners.given.values())}: {reason}; give other ports, or 0 for"
                " free ones, and hosts of this machine"
            ) from error
        host, port = listeners.host, listeners.port
        last = f" to {port + listeners.nodes - 1}" if listeners.nodes > 1 else ""
        if error.errno == errno.EADDRINUSE:
            advice = "give another --port, or --port 0 for free ones"
            raise CommandError(f"port {port}{last} of {host} is in use: {advice}") from error
        advice = "give a --host of this machine, such as 127.0.0.1, and a --port that you may use"
        raise CommandError(f"cannot listen on {host}:{port}{last}: {reason}; {advice}") from error


def _parse_topic(entry: str) -> tuple[str, int]:
    name, colon, partitions = entry.rpartition(":")
    if not colon:
        return entry, -1
    if not name or not partitions.isdecimal() or int(partitions) < 1:
        raise bad_parameter(f"{entry!r} is not NAME or NAME:PARTITIONS", "--topic")
    return name, int(partitions)


def _as_option(text: str) -> int | float | bool | str:
    """An option's text converted to the type that it looks like; the broker checks the type."""
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


def _say_hello(
    dev_broker: DevBroker,
    data_dir: Path | None,
    listeners: _BrokerListeners,
    user: str | None,
    certificates: TestCertificates | None,
) -> None:
    import shlex

    from ..common import counted

    print(dev_broker.bootstrap_servers, flush=True)
    needed = {
        name: _client_settings(protocol, dev_broker.config, user, certificates)
        for name, protocol in listeners.protocols.items()
    }
    for name, settings in needed.items():
        if len(needed) > 1:
            say(f"{name}: {dev_broker.bootstrap_servers_of(name)}")
        if settings:
            say("\n".join(["\nClients need:\n", *(f"  {key}={value}" for key, value in settings.items()), ""]))
    if user is None and any("sasl.username" in settings for settings in needed.values()):
        say("Without --user nobody has a password here; SCRAM users may be added by Kafka's tools.\n")
    first = next(iter(needed.values()))
    servers = dev_broker.bootstrap_servers
    servers += "".join(f" -X {shlex.quote(f'{key}={value}')}" for key, value in first.items())
    running = len(dev_broker.running_nodes)
    kept = "in memory" if data_dir is None else f"in {data_dir}"
    emulated = "" if dev_broker.emulation is None else f" as {dev_broker.emulation.name}"
    say(
        f"{counted(running, 'node')} of cluster {dev_broker.cluster_id}{emulated}, records {kept};"
        " Ctrl-C to stop. Try:\n\n"
        f"  echo hello | aiokafkapy produce greetings -b {servers}\n"
        f"  aiokafkapy read greetings -b {servers}\n"
        f"  aiokafkapy perf speed -b {servers}\n"
    )


def _client_settings(
    protocol: str, config: BrokerConfig, user: str | None, certificates: TestCertificates | None
) -> dict[str, str]:
    """A client's options for a listener, without its address, by Java's names."""
    needed = {} if protocol == "PLAINTEXT" else {"security.protocol": protocol}
    if certificates is not None and has_tls(protocol):
        needed["ssl.truststore.location"] = str(certificates.ca_file)
        if config.ssl_client_auth == "required":
            needed["ssl.keystore.location"] = str(certificates.client_file)
    if has_sasl(protocol):
        enabled = config.sasl_enabled_mechanisms
        chosen = next((name for name in _WITH_PASSWORD if name in enabled), None)
        needed["sasl.mechanism"] = chosen or enabled[0]
        if chosen is not None:
            needed |= {"sasl.username": user or "NAME", "sasl.password": "PASSWORD"}
    return needed
