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
    num_network_threads: int = Field(default=3, ge=1)
    num_io_threads: int = Field(default=8, ge=1)
    queued_max_requests: int = Field(default=500, ge=1)
    socket_request_max_bytes: int = Field(default=104_857_600, ge=1)
    socket_send_buffer_bytes: int = Field(
        default=-1, ge=-1
    )  # Kafka: 102400; -1 leaves it to the kernel, better on loopback
    socket_receive_buffer_bytes: int = Field(default=-1, ge=-1)
    socket_listen_backlog_size: int = Field(
        default=128, ge=1
    )  # Kafka: 50; a test that opens hundreds at once is not refused
    connections_max_idle_ms: int = 600_000
    max_connections: int = Field(default=2_147_483_647, ge=0)
    listener_max_connections: int = Field(default=2_147_483_647, ge=0)  # Kafka: max.connections with a listener prefix
    max_connections_per_ip: int = Field(default=2_147_483_647, ge=0)
    max_connections_per_ip_overrides: Mapping[str, int] = Field(default_factory=dict)
    max_connection_creation_rate: float = Field(default=2_147_483_647, gt=0)

    # TLS; a listener may have its own of these. Unlike Kafka's broker, ours has no JKS.
    ssl_keystore_location: str | None = None
    ssl_key_location: str | None = None
    ssl_keystore_certificate_chain: str | None = None
    ssl_keystore_key: str | None = Field(default=None, repr=False)
    ssl_key_password: str | None = Field(default=None, repr=False)
    ssl_truststore_location: str | None = None
    ssl_truststore_certificates: str | None = None
    ssl_client_auth: Literal["none", "requested", "required"] = "none"
    ssl_principal_mapping_rules: str = "DEFAULT"
    ssl_enabled_protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3")
    ssl_cipher_suites: Sequence[str] | None = None
    ssl_crl_location: str | None = None
    ssl_endpoint_identification_algorithm: str = ""  # a client's affair; who connects to us has no host name to check
    ssl_context: ssl.SSLContext | None = Field(default=None, repr=False)

    # SASL; of these too a listener may have its own, but for the users
    sasl_users: Mapping[str, str] = Field(default_factory=dict, repr=False)  # Kafka: in a JAAS file, per mechanism
    sasl_enabled_mechanisms: Sequence[str] = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")  # Kafka: GSSAPI
    sasl_server_max_receive_size: int = Field(default=524_288, ge=1)
    connections_max_reauth_ms: int = Field(default=0, ge=0)
    connection_failed_authentication_delay_ms: int = Field(default=100, ge=0)
    sasl_kerberos_service_name: str = "kafka"  # Kafka: none; its brokers must be told
    sasl_kerberos_keytab: str | None = None  # Kafka: keyTab in a JAAS file; None: KRB5_KTNAME's, or the system's
    sasl_oauthbearer_jwks_endpoint_url: str | None = None  # a file:// URL; None: unsecured tokens are believed
    sasl_oauthbearer_expected_issuer: str | None = None
    sasl_oauthbearer_expected_audience: str | None = None
    sasl_oauthbearer_clock_skew_seconds: int = Field(default=30, ge=0)
    sasl_oauthbearer_sub_claim_name: str = "sub"
    sasl_oauthbearer_scope_claim_name: str = "scope"

    # Rights
    authorizer: bool = False  # Kafka: authorizer.class.name; there is one here, its StandardAuthorizer
    super_users: Sequence[str] = ()
    allow_everyone_if_no_acl_found: bool = False

    # Topics
    auto_create_topics_enable: bool = True
    delete_topic_enable: bool = True
    num_partitions: int = Field(default=1, ge=1)
    default_replication_factor: int = Field(
        default=-1, ge=-1
    )  # Kafka: 1; -1 here means every node: replicas cost nothing

    # Logs (topic configs of the same name override these)
    message_max_bytes: int = Field(default=1_048_588, ge=0)
    message_timestamp_type: Literal["CreateTime", "LogAppendTime"] = "CreateTime"
    message_timestamp_before_max_ms: int = 9_223_372_036_854_775_807
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    cleanup_policy: str = "delete"
    min_insync_replicas: int = Field(default=1, ge=1)
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    segment_bytes: int = Field(default=1_073_741_824, ge=14)
    producer_id_expiration_ms: int = 86_400_000

    # Fetch
    fetch_max_bytes: int = Field(default=57_671_680, ge=1024)
    max_incremental_fetch_session_cache_slots: int = Field(default=1_000, ge=0)

    # Groups
    group_initial_rebalance_delay_ms: int = Field(default=0, ge=0)  # Kafka: 3000; here the first poll must not wait
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_minutes: int = 10_080

    # Quotas; None means unlimited. Rates are per client id, request_percentage is of one event loop.
    producer_byte_rate: float | None = Field(default=None, gt=0)
    consumer_byte_rate: float | None = Field(default=None, gt=0)
    request_percentage: float | None = Field(default=None, gt=0)
    quota_window_num: int = Field(default=11, ge=2)
    quota_window_size_seconds: int = Field(default=1, ge=1)

    @field_validator("sasl_enabled_mechanisms", "ssl_enabled_protocols", "ssl_cipher_suites", mode="before")
    @classmethod
    def _split_list(cls, value: Any) -> Any:
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

    def altered(self, **options: Any) -> Self:
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
