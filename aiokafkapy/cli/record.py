"""``aiokafkapy record``: a conversation with any cluster as a file, by a proxy that a client connects to.

Owns the options; ``FaultProxy`` does the work. The proxy's address is the only line on stdout, for scripts.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from ..common import LAST_PORT, counted
from .options import DEFAULT_SERVERS, BootstrapServers, Certificate, ConfigEntries, Tls, given_tls
from .properties import parse_config
from .reporting import EXIT_OK, EXIT_USAGE, CommandError, say
from .running import Stop, explained_port, run, say_client_tls

if TYPE_CHECKING:
    from ..testing import FaultProxy

__all__ = ["record"]

DEFAULT_PORT: Final = 9093
MEBIBYTE: Final = 1 << 20

File = Annotated[Path, typer.Argument(help="The file to write, such as bug.jsonl; one that is there is written anew.")]
Port = Annotated[
    int, typer.Option("--port", "-p", min=0, max=LAST_PORT, help="Port on this machine for the client; 0: a free one.")
]
HashPayloads = Annotated[
    bool,
    typer.Option("--hash-payloads", help="Write digests of keys, values and header values, as long as they are."),
]
HideNames = Annotated[
    list[str] | None,
    typer.Option(
        "--hide-name",
        metavar="NAME",
        help="Replace this name of a topic, group, client or host by another of the same length; repeatable.",
    ),
]
MaxMegabytes = Annotated[
    int, typer.Option("--max-megabytes", min=1, help="End the recording at this file size, in MiB.")
]
ClusterTls = Annotated[bool, typer.Option("--cluster-tls", help="Reach the brokers by TLS.")]
Ca = Annotated[
    Path | None,
    typer.Option("--ca", metavar="FILE", help="As --cluster-tls, and trust the CAs in this PEM file."),
]


def record(
    file: File,
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    port: Port = DEFAULT_PORT,
    hash_payloads: HashPayloads = False,
    hide_name: HideNames = None,
    max_megabytes: MaxMegabytes = 100,
    tls: Tls = False,
    certificate: Certificate = None,
    cluster_tls: ClusterTls = False,
    ca: Ca = None,
    config: ConfigEntries = None,
) -> None:
    """Record a client's conversation with a cluster to a file, for `aiokafkapy replay`, until Ctrl-C.

    Give the client the address that is printed. TLS ends here: the client comes without it, or with --tls, and brokers
    are reached without it, or with --cluster-tls; its SASL passes through. SASL's bytes, tokens and passwords are never
    written; records are, unless --hash-payloads is given.
    """
    towards_clients = given_tls(is_wanted=tls, certificate=certificate)
    towards_cluster = _cluster_options(is_wanted=cluster_tls, ca=ca, entries=config)

    async def command(stop: Stop) -> int:
        from ..testing import FaultProxy

        proxy = FaultProxy(
            bootstrap_servers,
            record=file,
            hash_payloads=hash_payloads,
            hide_names=hide_name or (),
            max_bytes=max_megabytes * MEBIBYTE,
            port=port,
            tls=towards_clients,
            cluster_tls=towards_cluster,
        )
        try:
            with explained_port(port):
                await proxy.__aenter__()
        except ValueError as error:
            raise CommandError(str(error), EXIT_USAGE) from error
        try:
            typer.echo(proxy.bootstrap_servers)
            sys.stdout.flush()
            say_client_tls(proxy.certificates)
            say(f"Recording to {file}: give your client the address above, let it do it again, and press Ctrl-C")
            await stop.wait()
        finally:
            await proxy.__aexit__()
        _say_result(proxy, file, hash_payloads=hash_payloads)
        return EXIT_OK

    run(command)


def _cluster_options(*, is_wanted: bool, ca: Path | None, entries: list[str] | None) -> dict[str, str] | None:
    """A client's TLS options for the cluster; None without TLS. Exits with code 2 for options without effect."""
    options = {name.replace(".", "_"): text for name, text in parse_config(entries).items()}
    if ca is not None:
        options["ssl_truststore_location"] = str(ca)
    if not (is_wanted or ca is not None):
        if options:
            raise typer.BadParameter("it has no effect without --cluster-tls", param_hint="--config")
        return None
    return options


def _say_result(proxy: FaultProxy, file: Path, *, hash_payloads: bool) -> None:
    recorder = proxy.recorder
    if recorder is None:
        return
    say(f"{counted(recorder.requests, 'request')} in {file}, {counted(file.stat().st_size, 'byte')}")
    if recorder.is_full:
        say("the file is full, so the end is missing: give --max-megabytes")
    if proxy.strangers:
        spoken = "TLS with us" if proxy.client_tls.contexts is not None else "Kafka's protocol in the clear: is it TLS?"
        say(f"{counted(proxy.strangers, 'connection')} did not speak {spoken}")
    if proxy.cluster_failure is not None:
        say(f"the cluster: {proxy.cluster_failure}")
    if not hash_payloads:
        say("Keys, values and headers are in it as they are; --hash-payloads would write digests.")
