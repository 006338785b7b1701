"""The names here of other Kafka clients' options.

Owns the table from option names of aiokafka, kafka-python, librdkafka (confluent-kafka) and Kafka's Java client to the
advice for each; names have underscores for dots. Knows no configuration class: callers pass the valid options.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

__all__ = ["SECURITY_NAMES", "advice_for", "is_built_in", "with_our_names"]

# TLS and SASL options with the same meaning and the same values: ``from_properties`` takes them as they are.
SECURITY_NAMES: Final[Mapping[str, str]] = {
    "ssl_ca_location": "ssl_truststore_location",
    "ssl_ca_pem": "ssl_truststore_certificates",
    "ssl_certificate_location": "ssl_keystore_location",
    "ssl_certificate_pem": "ssl_keystore_certificate_chain",
    "ssl_key_pem": "ssl_keystore_key",
    "sasl_mechanisms": "sasl_mechanism",
    "sasl_oauthbearer_client_id": "sasl_oauthbearer_client_credentials_client_id",
    "sasl_oauthbearer_client_secret": "sasl_oauthbearer_client_credentials_client_secret",
}
_RENAMED: Final[Mapping[str, str]] = {
    "bootstrap_server": "bootstrap_servers",
    "brokers": "bootstrap_servers",
    "hosts": "bootstrap_servers",
    "metadata_broker_list": "bootstrap_servers",
    "max_batch_size": "batch_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "message_max_bytes": "max_request_size",
    "queue_buffering_max_ms": "linger_ms",
    "queue_buffering_max_messages": "buffer_records",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "request_required_acks": "acks",
    "required_acks": "acks",
    "compression": "compression_type",
    "compression_codec": "compression_type",
    "socket_timeout_ms": "request_timeout_ms",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    "partitioner_class": "partitioner",
    "partitioner_cb": "partitioner",
    "interceptor_classes": "interceptors",
    "idempotence": "enable_idempotence",
    "transaction_id": "transactional_id",
    # aiokafka's and kafka-python's names for TLS and SASL
    "sasl_kerberos_name": "sasl_kerberos_service_name",
    "connect_cb": "connector",
    "ssl_cafile": "ssl_truststore_location",
    "ssl_capath": "ssl_truststore_location",
    "ssl_cadata": "ssl_truststore_certificates",
    "ssl_certfile": "ssl_keystore_location",
    "ssl_keyfile": "ssl_key_location",
    "ssl_password": "ssl_key_password",
    "ssl_ciphers": "ssl_cipher_suites",
    "ssl_crlfile": "ssl_crl_location",
    "sasl_plain_username": "sasl_username",
    "sasl_plain_password": "sasl_password",
    "sasl_oauth_token_provider": "sasl_oauthbearer_token_provider",
    "oauth_cb": "sasl_oauthbearer_token_provider",
    **SECURITY_NAMES,
}
_VERSIONS = "versions are agreed on with each broker"
_METRICS = "producer.metrics() gives the figures"
_LOOP = "the running loop does it"
_LOGGING = "events go to logging"
_OPENSSL = "TLS is OpenSSL's, as Python has it"
_BUILT_IN: Final[Mapping[str, Container[str]]] = {
    "sasl_login_callback_handler_class": ("OAuthBearerLoginCallbackHandler", "OAuthBearerSaslLoginCallbackHandler"),
    "sasl_client_callback_handler_class": ("IAMClientCallbackHandler", "OAuthBearerSaslClientCallbackHandler"),
}
_TICKETS = "credentials come from the ticket cache, or from the keytab that KRB5_CLIENT_KTNAME names"
_MECHANISM = "sasl_mechanism and its options say it all"
_LEFT_OUT: Final[Mapping[str, str]] = {
    "loop": "the running loop is used",
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": _VERSIONS,
    "api_version_request": _VERSIONS,
    "api_version_request_timeout_ms": _VERSIONS,
    "api_version_fallback_ms": _VERSIONS,
    "broker_version_fallback": _VERSIONS,
    "bootstrap_timeout_ms": "start() waits max_block_ms for a broker",
    "kafka_client": "the producer has a client of its own",
    "selector": _LOOP,
    "socket_cb": _LOOP,
    "closesocket_cb": _LOOP,
    "open_cb": _LOOP,
    "resolve_cb": _LOOP,
    "socket_blocking_max_ms": _LOOP,
    "background_event_cb": _LOOP,
    "socket_keepalive_enable": "TCP keepalive is always on",
    "socket_nagle_disable": "TCP_NODELAY is always on",
    "socket_max_fails": "a connection is closed at its first time-out",
    "broker_address_ttl": "names are looked up for each connection",
    "reconnect_backoff_jitter_ms": "jitter is part of reconnect_backoff_ms",
    "metric_reporters": _METRICS,
    "metrics_enabled": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "metrics_recording_level": _METRICS,
    "auto_include_jmx_reporter": _METRICS,
    "statistics_interval_ms": _METRICS,
    "stats_cb": _METRICS,
    "enable_metrics_push": "client metrics are not pushed",
    "message_copy_max_bytes": "records are copied into their batch",
    "debug": f"{_LOGGING}: set the level of the logger 'aiokafkapy'",
    "log_level": f"{_LOGGING}: set the level of the logger 'aiokafkapy'",
    "logger": _LOGGING,
    "log_cb": _LOGGING,
    "log_queue": _LOGGING,
    "log_connection_close": _LOGGING,
    "error_cb": "errors are raised for their record; events go to logging",
    "throttle_cb": "throttling is kept to by itself",
    "dr_cb": "await send(), or the delivery that enqueue() gives",
    "dr_msg_cb": "await send(), or the delivery that enqueue() gives",
    "on_delivery": "await send(), or the delivery that enqueue() gives",
    "delivery_report_only_error": "await send(), or the delivery that enqueue() gives",
    "produce_offset_report": "each outcome has its offset",
    "queuing_strategy": "records of a partition are first in, first out",
    "msg_order_cmp": "records of a partition are first in, first out",
    "topic_metadata_refresh_fast_interval_ms": "retry_backoff_ms is waited between attempts",
    "topic_metadata_refresh_fast_cnt": "retry_backoff_ms is waited between attempts",
    "topic_metadata_refresh_sparse": "only topics in use are asked for",
    "client_rack": "a producer writes to leaders wherever they are",
    "plugin_library_paths": "pass objects as interceptors",
    "ssl_protocol": "ssl_enabled_protocols has the versions of TLS",
    "ssl_provider": _OPENSSL,
    "ssl_providers": _OPENSSL,
    "ssl_engine_location": _OPENSSL,
    "ssl_engine_id": _OPENSSL,
    "ssl_engine_factory_class": _OPENSSL,
    "ssl_secure_random_implementation": _OPENSSL,
    "ssl_keymanager_algorithm": _OPENSSL,
    "ssl_trustmanager_algorithm": _OPENSSL,
    "ssl_sigalgs_list": "pass an ssl_context of your own to set it",
    "ssl_curves_list": "pass an ssl_context of your own to set it",
    "ssl_certificate_verify_cb": "pass an ssl_context of your own to set it",
    "security_providers": _OPENSSL,
    "sasl_login_class": _MECHANISM,
    "sasl_kerberos_domain_name": "the brokers' host names are used",
    "sasl_kerberos_principal": _TICKETS,
    "sasl_kerberos_keytab": _TICKETS,
    "sasl_kerberos_kinit_cmd": _TICKETS,
    "sasl_kerberos_min_time_before_relogin": _TICKETS,
    "sasl_login_callback_handler_class": _MECHANISM,
    "sasl_client_callback_handler_class": _MECHANISM,
}
_VERIFICATION = "write ssl_truststore_location with the authority that signed; a check that is off protects nobody"
_ADVICE: Final[Mapping[str, str]] = {
    "batch_num_messages": "write batch_size, in bytes; records are not counted",
    "queue_buffering_max_kbytes": "write buffer_memory, in bytes (1,024 times as much)",
    "compression_level": "write compression_gzip_level, compression_lz4_level or compression_zstd_level",
    "sticky_partitioning_linger_ms": "write batch_size: the sticky partition changes after so many bytes",
    "topic_metadata_propagation_max_ms": "write max_block_ms: a call waits so long for a new topic",
    "ssl_check_hostname": 'write ssl_endpoint_identification_algorithm="" to do without, "https" otherwise',
    "enable_ssl_certificate_verification": _VERIFICATION,
    "ssl_truststore_password": "leave it out: certificates in PEM files are not encrypted",
    "ssl_keystore_password": "write ssl_key_password, where the key in the PEM file is encrypted",
    "socks5_proxy": "write proxy_url, 'socks5://host:port'",
}


def with_our_names(values: Mapping[str, object]) -> dict[str, object]:
    """The options, with librdkafka's security options renamed to ours, and without those that ``is_built_in`` names."""
    return {
        SECURITY_NAMES.get(name, name): value for name, value in values.items() if not is_built_in(name, str(value))
    }


def is_built_in(name: str, value: str) -> bool:
    """True for an option, with underscores, that names a Java class whose work is built in here."""
    return value.rpartition(".")[2] in _BUILT_IN.get(name, ())


def advice_for(name: str, options: Container[str]) -> str | None:
    """The advice for ``name``, another client's option with underscores; None if no known client has it."""
    renamed = _RENAMED.get(name)
    if renamed is not None and renamed in options:
        return f"write {renamed}"
    if name in _LEFT_OUT:
        return f"leave it out: {_LEFT_OUT[name]}"
    return _ADVICE.get(name)
