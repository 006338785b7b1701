"""The security configuration of a real Kafka for tests: listeners with TLS and SASL, users, authorization.

    security = KafkaSecurity({"SSL": Listener("SSL"), "MTLS": Listener("SSL", client_auth="required"),
                              "SASL_SSL": Listener("SASL_SSL", mechanisms=["PLAIN", "SCRAM-SHA-512"])},
                             certificates=TestCertificates(tmp_path), users={"alice": "wonderland"})
    async with ApacheKafka(security=security) as kafka:
        producer = KafkaProducer(kafka.bootstrap_servers_of("SASL_SSL"),
                                 **security.client_options("SASL_SSL", user="alice"))

Owns the security part of server.properties, the users in a node's formatted log directory, and the options of clients.
Knows nothing of processes. Kafka's counterparts are ``BrokerSecurityConfigs``, ``SslConfigs`` and ``SaslConfigs``; all
secrets are test secrets, in plain files.

Rules: settings with which a broker would not start, or which it would silently ignore, are a ValueError at once. The
listener PLAINTEXT always exists: it is used between brokers and by ``ApacheKafka`` itself, and its ANONYMOUS principal
is a super user.
"""

from __future__ import annotations

import os
import re
import socket
import ssl
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ...protocol.api import ApiKey
from ...protocol.constants import BROKER_RESOURCE
from ...security.protocols import SECURITY_PROTOCOLS, has_sasl, has_tls
from ...security.sasl.json_web_tokens import unsecured_token
from ...security.tls import ClientAuth
from ..blocking_client import Address, exchange, raise_for

if TYPE_CHECKING:
    from ..certificates import TestCertificates

__all__ = ["KafkaSecurity", "KerberosSettings", "Listener", "reload_certificates", "shows_certificate"]

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_OF_USERS: Final = ("PLAIN", *_SCRAM)
_MECHANISMS: Final = (*_OF_USERS, "OAUTHBEARER", "GSSAPI")
_RESERVED: Final = ("PLAINTEXT", "CONTROLLER")
_MODULES: Final = "org.apache.kafka.common.security"
_AUTHORIZER: Final = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_ANONYMOUS: Final = "User:ANONYMOUS"
# A number of AlterConfigOp.OpType.
_SET: Final = 0
_PATIENCE: Final = 10.0
_BROKER: Final = "broker"
"""The name of a broker's own principal, which its OAUTHBEARER login module requires."""


@dataclass(frozen=True)
class Listener:
    """One listener of every broker.

    ``protocol`` is SSL, SASL_PLAINTEXT, SASL_SSL or PLAINTEXT. ``mechanisms`` are those of SASL, by default the three
    that need ``users``. ``client_auth`` is Kafka's ``ssl.client.auth``. ``host`` is the advertised host; the listener
    is always on the loopback address. ``server_file`` is a certificate other than ``TestCertificates.server_file``.
    ``max_reauth_ms`` is ``connections.max.reauth.ms``, 0 for sessions without expiry; below 1,200 clients that
    re-authenticate at 85 % of a session's life are refused, since brokers allow it only once a second. ``config`` has
    other options of this listener, by Kafka's names.
    """

    protocol: str
    mechanisms: Sequence[str] = ()
    client_auth: ClientAuth = "none"
    host: str = "localhost"
    server_file: str | os.PathLike[str] | None = None
    max_reauth_ms: int = 0
    config: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.protocol not in SECURITY_PROTOCOLS:
            known = ", ".join(SECURITY_PROTOCOLS[:-1])
            raise ValueError(f"protocol={self.protocol!r} is unknown: write {known} or SASL_SSL")
        if isinstance(self.mechanisms, str):
            raise ValueError(f"mechanisms={self.mechanisms!r} is a string: write [{self.mechanisms!r}]")
        for mechanism in self.mechanisms:
            if mechanism not in _MECHANISMS:
                raise ValueError(f"mechanism {mechanism!r} is unknown: write some of {', '.join(_MECHANISMS)}")
        if self.mechanisms and not self.has_sasl:
            raise ValueError(f"a listener of {self.protocol} has no mechanisms: write SASL_PLAINTEXT or SASL_SSL")
        if self.has_sasl and not self.mechanisms:
            object.__setattr__(self, "mechanisms", _OF_USERS)
        if self.client_auth not in ("none", "requested", "required"):
            raise ValueError(f"client_auth={self.client_auth!r} is unknown: write none, requested or required")
        for name in ("client_auth", "server_file"):
            if not self.has_tls and getattr(self, name) not in (None, "none"):
                raise ValueError(f"{name} is for TLS: write SSL or SASL_SSL instead of {self.protocol}")
        if self.max_reauth_ms < 0 or (self.max_reauth_ms and not self.has_sasl):
            raise ValueError(
                f"max_reauth_ms={self.max_reauth_ms} on {self.protocol}: write milliseconds, of a listener with SASL"
            )

    @property
    def has_tls(self) -> bool:
        """True for SSL and SASL_SSL."""
        return has_tls(self.protocol)

    @property
    def has_sasl(self) -> bool:
        """True for SASL_PLAINTEXT and SASL_SSL."""
        return has_sasl(self.protocol)


