"""``aiokafkapy console``: the console for any cluster, read-only unless asked.

Owns the options; ``Console.of_cluster`` does the work. The page's address is the only line on stdout, for scripts.
"""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from .console_options import (
    CONSOLE_ADDRESS,
    ConsoleCertificate,
    ConsoleKey,
    ConsoleKeyPassword,
    ConsoleToken,
    SchemaRegistryUrl,
    https_options,
    registry_decoder,
    served,
)
from .options import DEFAULT_SERVERS, BootstrapServers, ConfigEntries, client_options
from .reporting import EXIT_OK, say
from .running import Stop, run

__all__ = ["console"]

Address = Annotated[
    str,
    typer.Option(
        "--address",
        "-a",
        metavar="HOST:PORT",
        help="Where to listen; port 0: a free one. Elsewhere than on this machine it has a token.",
    ),
]
Write = Annotated[bool, typer.Option("--write", help="Let the page write records.")]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option("--allowed-host", metavar="NAME", help="A host name that browsers use, as a proxy's; repeatable."),
]
SecurityProtocol = Annotated[
    str | None,
    typer.Option(
        "--security-protocol", help="The cluster's security protocol: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL."
    ),
]
TrustStore = Annotated[
    str | None,
    typer.Option("--ca", metavar="FILE", help="A PEM file with the CAs to trust for the brokers' TLS."),
]
SaslMechanism = Annotated[
    str | None, typer.Option("--sasl-mechanism", help="SASL mechanism, such as PLAIN or SCRAM-SHA-512.")
]
Username = Annotated[str | None, typer.Option("--username", help="User name for SASL.")]
Password = Annotated[
    str | None,
    typer.Option(
        "--password", envvar="AIOKAFKAPY_SASL_PASSWORD", help="Its password; safer in the environment than here."
    ),
]


def console(
    bootstrap_servers: BootstrapServers = DEFAULT_SERVERS,
    config: ConfigEntries = None,
    security_protocol: SecurityProtocol = None,
    ca: TrustStore = None,
    sasl_mechanism: SaslMechanism = None,
    username: Username = None,
    password: Password = None,
    address: Address = CONSOLE_ADDRESS,
    token: ConsoleToken = None,
    console_certificate: ConsoleCertificate = None,
    console_key: ConsoleKey = None,
    console_key_password: ConsoleKeyPassword = None,
    write: Write = False,
    allowed_host: AllowedHosts = None,
    schema_registry: SchemaRegistryUrl = None,
) -> None:
    """Show a cluster in the browser: topics, records, groups and transactions, live. It writes nothing unless asked.

    Any other option of a client, such as ssl.keystore.location, is given by --config.
    """
    options = client_options(bootstrap_servers, config)
    given = {
        "security.protocol": security_protocol,
        "ssl.truststore.location": ca,
        "sasl.mechanism": sasl_mechanism,
        "sasl.username": username,
        "sasl.password": password,
    }
    options |= {name: value for name, value in given.items() if value is not None}
    https = https_options(console_certificate, console_key, console_key_password)

    async def command(stop: Stop) -> int:
        from ..client.config import ClientConfig
        from ..console import Console

        client = ClientConfig.from_properties(options)
        given = {name: getattr(client, name) for name in client.model_fields_set if name != "bootstrap_servers"}
        page = Console.of_cluster(
            client.bootstrap_servers,
            client=given,
            address=address,
            token=token,
            read_only=not write,
            allowed_hosts=allowed_host or (),
            registry=registry_decoder(schema_registry),
            tls=https,
        )
        async with served(page, address, "--address"):
            typer.echo(page.url)
            sys.stdout.flush()
            say(f"{'Read and write' if write else 'Read-only'}; Ctrl-C to stop")
            await stop.wait()
        return EXIT_OK

    run(command)
