"""The dev broker's options: Kafka's names with dots as underscores, and Kafka's defaults unless a line says why not.

Owns names, defaults and their checks; must not know any effect of an option. Kafka's counterparts are
``SocketServerConfigs``, ``ServerLogConfigs``, ``GroupCoordinatorConfig`` and ``QuotaConfig``.

Rules:

- an unknown option is an error that names the nearest known one;
- a default differs from Kafka's only where that serves a test or a laptop better, and its line says so.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self

from ..errors import ConfigurationError
from ..option_fields import checked, declarations, field_options, names_of, with_values
from ..security.sasl import defaults
from ..security.sasl.wire import MAX_RECEIVE_BYTES

if TYPE_CHECKING:
    from pydantic import BaseModel, BeforeValidator, Field
    from pydantic_core import ErrorDetails
else:
    from ..option_fields import BeforeValidator, Field
    from ..option_fields import Declared as BaseModel

__all__ = ["PRODUCER_ID_EXPIRATION_MS_DEFAULT", "BrokerConfig", "config_model"]

PRODUCER_ID_EXPIRATION_MS_DEFAULT: Final = 86_400_000
"""A day, as in Kafka: also of logs that are made without a configuration of a broker."""


def _split_list(value: object) -> object:
    """Kafka's lists are text with commas, as the command line gives them."""
    return [entry.strip() for entry in value.split(",") if entry.strip()] if isinstance(value, str) else value


def _split_super_users(value: str | Iterable[object]) -> Iterable[object]:
    users = [user.strip() for user in value.split(";") if user.strip()] if isinstance(value, str) else value
    for user in users:
        if ":" not in str(user):
            raise ValueError(f"{user!r} is not a principal: write 'User:{user}'; several with ';' between them")
    return users