@dataclass(frozen=True)
class KerberosSettings:
    """A broker's files for GSSAPI: a KDC's krb5.conf, and a keytab with the key of its own principal."""

    krb5_conf: str | os.PathLike[str]
    keytab: str | os.PathLike[str]
    principal: str
    """``kafka/localhost@EXAMPLE.COM``: service, host and realm."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[^/@]+/[^/@]+@[^/@]+", self.principal):
            raise ValueError(f"principal={self.principal!r}: write service/host@REALM, as kafka/localhost@EXAMPLE.COM")

    @property
    def service_name(self) -> str:
        """The first part of the principal, the clients' ``sasl_kerberos_service_name``."""
        return self.principal.partition("/")[0]


class KafkaSecurity:
    """The listeners of a cluster besides PLAINTEXT, its users, and its authorization; see the module.

    ``listeners`` maps names to listeners, or is a list of protocols: ``["SSL", "SASL_SSL"]``. ``users`` maps names to
    passwords, for PLAIN and SCRAM alike. ``authorizer`` enables ACLs: then only ``super_users`` (``User:admin``) may do
    anything until ``ApacheKafka.add_acls``. OAUTHBEARER accepts unsecured tokens (``unsecured_token``) unless a
    listener's ``config`` says otherwise.
    """

    def __init__(
        self,
        listeners: Mapping[str, Listener] | Iterable[str],
        *,
        certificates: TestCertificates | None = None,
        users: Mapping[str, str] | None = None,
        authorizer: bool = False,
        super_users: Iterable[str] = (),
        gssapi: KerberosSettings | None = None,
    ) -> None:
        if not isinstance(listeners, Mapping):
            listeners = {name: Listener(name) for name in listeners}
        self.listeners: Mapping[str, Listener] = MappingProxyType(dict(listeners))
        self.certificates = certificates
        self.users: Mapping[str, str] = MappingProxyType(dict(users or {}))
        self.authorizer = authorizer
        self.super_users = tuple(super_users)
        self.gssapi = gssapi
        self._check()

    def client_options(
        self,
        listener: str,
        *,
        user: str | None = None,
        mechanism: str | None = None,
        certificate: str | os.PathLike[str] | None = None,
    ) -> dict[str, Any]:
        """The options of our client for a listener, without its address.

        ``user`` is one of ``users``; ``mechanism`` is by default the listener's first; ``certificate`` is a client's
        file. OAUTHBEARER and GSSAPI need further options.
        """
        chosen = self.listeners[listener]
        options: dict[str, object] = {}
        if chosen.has_tls and self.certificates is not None:
            options |= self.certificates.client_options(certificate)
        options["security_protocol"] = chosen.protocol
        if chosen.has_sasl:
            options["sasl_mechanism"] = mechanism or chosen.mechanisms[0]
            if user is not None:
                options |= {"sasl_username": user, "sasl_password": self.users[user]}
            if options["sasl_mechanism"] == "GSSAPI" and self.gssapi is not None:
                options["sasl_kerberos_service_name"] = self.gssapi.service_name
        return options

    def client_properties(
        self,
        listener: str,
        *,
        user: str | None = None,
        mechanism: str | None = None,
        certificate: str | os.PathLike[str] | None = None,
    ) -> dict[str, str]:
        """``client_options`` by the names of Kafka's Java clients and tools."""
        options = self.client_options(listener, user=user, mechanism=mechanism, certificate=certificate)
        name, password = options.pop("sasl_username", None), options.pop("sasl_password", None)
        properties = {option.replace("_", "."): str(value) for option, value in options.items()}
        for store in ("truststore", "keystore"):
            if f"ssl.{store}.location" in properties:
                properties[f"ssl.{store}.type"] = "PEM"
        if name is not None:
            module = "plain.PlainLoginModule" if options["sasl_mechanism"] == "PLAIN" else "scram.ScramLoginModule"
            properties["sasl.jaas.config"] = _jaas(f"{_MODULES}.{module}", username=name, password=password)
        return properties

    @staticmethod
    def unsecured_token(subject: str, *, lifetime: float = 3600.0, **claims: object) -> str:
        """An unsigned JWT, which Kafka's unsecured validator accepts; ``subject`` is the principal's name."""
        now = time.time()
        return unsecured_token({"sub": subject, "iat": now, "exp": now + lifetime} | claims)

    # for ``ApacheKafka``

    def server_properties(self, ports: Mapping[str, int], bind: str) -> dict[str, str]:
        """A broker's properties for these listeners; the three properties that list all listeners have only these."""
        properties = {
            "listeners": ",".join(f"{name}://{bind}:{ports[name]}" for name in self.listeners),
            "advertised.listeners": ",".join(
                f"{name}://{one.host}:{ports[name]}" for name, one in self.listeners.items()
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:{one.protocol}" for name, one in self.listeners.items()
            ),
        }
        if self.authorizer:
            properties["authorizer.class.name"] = _AUTHORIZER
            # Brokers and controllers connect to each other as ANONYMOUS here.
            properties["super.users"] = ";".join(dict.fromkeys((_ANONYMOUS, *self.super_users)))
        for name, listener in self.listeners.items():
            prefix = f"listener.name.{name.lower()}."
            own = self._properties_of(listener) | {key: str(value) for key, value in listener.config.items()}
            properties |= {prefix + key: value for key, value in own.items()}
        return properties

    def format_options(self) -> list[str]:
        """Options of ``kafka-storage format`` that create the SCRAM users before the first broker starts."""
        wanted = {mechanism for listener in self.listeners.values() for mechanism in listener.mechanisms}
        options = []
        for mechanism in sorted(wanted & set(_SCRAM)):
            for name, password in self.users.items():
                options += ["--add-scram", f'{mechanism}=[name="{name}",password="{password}"]']
        return options

    def jvm_options(self) -> list[str]:
        """Further options of a broker's JVM."""
        return [] if self.gssapi is None else [f"-Djava.security.krb5.conf={os.fspath(self.gssapi.krb5_conf)}"]

    # internals

    def _check(self) -> None:
        if not self.listeners:
            raise ValueError("listeners is empty: write some, such as ['SSL']")
        for name, listener in self.listeners.items():
            if name in _RESERVED:
                raise ValueError(
                    f"a listener is called {name!r}, which every broker has for itself: write another name"
                )
            if not re.fullmatch(r"[A-Z][A-Z0-9_]*", name):
                raise ValueError(
                    f"a listener is called {name!r}: write capitals, digits and underscores, as in SASL_SSL"
                )
            if listener.has_tls and self.certificates is None:
                raise ValueError(f"listener {name} speaks TLS: write certificates=TestCertificates()")
            if "GSSAPI" in listener.mechanisms and self.gssapi is None:
                raise ValueError(f"listener {name} has GSSAPI: write gssapi=KerberosSettings(...)")
            if not self.users and set(listener.mechanisms) & set(_OF_USERS):
                raise ValueError(f"listener {name} has {listener.mechanisms[0]}: write users={{'name': 'password'}}")
        for name, password in self.users.items():
            if not name or not password or set('",') & set(name + password):
                # kafka-storage has no way to write these.
                raise ValueError(f"user {name!r}: name and password need a character, but no comma or quotation mark")
            if self._has_mechanism("PLAIN") and not re.fullmatch(r"[\w.@-]+", name):
                raise ValueError(f"user {name!r}: PLAIN's file of users takes letters, digits and _ . @ - in a name")
        for principal in self.super_users:
            if not principal.startswith("User:"):
                raise ValueError(f"super user {principal!r}: write 'User:{principal}'")
        if self.super_users and not self.authorizer:
            raise ValueError("super_users mean nothing without an authorizer: write authorizer=True")

    def _has_mechanism(self, mechanism: str) -> bool:
        return any(mechanism in listener.mechanisms for listener in self.listeners.values())

    def _properties_of(self, listener: Listener) -> dict[str, str]:
        """A listener's own properties, without its prefix."""
        properties: dict[str, str] = {}
        if listener.has_tls and self.certificates is not None:
            properties |= self.certificates.server_properties(listener.server_file)
            properties["ssl.client.auth"] = listener.client_auth
        if listener.has_sasl:
            properties["sasl.enabled.mechanisms"] = ",".join(listener.mechanisms)
            if listener.max_reauth_ms:
                properties["connections.max.reauth.ms"] = str(listener.max_reauth_ms)
            for mechanism in listener.mechanisms:
                properties[f"{mechanism.lower()}.sasl.jaas.config"] = self._login_module(mechanism)
            if "GSSAPI" in listener.mechanisms and self.gssapi is not None:
                properties["sasl.kerberos.service.name"] = self.gssapi.service_name
        return properties

    def _login_module(self, mechanism: str) -> str:
        """A broker's JAAS entry for a mechanism."""
        if mechanism == "PLAIN":
            users = {f"user_{name}": password for name, password in self.users.items()}
            return _jaas(f"{_MODULES}.plain.PlainLoginModule", **users)
        if mechanism in _SCRAM:
            return _jaas(f"{_MODULES}.scram.ScramLoginModule")
        if mechanism == "OAUTHBEARER":
            module = f"{_MODULES}.oauthbearer.OAuthBearerLoginModule"
            return _jaas(module, unsecuredLoginStringClaim_sub=_BROKER)
        assert self.gssapi is not None  # checked when this object was made
        return _jaas(
            "com.sun.security.auth.module.Krb5LoginModule",
            useKeyTab="true",
            storeKey="true",
            keyTab=os.fspath(self.gssapi.keytab),
            principal=self.gssapi.principal,
        )


