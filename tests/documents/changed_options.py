"""The options of other libraries that change when a program moves over, for the pages that list them.

The command ``migrate`` needs no such list: it asks for the advice on each option that it finds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aiokafkapy.client.options.foreign_options import IGNORED_OF_LIBRDKAFKA, LIBRDKAFKA_NAMES

__all__ = ["CHANGED", "translated_properties"]

_AIOKAFKA: Final = """
api_version loop max_batch_size partitioner sasl_kerberos_domain_name sasl_oauth_token_provider sasl_plain_password
sasl_plain_username
"""

_LIBRDKAFKA: Final = """
partitioner queuing.strategy topic.blacklist plugin.library.paths enable.ssl.certificate.verification
ssl.keystore.password ssl.sigalgs.list ssl.curves.list ssl.ca.certificate.stores ssl.providers ssl.engine.location
https.ca.location https.ca.pem sasl.kerberos.principal sasl.kerberos.keytab sasl.kerberos.kinit.cmd
sasl.oauthbearer.assertion.private.key.pem error_cb dr_cb dr_msg_cb on_delivery oauth_cb connect_cb
"""

_KAFKA_PYTHON: Final = """
api_version bootstrap_timeout_ms kafka_client metric_reporters metrics_enabled metrics_num_samples
metrics_sample_window_ms partitioner sasl_kerberos_domain_name sasl_kerberos_name
sasl_oauth_token_provider sasl_plain_password sasl_plain_username selector socks5_proxy ssl_cafile ssl_certfile
ssl_check_hostname ssl_ciphers ssl_crlfile ssl_keyfile ssl_password
"""

CHANGED: Final[Mapping[str, tuple[str, ...]]] = {
    "aiokafka": tuple(_AIOKAFKA.split()),
    "confluent-kafka": tuple(_LIBRDKAFKA.split()),
    "kafka-python": tuple(_KAFKA_PYTHON.split()),
}
"""The options that have another name here, or none, by library."""


def translated_properties() -> dict[str, str]:
    """librdkafka's options that need not be changed, and the result of ``from_properties`` for each."""
    return {name.replace("_", ".") if name not in _WITH_UNDERSCORES else name: text for name, text in _NOTES.items()}


_WITH_UNDERSCORES: Final = ("stats_cb", "throttle_cb", "log_cb", "log_level", "enabled_events")
"""Names that librdkafka does not write with dots."""
_NOTES: Final[Mapping[str, str]] = {
    **{name: f"taken, as {ours}" for name, ours in LIBRDKAFKA_NAMES.items()},
    "queue_buffering_max_kbytes": "taken, as buffer_memory, 1,024 times as much",
    "compression_level": "taken, as the level of the codec",
    **{name: f"ignored, with one warning: {reason}" for name, reason in IGNORED_OF_LIBRDKAFKA.items()},
}