class BrokerConfig(BaseModel):
    """Immutable; built by ``DevBroker(**config)`` through ``BrokerConfig.of``.

    At run time a plain class: pydantic is asked about options that are not plain (``config_model``).
    """

    # sockets and tasks, which are threads in Kafka

    num_network_threads: Annotated[int, Field(ge=1, description="Tasks that read and write, for each listener.")] = 3
    num_io_threads: Annotated[int, Field(ge=1, description="Requests that are handled at once.")] = 8
    queued_max_requests: Annotated[
        int, Field(ge=1, description="Requests that wait for a handler before reading stops.")
    ] = 500
    socket_request_max_bytes: Annotated[
        int, Field(ge=1, description="Largest request, in bytes; a larger one closes its connection.")
    ] = 104_857_600
    socket_send_buffer_bytes: Annotated[
        int,
        Field(
            ge=-1,
            description="SO_SNDBUF. -1 leaves it to the kernel, which is better on loopback; Kafka's default is "
            "102400.",
        ),
    ] = -1
    socket_receive_buffer_bytes: Annotated[int, Field(ge=-1, description="SO_RCVBUF, likewise.")] = -1
    socket_listen_backlog_size: Annotated[
        int,
        Field(
            ge=1,
            description="Connections that wait to be accepted. Kafka's default is 50; a test may open hundreds at "
            "once.",
        ),
    ] = 128
    connections_max_idle_ms: Annotated[
        int, Field(description="Milliseconds after which an idle connection is closed.")
    ] = 600_000
    max_connections: Annotated[int, Field(ge=0, description="Connections of the broker.")] = 2_147_483_647
    listener_max_connections: Annotated[
        int,
        Field(ge=0, description="Connections of each listener; in Kafka, max.connections with a listener's prefix."),
    ] = 2_147_483_647
    max_connections_per_ip: Annotated[int, Field(ge=0, description="Connections of each address.")] = 2_147_483_647
    max_connections_per_ip_overrides: Annotated[
        Mapping[str, int], Field(description="The same for single addresses, as a mapping.")
    ] = {}
    max_connection_creation_rate: Annotated[float, Field(gt=0, description="Connections accepted per second.")] = (
        2_147_483_647
    )

    # TLS, where a listener may have its own options; unlike Kafka's broker, ours has no JKS

    ssl_keystore_location: Annotated[
        str | None, Field(description="PEM file of the broker's certificate chain and key. Read again when it changes.")
    ] = None
    ssl_key_location: Annotated[
        str | None, Field(description="PEM file of the key, when it is not in that of the chain.")
    ] = None
    ssl_keystore_certificate_chain: Annotated[str | None, Field(description="The chain as PEM text.")] = None
    ssl_keystore_key: Annotated[str | None, Field(repr=False, description="The key as PEM text.")] = None
    ssl_key_password: Annotated[
        str | None, Field(repr=False, description="Password of the key, when it is encrypted.")
    ] = None
    ssl_truststore_location: Annotated[
        str | None, Field(description="PEM file, or directory of PEM files, with the CAs of client certificates.")
    ] = None
    ssl_truststore_certificates: Annotated[str | None, Field(description="The same as PEM text.")] = None
    ssl_client_auth: Annotated[
        Literal["none", "requested", "required"], Field(description="Whether clients need a certificate.")
    ] = "none"
    ssl_principal_mapping_rules: Annotated[
        str, Field(description="Kafka's rules that map a certificate's distinguished name to a principal.")
    ] = "DEFAULT"
    ssl_enabled_protocols: Annotated[
        Sequence[str], BeforeValidator(_split_list), Field(description="Versions of TLS.")
    ] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Annotated[
        Sequence[str] | None, BeforeValidator(_split_list), Field(description="Ciphers; None: OpenSSL's.")
    ] = None
    ssl_crl_location: Annotated[str | None, Field(description="PEM file of certificates that are revoked.")] = None
    ssl_endpoint_identification_algorithm: Annotated[
        str, Field(description="Has no effect: a client has no host name to check.")
    ] = ""
    ssl_context: Annotated[ssl.SSLContext | None, Field(repr=False, description="A ready context, used as it is.")] = (
        None
    )

    # SASL, where a listener may have its own options, except for the users

    sasl_users: Annotated[
        Mapping[str, str],
        Field(repr=False, description="Passwords by user, for PLAIN and SCRAM; in Kafka they are in a JAAS file."),
    ] = {}
    sasl_enabled_mechanisms: Annotated[
        Sequence[str], BeforeValidator(_split_list), Field(description="Mechanisms of SASL. Kafka's default is GSSAPI.")
    ] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
    sasl_server_max_receive_size: Annotated[
        int, Field(ge=1, description="Largest request before a client is authenticated, in bytes.")
    ] = MAX_RECEIVE_BYTES
    connections_max_reauth_ms: Annotated[
        int, Field(ge=0, description="Milliseconds after which a client has to authenticate again (KIP-368). 0: never.")
    ] = 0
    connection_failed_authentication_delay_ms: Annotated[
        int, Field(ge=0, description="Milliseconds before a refused connection is closed.")
    ] = 100
    sasl_kerberos_service_name: Annotated[
        str, Field(description="First part of the broker's Kerberos principal. Kafka has no default.")
    ] = defaults.KERBEROS_SERVICE_NAME
    sasl_kerberos_keytab: Annotated[
        str | None,
        Field(
            description="Keytab of the service, in Kafka in a JAAS file. None: that of KRB5_KTNAME, or the system's."
        ),
    ] = None
    sasl_kerberos_principal_to_local_rules: Annotated[
        Sequence[str],
        BeforeValidator(_split_list),
        Field(description="Kafka's rules that map a Kerberos principal to a user name."),
    ] = defaults.KERBEROS_RULES
    sasl_oauthbearer_jwks_endpoint_url: Annotated[
        str | None,
        Field(
            description="https:// or file:// URL of the keys that sign tokens; a file is read again when it changes. "
            "None: tokens are unsecured."
        ),
    ] = None
    sasl_oauthbearer_jwks_endpoint_refresh_ms: Annotated[
        int, Field(gt=0, description="Milliseconds after which keys from an https:// URL are asked for again.")
    ] = 3_600_000
    sasl_oauthbearer_expected_issuer: Annotated[str | None, Field(description="The iss that a token must have.")] = None
    sasl_oauthbearer_expected_audience: Annotated[str | None, Field(description="The aud that a token must have.")] = (
        None
    )
    sasl_oauthbearer_clock_skew_seconds: Annotated[
        int, Field(ge=0, description="Seconds by which the clocks of broker and issuer may differ.")
    ] = defaults.CLOCK_SKEW_SECONDS
    sasl_oauthbearer_sub_claim_name: Annotated[str, Field(description="Claim of a token that names the user.")] = (
        defaults.SUB_CLAIM_NAME
    )
    sasl_oauthbearer_scope_claim_name: Annotated[str, Field(description="Claim of a token that has its scope.")] = (
        defaults.SCOPE_CLAIM_NAME
    )

    # rights

    authorizer: Annotated[
        bool, Field(description="Check ACLs, as Kafka's StandardAuthorizer does; in Kafka, authorizer.class.name.")
    ] = False
    super_users: Annotated[
        Sequence[str],
        BeforeValidator(_split_super_users),
        Field(description="Principals that may do everything: User:alice;User:bob."),
    ] = ()
    allow_everyone_if_no_acl_found: Annotated[
        bool, Field(description="Whether a resource without an ACL is open to everyone.")
    ] = False

    # topics

    auto_create_topics_enable: Annotated[bool, Field(description="Create a topic when it is first asked for.")] = True
    delete_topic_enable: Annotated[bool, Field(description="Allow topics to be deleted.")] = True
    num_partitions: Annotated[int, Field(ge=1, description="Partitions of a topic created without a number.")] = 1
    default_replication_factor: Annotated[
        int,
        Field(
            ge=-1,
            description="Replicas of such a topic. -1: one per node, 3 at most. Kafka's default is 1.",
        ),
    ] = -1

    # logs; topic configs of the same name override these

    message_max_bytes: Annotated[int, Field(ge=0, description="Largest record batch, in bytes.")] = 1_048_588
    message_timestamp_type: Annotated[
        Literal["CreateTime", "LogAppendTime"],
        Field(description="Whose time a record has: its producer's, or the broker's."),
    ] = "CreateTime"
    message_timestamp_before_max_ms: Annotated[
        int, Field(description="Milliseconds that a timestamp may be in the past.")
    ] = 9_223_372_036_854_775_807
    message_timestamp_after_max_ms: Annotated[
        int, Field(description="Milliseconds that a timestamp may be in the future.")
    ] = 3_600_000
    compression_type: Annotated[str, Field(description="Codec of the log; 'producer' keeps them.")] = "producer"
    cleanup_policy: Annotated[str, Field(description="delete, compact, or both with a comma.")] = "delete"
    min_insync_replicas: Annotated[int, Field(ge=1, description="Replicas that must be in sync for acks=all.")] = 1
    retention_ms: Annotated[int, Field(description="Milliseconds that records are kept; -1 forever.")] = 604_800_000
    retention_bytes: Annotated[int, Field(description="Bytes that a partition keeps; -1 without limit.")] = -1
    segment_bytes: Annotated[int, Field(ge=14, description="Size of a segment, in bytes.")] = 1_073_741_824
    producer_id_expiration_ms: Annotated[
        int, Field(description="Milliseconds after which an idle producer's state is forgotten.")
    ] = PRODUCER_ID_EXPIRATION_MS_DEFAULT

    log_retention_check_interval_ms: Annotated[
        int, Field(ge=1, description="Milliseconds between checks for records past their retention.")
    ] = 300_000
    log_cleaner_backoff_ms: Annotated[
        int, Field(ge=1, description="Milliseconds between checks for topics that need compaction.")
    ] = 15_000

    # fetch

    fetch_max_bytes: Annotated[int, Field(ge=1024, description="Largest answer to a fetch, in bytes.")] = 57_671_680
    max_incremental_fetch_session_cache_slots: Annotated[
        int, Field(ge=0, description="Fetch sessions that each node keeps.")
    ] = 1_000
    broker_rack: Annotated[
        Sequence[str],
        BeforeValidator(_split_list),
        Field(description="Racks of the nodes, dealt out in turn; in Kafka each node's broker.rack."),
    ] = ()
    replica_selector_class: Annotated[
        Literal["org.apache.kafka.common.replica.RackAwareReplicaSelector"] | None,
        Field(
            description="Send consumers that name their rack to the replica in it (KIP-392). None: all read from "
            "leaders."
        ),
    ] = None

    # groups

    group_initial_rebalance_delay_ms: Annotated[
        int,
        Field(
            ge=0,
            description="Milliseconds that a new group waits for members. Kafka's default is 3000; tests must not "
            "wait.",
        ),
    ] = 0
    group_min_session_timeout_ms: Annotated[
        int, Field(description="Shortest session time-out that a member may ask for, in milliseconds.")
    ] = 6_000
    group_max_session_timeout_ms: Annotated[
        int, Field(description="Longest session time-out that a member may ask for, in milliseconds.")
    ] = 1_800_000
    group_max_size: Annotated[int, Field(description="Members of a group.")] = 2_147_483_647
    group_consumer_session_timeout_ms: Annotated[
        int, Field(ge=1, description="Session time-out of members of consumer groups (KIP-848), in milliseconds.")
    ] = 45_000
    group_consumer_heartbeat_interval_ms: Annotated[
        int,
        Field(
            ge=1,
            description="Milliseconds between heartbeats of a consumer group's member. Kafka's default is 5000; a "
            "rebalance takes some heartbeats of each member, and tests must not wait.",
        ),
    ] = 500
    group_consumer_max_size: Annotated[int, Field(ge=1, description="Members of a consumer group.")] = 2_147_483_647
    group_consumer_assignors: Annotated[
        Sequence[Literal["uniform", "range"]],
        BeforeValidator(_split_list),
        Field(
            min_length=1, description="Assignors of consumer groups; the first one is used where members prefer none."
        ),
    ] = ("uniform", "range")
    group_consumer_migration_policy: Annotated[
        Literal["bidirectional", "upgrade", "downgrade", "disabled"],
        Field(
            description="Whether a group with members may change its protocol (KIP-848): upgrade turns a classic group "
            "into a consumer group when the first member of that protocol joins; downgrade turns it back when the last "
            "one leaves."
        ),
    ] = "bidirectional"
    group_version: Annotated[
        Literal[0, 1], Field(description="Kafka's feature group.version: 0 disables consumer groups (KIP-848).")
    ] = 1
    group_share_session_timeout_ms: Annotated[
        int, Field(ge=1, description="Session time-out of members of share groups (KIP-932), in milliseconds.")
    ] = 45_000
    group_share_heartbeat_interval_ms: Annotated[
        int,
        Field(
            ge=1,
            description="Milliseconds between heartbeats of a share group's member. Kafka's default is 5000; a member "
            "hears of its partitions by a heartbeat, and tests must not wait.",
        ),
    ] = 500
    group_share_max_size: Annotated[int, Field(ge=1, description="Members of a share group.")] = 200
    group_share_max_share_sessions: Annotated[
        int, Field(ge=1, description="Members of share groups that may fetch from each node at a time.")
    ] = 2_000
    group_share_record_lock_duration_ms: Annotated[
        int,
        Field(
            ge=1,
            description="Milliseconds for which a share group's member holds the lock on a record that it does not "
            "acknowledge. Kafka accepts 15000 to 60000.",
        ),
    ] = 30_000
    group_share_delivery_count_limit: Annotated[
        int, Field(ge=1, le=10, description="Most deliveries of a record to a share group.")
    ] = 5
    group_share_partition_max_record_locks: Annotated[
        int,
        Field(
            ge=1,
            le=10_000,
            description="Most records of a partition that a share group may have in flight.",
        ),
    ] = 2_000
    share_version: Annotated[
        Literal[0, 1],
        Field(
            description="Kafka's feature share.version: 0 disables share groups (KIP-932), as Kafka 4.1 does by "
            "default."
        ),
    ] = 1
    transaction_max_timeout_ms: Annotated[
        int, Field(ge=1, description="Longest time-out of a transaction, in milliseconds, that a producer may ask for.")
    ] = 900_000
    transaction_version: Annotated[
        Literal[1, 2],
        Field(description="Version of transactions that producers use (KIP-890): Kafka's feature transaction.version."),
    ] = 2
    transaction_two_phase_commit_enable: Annotated[
        bool, Field(description="Whether producers may prepare transactions, which then have no time-out (KIP-939).")
    ] = False
    offset_metadata_max_bytes: Annotated[
        int, Field(description="Largest metadata of a committed offset, in bytes.")
    ] = 4_096
    offsets_retention_minutes: Annotated[int, Field(description="Minutes that offsets of an empty group are kept.")] = (
        10_080
    )

    # quotas; None means unlimited, rates are per client id, request_percentage is of one event loop

    producer_byte_rate: Annotated[
        float | None, Field(gt=0, description="Bytes per second that each client id may produce. None: no quota.")
    ] = None
    consumer_byte_rate: Annotated[
        float | None, Field(gt=0, description="Bytes per second that each client id may fetch. None: no quota.")
    ] = None
    request_percentage: Annotated[
        float | None, Field(gt=0, description="Per cent of the event loop that each client id may use. None: no quota.")
    ] = None
    quota_window_num: Annotated[int, Field(ge=2, description="Windows that a quota's rate is measured over.")] = 11
    quota_window_size_seconds: Annotated[int, Field(ge=1, description="Length of each window, in seconds.")] = 1

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: object) -> None:
            vars(self).update(vars(self.of(**options)))

    @classmethod
    def of(cls, **options: object) -> Self:
        """The configuration for these options; ConfigurationError, naming the nearest option, when one is unknown."""
        known = names_of(cls)
        for name in options:
            if name not in known:
                raise ConfigurationError(f"unknown broker option {name!r}{_did_you_mean(name, known)}")
        values = checked(cls, options)
        return with_values(cls, _by_pydantic(options) if values is None else values)

    def altered(self, **options: object) -> Self:
        """The configuration with these options changed. Raises ConfigurationError."""
        return self.of(**{name: getattr(self, name) for name in self.model_fields_set} | options)

    @classmethod
    def is_secret(cls, name: str) -> bool:
        """Whether an option's value is a secret."""
        return not field_options(cls, name).get("repr", True)

    def __iter__(self) -> Iterator[tuple[str, Any]]:  # type: ignore[override]  # as a model's
        return ((name, getattr(self, name)) for name in names_of(type(self)))


@cache
def config_model() -> type[BaseModel]:
    """The declaration of ``BrokerConfig``, as a model of pydantic."""
    import pydantic

    class BrokerConfigModel(pydantic.BaseModel):
        """The options of a broker."""

        model_config = pydantic.ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
        vars().update(declarations(BrokerConfig, methods=False))

    return BrokerConfigModel


def _by_pydantic(options: dict[str, object]) -> dict[str, object]:
    from pydantic import ValidationError

    try:
        model = config_model()(**options)
    except ValidationError as error:
        raise ConfigurationError("; ".join(map(_readable, error.errors()))) from None
    return {name: getattr(model, name) for name in model.model_fields_set}


def _did_you_mean(name: str, known: list[str]) -> str:
    import difflib

    nearest = difflib.get_close_matches(name.replace(".", "_"), known, n=1)
    return f"; did you mean {nearest[0]!r}?" if nearest else ""


def _readable(error: ErrorDetails) -> str:
    is_secret = BrokerConfig.is_secret(str(error["loc"][0]))
    given = "" if is_secret else f" (got {error['input']!r})"
    return f"{'.'.join(map(str, error['loc']))}: {error['msg']}{given}"
