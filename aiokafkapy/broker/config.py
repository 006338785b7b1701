"""The dev broker's options: Kafka's names with dots as underscores, and Kafka's defaults unless a line says why not.

Owns names, defaults and their checks; must not know any effect of an option. Kafka's counterparts are
``SocketServerConfigs``, ``ServerLogConfigs``, ``GroupCoordinatorConfig`` and ``QuotaConfig``.

Rules:

- an unknown option is an error that names the nearest known one;
- a default differs from Kafka's only where that serves a test or a laptop better, and its line says so.
"""

from __future__ import annotations

import difflib
import ssl
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator
from pydantic_core import ErrorDetails

from ..errors import ConfigurationError

__all__ = ["BrokerConfig"]


class BrokerConfig(BaseModel):
    """Immutable; built by ``DevBroker(**config)`` through ``BrokerConfig.of``."""

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    # Sockets and threads (here: tasks)
    num_network_threads: int = Field(default=3, ge=1, description="Tasks that read and write, for each listener.")
    num_io_threads: int = Field(default=8, ge=1, description="Requests that are handled at once.")
    queued_max_requests: int = Field(
        default=500, ge=1, description="Requests that wait for a handler before reading stops."
    )
    socket_request_max_bytes: int = Field(
        default=104_857_600, ge=1, description="Largest request, in bytes; a larger one closes its connection."
    )
    socket_send_buffer_bytes: int = Field(
        default=-1,
        ge=-1,
        description="SO_SNDBUF. -1 leaves it to the kernel, which is better on loopback; Kafka's default is 102400.",
    )
    socket_receive_buffer_bytes: int = Field(default=-1, ge=-1, description="SO_RCVBUF, likewise.")
    socket_listen_backlog_size: int = Field(
        default=128,
        ge=1,
        description="Connections that wait to be accepted. Kafka's default is 50; a test may open hundreds at once.",
    )
    connections_max_idle_ms: int = Field(
        default=600_000, description="Milliseconds after which an idle connection is closed."
    )
    max_connections: int = Field(default=2_147_483_647, ge=0, description="Connections of the broker.")
    listener_max_connections: int = Field(
        default=2_147_483_647,
        ge=0,
        description="Connections of each listener; in Kafka, max.connections with a listener's prefix.",
    )
    max_connections_per_ip: int = Field(default=2_147_483_647, ge=0, description="Connections of each address.")
    max_connections_per_ip_overrides: Mapping[str, int] = Field(
        default_factory=dict, description="The same for single addresses, as a mapping."
    )
    max_connection_creation_rate: float = Field(
        default=2_147_483_647, gt=0, description="Connections accepted per second."
    )

    # TLS; a listener may have its own of these. Unlike Kafka's broker, ours has no JKS.
    ssl_keystore_location: str | None = Field(
        default=None, description="PEM file of the broker's certificate chain and key. Read again when it changes."
    )
    ssl_key_location: str | None = Field(
        default=None, description="PEM file of the key, when it is not in that of the chain."
    )
    ssl_keystore_certificate_chain: str | None = Field(default=None, description="The chain as PEM text.")
    ssl_keystore_key: str | None = Field(default=None, repr=False, description="The key as PEM text.")
    ssl_key_password: str | None = Field(
        default=None, repr=False, description="Password of the key, when it is encrypted."
    )
    ssl_truststore_location: str | None = Field(
        default=None, description="PEM file, or directory of such, of the authorities of clients' certificates."
    )
    ssl_truststore_certificates: str | None = Field(default=None, description="The same as PEM text.")
    ssl_client_auth: Literal["none", "requested", "required"] = Field(
        default="none", description="Whether clients need a certificate."
    )
    ssl_principal_mapping_rules: str = Field(
        default="DEFAULT", description="Kafka's rules that make a user's name of a certificate's."
    )
    ssl_enabled_protocols: Sequence[str] = Field(default=("TLSv1.2", "TLSv1.3"), description="Versions of TLS.")
    ssl_cipher_suites: Sequence[str] | None = Field(default=None, description="Ciphers; None: OpenSSL's.")
    ssl_crl_location: str | None = Field(default=None, description="PEM file of certificates that are revoked.")
    ssl_endpoint_identification_algorithm: str = Field(
        default="", description="Has no effect: a client has no host name to check."
    )
    ssl_context: ssl.SSLContext | None = Field(default=None, repr=False, description="A ready context, used as it is.")

    # SASL; of these too a listener may have its own, but for the users
    sasl_users: Mapping[str, str] = Field(
        default_factory=dict,
        repr=False,
        description="Passwords by user, for PLAIN and SCRAM; in Kafka they are in a JAAS file.",
    )
    sasl_enabled_mechanisms: Sequence[str] = Field(
        default=("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"),
        description="Mechanisms of SASL. Kafka's default is GSSAPI.",
    )
    sasl_server_max_receive_size: int = Field(
        default=524_288, ge=1, description="Largest request before a client is authenticated, in bytes."
    )
    connections_max_reauth_ms: int = Field(
        default=0, ge=0, description="Milliseconds after which a client has to authenticate again (KIP-368). 0: never."
    )
    connection_failed_authentication_delay_ms: int = Field(
        default=100, ge=0, description="Milliseconds before a refused connection is closed."
    )
    sasl_kerberos_service_name: str = Field(
        default="kafka", description="First part of the broker's Kerberos principal. Kafka has no default."
    )
    sasl_kerberos_keytab: str | None = Field(
        default=None,
        description="Keytab of the service, in Kafka in a JAAS file. None: that of KRB5_KTNAME, or the system's.",
    )
    sasl_kerberos_principal_to_local_rules: Sequence[str] = Field(
        default=("DEFAULT",), description="Kafka's rules that make a user's name of a Kerberos principal."
    )
    sasl_oauthbearer_jwks_endpoint_url: str | None = Field(
        default=None,
        description="https:// or file:// URL of the keys that sign tokens; a file is read again when it changes. "
        "None: tokens are unsecured.",
    )
    sasl_oauthbearer_jwks_endpoint_refresh_ms: int = Field(
        default=3_600_000, gt=0, description="Milliseconds after which keys from an https:// URL are asked for again."
    )
    sasl_oauthbearer_expected_issuer: str | None = Field(default=None, description="The iss that a token must have.")
    sasl_oauthbearer_expected_audience: str | None = Field(default=None, description="The aud that a token must have.")
    sasl_oauthbearer_clock_skew_seconds: int = Field(
        default=30, ge=0, description="Seconds by which the clocks of broker and issuer may differ."
    )
    sasl_oauthbearer_sub_claim_name: str = Field(default="sub", description="Claim of a token that names the user.")
    sasl_oauthbearer_scope_claim_name: str = Field(default="scope", description="Claim of a token that has its scope.")

    # Rights
    authorizer: bool = Field(
        default=False, description="Check ACLs, as Kafka's StandardAuthorizer does; in Kafka, authorizer.class.name."
    )
    super_users: Sequence[str] = Field(
        default=(), description="Principals that may do everything: User:alice;User:bob."
    )
    allow_everyone_if_no_acl_found: bool = Field(
        default=False, description="Whether a resource without an ACL is open to everyone."
    )

    # Topics
    auto_create_topics_enable: bool = Field(default=True, description="Create a topic when it is first asked for.")
    delete_topic_enable: bool = Field(default=True, description="Allow topics to be deleted.")
    num_partitions: int = Field(default=1, ge=1, description="Partitions of a topic whose creator does not say.")
    default_replication_factor: int = Field(
        default=-1,
        ge=-1,
        description="Replicas likewise. -1 is every node, since replicas cost nothing here; Kafka's default is 1.",
    )

    # Logs (topic configs of the same name override these)
    message_max_bytes: int = Field(default=1_048_588, ge=0, description="Largest record batch, in bytes.")
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = Field(
        default="CreateTime", description="Whose time a record has: its producer's, or the broker's."
    )
    message_timestamp_before_max_ms: int = Field(
        default=9_223_372_036_854_775_807, description="Milliseconds that a timestamp may be in the past."
    )
    message_timestamp_after_max_ms: int = Field(
        default=3_600_000, description="Milliseconds that a timestamp may be in the future."
    )
    compression_type: str = Field(default="producer", description="Codec of the log; 'producer' keeps them.")
    cleanup_policy: str = Field(default="delete", description="delete, compact, or both with a comma.")
    min_insync_replicas: int = Field(default=1, ge=1, description="Replicas that must be in sync for acks=all.")
    retention_ms: int = Field(default=604_800_000, description="Milliseconds that records are kept; -1 for ever.")
    retention_bytes: int = Field(default=-1, description="Bytes that a partition keeps; -1 without limit.")
    segment_bytes: int = Field(default=1_073_741_824, ge=14, description="Size of a segment, in bytes.")
    producer_id_expiration_ms: int = Field(
        default=86_400_000, description="Milliseconds after which an idle producer's state is forgotten."
    )

    log_retention_check_interval_ms: int = Field(
        default=300_000, ge=1, description="Milliseconds between looks for records that are kept no longer."
    )
    log_cleaner_backoff_ms: int = Field(
        default=15_000, ge=1, description="Milliseconds between looks for compacted topics that have grown enough."
    )

    # Fetch
    fetch_max_bytes: int = Field(default=57_671_680, ge=1024, description="Largest answer to a fetch, in bytes.")
    max_incremental_fetch_session_cache_slots: int = Field(
        default=1_000, ge=0, description="Fetch sessions that each node keeps."
    )
    broker_rack: Sequence[str] = Field(
        default=(), description="Racks of the nodes, dealt out in turn; in Kafka each node's broker.rack."
    )
    replica_selector_class: Literal["org.apache.kafka.common.replica.RackAwareReplicaSelector"] | None = Field(
        default=None,
        description="Send consumers that name their rack to the replica in it (KIP-392). None: all read from leaders.",
    )

    # Groups
    group_initial_rebalance_delay_ms: int = Field(
        default=0,
        ge=0,
        description="Milliseconds that a new group waits for members. Kafka's default is 3000; tests must not wait.",
    )
    group_min_session_timeout_ms: int = Field(
        default=6_000, description="Shortest session time-out that a member may ask for, in milliseconds."
    )
    group_max_session_timeout_ms: int = Field(
        default=1_800_000, description="Longest session time-out that a member may ask for, in milliseconds."
    )
    group_max_size: int = Field(default=2_147_483_647, description="Members of a group.")
    group_consumer_session_timeout_ms: int = Field(
        default=45_000, ge=1, description="Session time-out of members of consumer groups (KIP-848), in milliseconds."
    )
    group_consumer_heartbeat_interval_ms: int = Field(
        default=500,
        ge=1,
        description="Milliseconds between heartbeats of a consumer group's member. Kafka's default is 5000; a "
        "rebalance takes some heartbeats of each member, and tests must not wait.",
    )
    group_consumer_max_size: int = Field(default=2_147_483_647, ge=1, description="Members of a consumer group.")
    group_consumer_assignors: Sequence[Literal["uniform", "range"]] = Field(
        default=("uniform", "range"),
        min_length=1,
        description="Assignors of consumer groups; the first one is used where members prefer none.",
    )
    group_version: Literal[0, 1] = Field(
        default=1, description="Kafka's feature group.version: 0 takes consumer groups (KIP-848) away."
    )
    group_share_session_timeout_ms: int = Field(
        default=45_000, ge=1, description="Session time-out of members of share groups (KIP-932), in milliseconds."
    )
    group_share_heartbeat_interval_ms: int = Field(
        default=500,
        ge=1,
        description="Milliseconds between heartbeats of a share group's member. Kafka's default is 5000; a member "
        "hears of its partitions by a heartbeat, and tests must not wait.",
    )
    group_share_max_size: int = Field(default=200, ge=1, description="Members of a share group.")
    group_share_max_share_sessions: int = Field(
        default=2_000, ge=1, description="Members of share groups that may fetch from each node at a time."
    )
    group_share_record_lock_duration_ms: int = Field(
        default=30_000,
        ge=1,
        description="Milliseconds that a record is with a member of a share group that does not acknowledge it. Kafka "
        "takes 15000 to 60000.",
    )
    group_share_delivery_count_limit: int = Field(
        default=5, ge=1, le=10, description="How often a record is delivered to a share group at most."
    )
    group_share_partition_max_record_locks: int = Field(
        default=2_000,
        ge=1,
        le=10_000,
        description="Records of a partition that are in flight in a share group, when no more are begun.",
    )
    share_version: Literal[0, 1] = Field(
        default=1,
        description="Kafka's feature share.version: 0 takes share groups (KIP-932) away, as Kafka 4.1 does until they "
        "are asked for.",
    )
    transaction_max_timeout_ms: int = Field(
        default=900_000,
        ge=1,
        description="Longest time-out of a transaction, in milliseconds, that a producer may ask for.",
    )
    transaction_version: Literal[1, 2] = Field(
        default=2,
        description="Version of transactions that producers use (KIP-890): Kafka's feature transaction.version.",
    )
    transaction_two_phase_commit_enable: bool = Field(
        default=False,
        description="Whether producers may prepare transactions, which then have no time-out (KIP-939).",
    )
    offset_metadata_max_bytes: int = Field(
        default=4_096, description="Largest metadata of a committed offset, in bytes."
    )
    offsets_retention_minutes: int = Field(
        default=10_080, description="Minutes that offsets of an empty group are kept."
    )

    # Quotas; None means unlimited. Rates are per client id, request_percentage is of one event loop.
    producer_byte_rate: float | None = Field(
        default=None, gt=0, description="Bytes per second that each client id may produce. None: no quota."
    )
    consumer_byte_rate: float | None = Field(
        default=None, gt=0, description="Bytes per second that each client id may fetch. None: no quota."
    )
    request_percentage: float | None = Field(
        default=None, gt=0, description="Per cent of the event loop that each client id may use. None: no quota."
    )
    quota_window_num: int = Field(default=11, ge=2, description="Windows that a quota's rate is measured over.")
    quota_window_size_seconds: int = Field(default=1, ge=1, description="Seconds of each of them.")

    @field_validator(
        "sasl_enabled_mechanisms",
        "ssl_enabled_protocols",
        "ssl_cipher_suites",
        "sasl_kerberos_principal_to_local_rules",
        "group_consumer_assignors",
        "broker_rack",
        mode="before",
    )
    @classmethod
    def _split_list(cls, value: object) -> Any:
        """Kafka's lists are text with commas, as the command line gives them."""
        return [entry.strip() for entry in value.split(",") if entry.strip()] if isinstance(value, str) else value

    @field_validator("super_users", mode="before")
    @classmethod
    def _split_super_users(cls, value: Any) -> Any:
        users = [user.strip() for user in value.split(";") if user.strip()] if isinstance(value, str) else value
        for user in users:
            if ":" not in str(user):
                raise ValueError(f"{user!r} is no principal: write 'User:{user}'; several with ';' between them")
        return users

    @classmethod
    def of(cls, **options: Any) -> Self:
        """The configuration for these options; ConfigurationError, naming the nearest option, when one is unknown."""
        for name in options:
            if name not in cls.model_fields:
                raise ConfigurationError(f"unknown broker option {name!r}{_did_you_mean(name, list(cls.model_fields))}")
        try:
            return cls(**options)
        except ValidationError as error:
            raise ConfigurationError("; ".join(map(_readable, error.errors()))) from None

    def altered(self, **options: object) -> Self:
        """The configuration with these options changed. Raises ConfigurationError."""
        return self.of(**{name: getattr(self, name) for name in self.model_fields_set} | options)

    @classmethod
    def is_secret(cls, name: str) -> bool:
        """Whether an option's value may be shown to nobody."""
        return not cls.model_fields[name].repr


def _did_you_mean(name: str, known: list[str]) -> str:
    nearest = difflib.get_close_matches(name.replace(".", "_"), known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _readable(error: ErrorDetails) -> str:
    is_secret = BrokerConfig.is_secret(str(error["loc"][0]))
    given = "" if is_secret else f" (got {error['input']!r})"
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}{given}"