def reload_certificates(security: KafkaSecurity, node_id: int, address: Address) -> None:
    """Make a running broker reload the key stores and trust stores of all TLS listeners (KIP-226); blocks.

    A broker reloads the files when their unchanged paths are set again, and answers before it has reloaded them.
    """
    properties = security.server_properties(dict.fromkeys(security.listeners, 0), "")
    stores = ("ssl.keystore.location", "ssl.truststore.location")
    configs = [
        {"name": name, "config_operation": _SET, "value": value}
        for name, value in properties.items()
        if name.endswith(stores)
    ]
    resource = {"resource_type": BROKER_RESOURCE, "resource_name": str(node_id), "configs": configs}
    answer = exchange(address, ApiKey.INCREMENTAL_ALTER_CONFIGS, _PATIENCE, resources=[resource])
    for result in answer.responses:
        raise_for(result)


def shows_certificate(security: KafkaSecurity, listener: str, address: Address) -> bool:
    """True if the listener at this address presents the certificate that is in its file now; blocks."""
    file = security.listeners[listener].server_file
    if file is None and security.certificates is not None:
        file = security.certificates.server_file
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # it may be expired, or from any CA
    with socket.create_connection(address, _PATIENCE) as connection, context.wrap_socket(connection) as tls:
        shown = tls.getpeercert(binary_form=True)
    return shown is not None and ssl.DER_cert_to_PEM_cert(shown).strip() in Path(file or "").read_text()


def _jaas(module: str, **options: str) -> str:
    escaped = {name: value.replace("\\", "\\\\").replace('"', '\\"') for name, value in options.items()}
    return " ".join([module, "required", *(f'{name}="{value}"' for name, value in escaped.items())]) + ";"
