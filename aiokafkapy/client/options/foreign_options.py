"""The names here of other Kafka clients' options.

Owns the table from option names of aiokafka, kafka-python, librdkafka (confluent-kafka) and Kafka's Java client to the
advice for each; names have underscores for dots. Knows no configuration class: callers pass the valid options.
``translation`` reads properties by these tables.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Final

__all__ = [
    "IGNORED",
    "IGNORED_OF_LIBRDKAFKA",
    "IGNORED_PREFIXES",
    "LIBRDKAFKA_NAMES",
    "SECURITY_NAMES",
    "advice_for",
    "is_built_in",
]

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
# librdkafka's names of options with the same meaning, whose values are ours too but for the few in ``translation``.
LIBRDKAFKA_NAMES: Final[Mapping[str, str]] = {
    "metadata_broker_list": "bootstrap_servers",
    "message_max_bytes": "max_request_size",
    "max_in_flight": "max_in_flight_requests_per_connection",
    "queue_buffering_max_ms": "linger_ms",
    "queue_buffering_max_messages": "buffer_records",
    "queue_buffering_max_kbytes": "buffer_memory",
    "message_send_max_retries": "retries",
    "message_timeout_ms": "delivery_timeout_ms",
    "request_required_acks": "acks",
    "compression_codec": "compression_type",
    "socket_timeout_ms": "request_timeout_ms",
    "socket_send_buffer_bytes": "send_buffer_bytes",
    "socket_receive_buffer_bytes": "receive_buffer_bytes",
    "topic_metadata_refresh_interval_ms": "metadata_max_age_ms",
    "sasl_oauthbearer_assertion_jwt_template_file": "sasl_oauthbearer_assertion_template_file",
    **SECURITY_NAMES,
}
_RENAMED: Final[Mapping[str, str]] = {
    "bootstrap_server": "bootstrap_servers",
    "brokers": "bootstrap_servers",
    "hosts": "bootstrap_servers",
    "max_batch_size": "batch_size",
    "required_acks": "acks",
    "compression": "compression_type",
    "partitioner_class": "partitioner",
    "interceptor_classes": "interceptors",
    "idempotence": "enable_idempotence",
    "transaction_id": "transactional_id",
    # aiokafka's and kafka-python's names for TLS and SASL
    "sasl_kerberos_name": "sasl_kerberos_service_name",
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
    **LIBRDKAFKA_NAMES,
}
_VERSIONS = "versions are agreed on with each broker"
_METRICS = "producer.metrics() gives the figures"
_LOOP = "the running loop does it"
_LOGGING = "events go to logging"
_LEVEL = f"{_LOGGING}: set the level of the logger 'aiokafkapy'"
_BACKOFF = "retry_backoff_ms is waited between attempts"
_ONLY_THERE = "it tunes that client's own threads and queues"
_BUILT_IN: Final[Mapping[str, Container[str]]] = {
    "sasl_login_callback_handler_class": ("OAuthBearerLoginCallbackHandler", "OAuthBearerSaslLoginCallbackHandler"),
    "sasl_client_callback_handler_class": ("IAMClientCallbackHandler", "OAuthBearerSaslClientCallbackHandler"),
}

# Options without a meaning here, whose loss changes no record and no connection's security: the reason of each.
IGNORED_OF_LIBRDKAFKA: Final[Mapping[str, str]] = {
    "api_version_request": _VERSIONS,
    "api_version_request_timeout_ms": _VERSIONS,
    "api_version_fallback_ms": _VERSIONS,
    "broker_version_fallback": _VERSIONS,
    "builtin_features": "all that is built in is always there",
    "batch_num_messages": "batch_size bounds a batch, in bytes; records are not counted",
    "sticky_partitioning_linger_ms": "the sticky partition changes after batch_size bytes",
    "queue_buffering_backpressure_threshold": "batches gather while a broker is busy",
    "socket_keepalive_enable": "TCP keepalive is always on",
    "socket_nagle_disable": "TCP_NODELAY is always on",
    "socket_max_fails": "a connection is closed at its first time-out",
    "socket_blocking_max_ms": _LOOP,
    "broker_address_ttl": "names are looked up for each connection",
    "reconnect_backoff_jitter_ms": "jitter is part of reconnect_backoff_ms",
    "topic_metadata_refresh_fast_interval_ms": _BACKOFF,
    "topic_metadata_refresh_fast_cnt": _BACKOFF,
    "topic_metadata_refresh_sparse": "only topics in use are asked for",
    "topic_metadata_propagation_max_ms": "a call waits max_block_ms for a new topic",
    "statistics_interval_ms": _METRICS,
    "stats_cb": _METRICS,
    "throttle_cb": "throttling is kept to by itself",
    "message_copy_max_bytes": "records are copied into their batch",
    "debug": _LEVEL,
    "log_level": _LEVEL,
    "logger": _LOGGING,
    "log_cb": _LOGGING,
    "log_queue": _LOGGING,
    "log_thread_name": _LOGGING,
    "log_connection_close": _LOGGING,
    "delivery_report_only_error": "each record's outcome is its delivery's",
    "produce_offset_report": "each outcome has its offset",
    "client_rack": "a producer writes to leaders wherever they are",
    "client_software_name": "brokers are told this package's name",
    "client_software_version": "brokers are told this package's version",
    "enabled_events": _ONLY_THERE,
    "enable_random_seed": _ONLY_THERE,
    "internal_termination_signal": _ONLY_THERE,
    "opaque": _ONLY_THERE,
    "sasl_kerberos_min_time_before_relogin": "tickets are looked for at each authentication",
}
_IGNORED_OF_JAVA: Final[Mapping[str, str]] = {
    "metric_reporters": _METRICS,
    "metrics_num_samples": _METRICS,
    "metrics_sample_window_ms": _METRICS,
    "metrics_recording_level": _METRICS,
    "auto_include_jmx_reporter": _METRICS,
    "ssl_protocol": "ssl_enabled_protocols has the versions of TLS",
    "ssl_secure_random_implementation": "TLS is OpenSSL's, as Python has it",
    "sasl_kerberos_ticket_renew_jitter": "tickets are not renewed here",
    "sasl_kerberos_ticket_renew_window_factor": "tickets are not renewed here",
}
IGNORED: Final[Mapping[str, str]] = {**IGNORED_OF_LIBRDKAFKA, **_IGNORED_OF_JAVA}
IGNORED_PREFIXES: Final = ("go_", "dotnet_")
"""Options of the bindings to librdkafka, for their own channels."""

_OPENSSL = "TLS is OpenSSL's, as Python has it"
_OWN_CONTEXT = "pass an ssl_context of your own to set it"
_TICKETS = "credentials come from the ticket cache, or from the keytab that KRB5_CLIENT_KTNAME names"
_MECHANISM = "sasl_mechanism and its options say it all"
_OUTCOME = "await send(), or the delivery that enqueue() gives"
_IN_ORDER = "records of a partition are first in, first out"
_LEFT_OUT: Final[Mapping[str, str]] = {
    **IGNORED,
    "loop": "the running loop is used",
    "api_version": _VERSIONS,
    "api_version_auto_timeout_ms": _VERSIONS,
    "bootstrap_timeout_ms": "start() waits max_block_ms for a broker",
    "kafka_client": "the producer has a client of its own",
    "selector": _LOOP,
    "socket_cb": _LOOP,
    "closesocket_cb": _LOOP,
    "open_cb": _LOOP,
    "resolve_cb": _LOOP,
    "background_event_cb": _LOOP,
    "metrics_enabled": _METRICS,
    "error_cb": "errors are raised for their record; events go to logging",
    "dr_cb": _OUTCOME,
    "dr_msg_cb": _OUTCOME,
    "on_delivery": _OUTCOME,
    "queuing_strategy": _IN_ORDER,
    "msg_order_cmp": _IN_ORDER,
    "topic_blacklist": "a producer asks only for topics that it is given",
    "plugin_library_paths": "pass objects as interceptors",
    "security_providers": _OPENSSL,
    "ssl_provider": _OPENSSL,
    "ssl_providers": _OPENSSL,
    "ssl_engine_location": _OPENSSL,
    "ssl_engine_id": _OPENSSL,
    "ssl_engine_callback_data": _OPENSSL,
    "ssl_engine_factory_class": _OPENSSL,
    "ssl_keymanager_algorithm": _OPENSSL,
    "ssl_trustmanager_algorithm": _OPENSSL,
    "ssl_sigalgs_list": _OWN_CONTEXT,
    "ssl_curves_list": _OWN_CONTEXT,
    "ssl_certificate_verify_cb": _OWN_CONTEXT,
    "sasl_login_class": _MECHANISM,
    "sasl_login_callback_handler_class": _MECHANISM,
    "sasl_client_callback_handler_class": _MECHANISM,
    "sasl_oauthbearer_method": _MECHANISM,
    "sasl_oauthbearer_grant_type": "an assertion is sent where its options are given, else the client's credentials",
    "sasl_kerberos_domain_name": "the brokers' host names are used",
    "sasl_kerberos_principal": _TICKETS,
    "sasl_kerberos_keytab": _TICKETS,
    "sasl_kerberos_kinit_cmd": _TICKETS,
}
_VERIFICATION = "write ssl_truststore_location with the authority that signed; a check that is off protects nobody"
_PROVIDER = "write sasl_oauthbearer_token_provider, an async function that gives a token"
_AUTHORITIES = "name the authorities of the provider of tokens in the variable SSL_CERT_FILE"
_PEM = "write ssl_truststore_certificates, ssl_keystore_certificate_chain and ssl_keystore_key, as PEM text"
_ENCODING = "write a function as the serializer: lambda text: text.encode('utf-16')"
_ADVICE: Final[Mapping[str, str]] = {
    "compression_level": "write compression_gzip_level, compression_lz4_level or compression_zstd_level",
    "partitioner_cb": "write partitioner, a function (topic, key_bytes, value_bytes, key, value, cluster)",
    "connect_cb": "write connector, a function of a host and a port that gives a connected socket",
    "oauth_cb": _PROVIDER,
    "oauthbearer_token_refresh_cb": _PROVIDER,
    "enable_sasl_oauthbearer_unsecure_jwt": _PROVIDER,
    "sasl_oauthbearer_assertion_private_key_pem": "write sasl_oauthbearer_assertion_private_key_file, a PEM file",
    "https_ca_location": _AUTHORITIES,
    "https_ca_pem": _AUTHORITIES,
    "default_topic_conf": "write its options beside the others, or topics for those of single topics",
    "default_topic_config": "write its options beside the others, or topics for those of single topics",
    "test_mock_num_brokers": "use aiokafkapy.broker.DevBroker, a cluster in this process",
    "config_providers": "put the values themselves: a Java class cannot run here",
    "ssl_ca": _PEM,
    "ssl_certificate": _PEM,
    "ssl_key": _PEM,
    "ssl_ca_certificate_stores": "write ssl_truststore_location; without one, the system's authorities are trusted",
    "ssl_check_hostname": 'write ssl_endpoint_identification_algorithm="" to do without, "https" otherwise',
    "enable_ssl_certificate_verification": _VERIFICATION,
    "ssl_truststore_password": "leave it out: certificates in PEM files are not encrypted",
    "ssl_keystore_password": "write ssl_key_password, where the key in the PEM file is encrypted",
    "key_serializer_encoding": _ENCODING,
    "value_serializer_encoding": _ENCODING,
    "serializer_encoding": _ENCODING,
    "socks5_proxy": "write proxy_url, 'socks5://host:port'",
}


def is_built_in(name: str, value: str) -> bool:
    """True for an option, with underscores, that names a Java class whose work is built in here."""
    return value.rpartition(".")[2] in _BUILT_IN.get(name, ())


def advice_for(name: str, options: Container[str]) -> str | None:
    """The advice for ``name``, another client's option with underscores; None if no known client has it."""
    renamed = _RENAMED.get(name)
    if name == "queue_buffering_max_kbytes" and renamed in options:
        return f"write {renamed}, in bytes (1,024 times as much)"
    if renamed is not None and renamed in options:
        return f"write {renamed}"
    if name in _LEFT_OUT:
        return f"leave it out: {_LEFT_OUT[name]}"
    return _ADVICE.get(name)
