"""The keyword options of ``KafkaProducer(...)``, for type checkers and editors, which then find misspellings.

Owns names and types only, and is not imported at run time; ``ProducerConfig`` checks values, and has the
defaults and descriptions. A test holds the two equal. Java has no counterpart: its options are strings in a map.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypedDict

from .circuit_options import CircuitBreaker
from .option_values import CompressionName, FsyncPolicy
from .overflow_policy import OverflowPolicy
from .topic_options import TopicOptions

__all__ = ["CompressionName", "ProducerKeywords", "ProducerOptions", "SaslKeywords"]


class SaslKeywords(TypedDict, total=False):
    """The options of SASL."""

    sasl_mechanism: Any
    sasl_username: str | None
    sasl_password: str | None
    sasl_jaas_config: str | None
    sasl_kerberos_service_name: str | None
    sasl_aws_msk_iam_region: str | None
    sasl_aws_msk_iam_credentials_provider: Any
    sasl_oauthbearer_token_provider: Any
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_jwt_retriever_class: str | None
    sasl_oauthbearer_metadata_authentication_type: str | None
    sasl_oauthbearer_config: str | None
    sasl_oauthbearer_extensions: str | None
    sasl_oauthbearer_client_credentials_client_id: str | None
    sasl_oauthbearer_client_credentials_client_secret: str | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_scope_claim_name: str
    sasl_oauthbearer_sub_claim_name: str
    sasl_oauthbearer_header_urlencode: bool
    sasl_oauthbearer_assertion_algorithm: str
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    sasl_login_connect_timeout_ms: int | None
    sasl_login_read_timeout_ms: int | None
    sasl_login_retry_backoff_ms: int
    sasl_login_retry_backoff_max_ms: int
    sasl_login_refresh_window_factor: float
    sasl_login_refresh_window_jitter: float
    sasl_login_refresh_min_period_seconds: int
    sasl_login_refresh_buffer_seconds: int


class ProducerOptions(SaslKeywords, total=False):
    """Every field of ``ProducerConfig`` but those that ``KafkaProducer`` names itself."""

    # ClientConfig
    client_id: str
    client_dns_lookup: Literal["use_all_dns_ips", "resolve_canonical_bootstrap_servers_only"]
    broker_address_family: Literal["any", "v4", "v6"]
    proxy_url: str | None
    connector: Any
    socket_options: Sequence[tuple[int, int, int | bytes]]
    connections_max_idle_ms: int
    max_in_flight_requests_per_connection: int | Literal["auto"]
    receive_buffer_bytes: int
    receive_message_max_bytes: int
    send_buffer_bytes: int
    tcp_user_timeout_ms: int | None
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    socket_connection_setup_timeout_ms: int
    socket_connection_setup_timeout_max_ms: int
    request_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    metadata_max_age_ms: int
    metadata_max_idle_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int
    observers: Sequence[Any]

    # Its security
    security_protocol: str
    ssl_truststore_location: str | None
    ssl_truststore_certificates: str | None
    ssl_truststore_type: str
    ssl_keystore_location: str | None
    ssl_key_location: str | None
    ssl_keystore_certificate_chain: str | None
    ssl_keystore_key: str | None
    ssl_keystore_type: str
    ssl_key_password: str | None
    ssl_endpoint_identification_algorithm: str
    ssl_enabled_protocols: Sequence[str]
    ssl_cipher_suites: Sequence[str] | None
    ssl_crl_location: str | None
    ssl_context: Any

    # ProducerConfig
    acks: Literal["all", 0, 1]
    enable_idempotence: bool
    enable_gapless_guarantee: bool
    retries: int
    delivery_timeout_ms: int
    max_block_ms: int
    linger_ms: int | Literal["auto"] | None
    batch_size: int
    buffer_memory: int
    buffer_records: int | None
    priority_reserve_percent: int
    max_request_size: int
    overflow: OverflowPolicy
    spool_dir: str | os.PathLike[str] | None
    spool_after_ms: int | None
    spool_max_bytes: int
    spool_fsync: FsyncPolicy
    cancel_takes_back: bool
    manual_flush: bool
    topics: Mapping[str, TopicOptions]
    topic_limits: bool
    circuit_breaker: CircuitBreaker | None
    compression_type: CompressionName
    compression_gzip_level: int
    compression_lz4_level: int
    compression_zstd_level: int
    serialize_in_thread_above: int | None
    partitioner: Any
    partitioner_ignore_keys: bool
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    interceptors: Sequence[Any]
    allow_auto_create_topics: bool
    metrics_per_node: bool
    metrics_topics_max: int
    enable_metrics_push: bool
    record_timing: bool
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
    transaction_keep_prepared: bool


class ProducerKeywords(ProducerOptions, total=False):
    """All options, with the two that ``KafkaProducer`` names itself: for functions that pass them on."""

    key_serializer: Any
    value_serializer: Any
