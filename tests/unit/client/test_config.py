from __future__ import annotations

import pickle
import re
import ssl
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import aiokafkapy
from aiokafkapy import KafkaProducer
from aiokafkapy.admin.topics import TopicAdmin
from aiokafkapy.client.config import ClientConfig, is_switch
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.integrations.schema_registry.client import SchemaRegistryClient
from aiokafkapy.producer.config import ProducerConfig
from aiokafkapy.reader.config import ReaderConfig
from aiokafkapy.reader.partition_reader import PartitionReader
from aiokafkapy.testing import TestCertificates


class SubConfig(ClientConfig):
    linger_ms: int = 5
    enable_idempotence: bool = True
    sasl_password: str | None = None


def refused(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        SubConfig(**({"bootstrap_servers": "h:1"} | options))
    assert raised.value.__cause__ is None
    return str(raised.value)


def test_the_defaults_are_kafkas() -> None:
    """The exceptions are ``connections_max_idle_ms`` and ``client_id``, as the module says."""
    config = ClientConfig(bootstrap_servers="h")
    options = config.model_dump(exclude={"bootstrap_servers", "client_id", "tcp_user_timeout_ms"})
    assert {name: value for name, value in options.items() if not name.startswith(("ssl_", "sasl_"))} == {
        "client_dns_lookup": "use_all_dns_ips",
        "security_protocol": "PLAINTEXT",
        "broker_address_family": "any",
        "proxy_url": None,
        "connector": None,
        "socket_options": (),
        "connections_max_idle_ms": 180_000,
        "max_in_flight_requests_per_connection": 5,
        "receive_buffer_bytes": 32_768,
        "receive_message_max_bytes": 104_857_600,
        "send_buffer_bytes": 131_072,
        "reconnect_backoff_ms": 50,
        "reconnect_backoff_max_ms": 1_000,
        "socket_connection_setup_timeout_ms": 10_000,
        "socket_connection_setup_timeout_max_ms": 30_000,
        "request_timeout_ms": 30_000,
        "retry_backoff_ms": 100,
        "retry_backoff_max_ms": 1_000,
        "metadata_max_age_ms": 300_000,
        "metadata_max_idle_ms": 300_000,
        "metadata_recovery_strategy": "rebootstrap",
        "metadata_recovery_rebootstrap_trigger_ms": 300_000,
        "observers": (),
    }


@pytest.mark.parametrize("servers", ["a:1,b:2", " a:1 , b:2,", ["a:1", "b:2"], ("a:1,b:2",)])
def test_bootstrap_servers_in_any_form(servers: Any) -> None:
    assert ClientConfig(bootstrap_servers=servers).bootstrap_addresses == [("a", 1), ("b", 2)]


def test_a_configuration_does_not_change() -> None:
    config = ClientConfig(bootstrap_servers="h")
    with pytest.raises(Exception, match="frozen"):
        config.request_timeout_ms = 1


class TestMessages:
    def test_bootstrap_servers_are_needed(self) -> None:
        with pytest.raises(ConfigurationError, match="bootstrap_servers is missing"):
            ClientConfig()  # type: ignore[call-arg]

    @pytest.mark.parametrize("servers", ["", "h:x", "kafka://h:1", "h:99999", [], 5])
    def test_servers_that_cannot_be_read(self, servers: Any) -> None:
        assert "bootstrap_servers" in refused(bootstrap_servers=servers)

    def test_servers_of_a_wrong_type_are_one_error(self) -> None:
        message = "bootstrap_servers=5: write 'host:port', 'host1:port1,host2:port2', or a list of such"
        assert refused(bootstrap_servers=5) == message

    def test_a_misspelt_option_names_the_nearest(self) -> None:
        assert (
            refused(request_timeout_mss=1)
            == "unknown option 'request_timeout_mss': did you mean request_timeout_ms or tcp_user_timeout_ms?"
        )

    def test_every_unknown_option_is_named(self) -> None:
        message = refused(linger_mss=1, zzzzz=2)
        assert "did you mean linger_ms?" in message
        assert "'zzzzz': there is no such option; help(SubConfig) lists all" in message

    def test_no_more_than_three_names_are_suggested(self) -> None:
        message = refused(reconnect_backof_ms=1)
        assert "did you mean reconnect_backoff_ms, reconnect_backoff_max_ms or retry_backoff_ms?" in message

    @pytest.mark.parametrize("client_id", ["a\ud800", "x" * 40_000])
    def test_a_client_id_that_no_request_can_carry_is_refused(self, client_id: str) -> None:
        message = refused(client_id=client_id)
        assert message.startswith("client_id=")
        assert len(message) < 300

    @pytest.mark.parametrize("servers", ["a\0b:1", "a b:1", "\ud800:1", "a..b:1", "x" * 64 + ":1"])
    def test_a_host_that_cannot_be_looked_up_is_refused(self, servers: str) -> None:
        assert refused(bootstrap_servers=servers).startswith("bootstrap_servers: cannot read ")

    def test_no_time_of_idleness_at_all_is_refused(self) -> None:
        assert "write -1 for never, or at least 1" in refused(connections_max_idle_ms=0)

    @pytest.mark.parametrize(
        ("option", "advice"),
        [
            ("brokers", "write bootstrap_servers"),
            ("api_version", "leave it out"),
            ("max_in_flight", "write max_in_flight_requests_per_connection"),
        ],
    )
    def test_options_of_other_clients_are_translated(self, option: str, advice: str) -> None:
        assert advice in refused(**{option: 1})

    def test_kafkas_own_spelling_as_a_keyword(self) -> None:
        message = refused(**{"request.timeout.ms": 1})
        assert "write request_timeout_ms, or use SubConfig.from_properties" in message

    def test_a_value_out_of_range_is_shown_with_the_limit(self) -> None:
        assert refused(metadata_max_idle_ms=1) == "metadata_max_idle_ms=1 is out of range: write at least 5000"

    def test_a_value_of_another_type_is_answered_with_the_form_to_write(self) -> None:
        assert refused(client_id=5) == "client_id=5 (int) is not a string: write it in quotes"
        maybe = refused(enable_idempotence="maybe")
        assert maybe == "enable_idempotence='maybe' is unknown: write True or False"

    @pytest.mark.parametrize(
        ("value", "advice"), [("5", "write request_timeout_ms=5"), (5.5, "write request_timeout_ms=5")]
    )
    def test_keyword_arguments_must_have_the_right_type(self, value: Any, advice: str) -> None:
        assert advice in refused(request_timeout_ms=value)
        assert "in milliseconds" in refused(request_timeout_ms="5s")

    def test_a_bool_is_not_a_number(self) -> None:
        assert refused(request_timeout_ms=True) == "request_timeout_ms=True: a number is needed, not a bool"

    def test_a_choice_lists_the_choices(self) -> None:
        assert "'use_all_dns_ips' or" in refused(client_dns_lookup="some")

    def test_the_error_for_contradicting_options_has_the_remedy(self) -> None:
        message = refused(retry_backoff_ms=500, retry_backoff_max_ms=200)
        assert (
            message == "retry_backoff_ms=500 is over retry_backoff_max_ms=200: write retry_backoff_max_ms=500 or more"
        )

    def test_metadata_is_not_asked_for_without_a_pause(self) -> None:
        message = refused(metadata_max_age_ms=0, retry_backoff_ms=0)
        assert message.endswith("without a pause, for ever: write at least 1 for one of the two")
        assert SubConfig(bootstrap_servers="h", metadata_max_age_ms=0).metadata_max_age_ms == 0

    def test_several_problems_come_at_once(self) -> None:
        message = refused(request_timeout_ms=0, metadata_max_idle_ms=0)
        assert "request_timeout_ms=0" in message
        assert "metadata_max_idle_ms=0" in message

    def test_no_secret_is_shown(self) -> None:
        assert "hunter2" not in refused(sasl_password=b"hunter2")
        config = SubConfig(
            bootstrap_servers="h",
            security_protocol="SASL_SSL",
            sasl_mechanism="PLAIN",
            sasl_username="u",
            sasl_password="hunter2",
            sasl_oauthbearer_extensions="pin=hunter2",
        )
        assert "hunter2" not in repr(config)
        assert "hunter2" not in str(config)
        assert "sasl_password=<hidden>" in repr(config)


class TestSecurity:
    @pytest.mark.parametrize("protocol", ["x", "TLS", ""])
    def test_an_unknown_protocol_is_answered_with_all_there_are(self, protocol: str) -> None:
        words = "is unknown: write one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL"
        assert refused(security_protocol=protocol) == f"security_protocol={protocol.upper()!r} {words}"

    @pytest.mark.parametrize(
        ("protocol", "option", "advice"),
        [
            ("PLAINTEXT", {"ssl_truststore_location": "ca.pem"}, "SSL"),
            ("SASL_PLAINTEXT", {"ssl_truststore_location": "ca.pem"}, "SASL_SSL"),
            ("PLAINTEXT", {"sasl_mechanism": "PLAIN"}, "SASL_SSL"),
            ("SSL", {"sasl_password": "hunter2"}, "SASL_SSL"),
        ],
    )
    def test_an_option_that_would_have_no_effect_is_refused(
        self, protocol: str, option: dict[str, str], advice: str
    ) -> None:
        (name,) = option
        assert refused(security_protocol=protocol, **option) == (
            f"{name} has no effect with security_protocol={protocol!r}: write security_protocol={advice!r}"
        )

    def test_an_option_with_its_default_may_stand_anywhere(self) -> None:
        ClientConfig(bootstrap_servers="h", ssl_endpoint_identification_algorithm="https", sasl_mechanism=None)

    def test_plain_text_needs_neither_contexts_nor_a_mechanism(self) -> None:
        config = ClientConfig(bootstrap_servers="h")
        assert config.new_tls_contexts() is None
        assert config.new_sasl_mechanism() is None

    @pytest.mark.parametrize(
        ("given", "option", "value"),
        [
            ("ssl.ca.location", "ssl_truststore_location", "/etc/ssl/certs/ca-certificates.crt"),
            ("ssl.cipher.suites", "ssl_cipher_suites", ("ECDHE-RSA-AES128-GCM-SHA256", "ECDHE-RSA-AES256-GCM-SHA384")),
            ("ssl.enabled.protocols", "ssl_enabled_protocols", ("TLSv1.3",)),
            ("ssl.endpoint.identification.algorithm", "ssl_endpoint_identification_algorithm", ""),
        ],
    )
    def test_properties_of_java_and_of_librdkafka(self, given: str, option: str, value: Any) -> None:
        text = "none" if value == "" else value if isinstance(value, str) else ", ".join(value)
        config = ClientConfig.from_properties({"bootstrap.servers": "h", "security.protocol": "ssl", given: text})
        assert getattr(config, option) == value

    @pytest.mark.parametrize(
        ("option", "advice"),
        [
            ("sasl_plain_username", "write sasl_username"),
            ("ssl_cafile", "write ssl_truststore_location"),
            ("ssl_check_hostname", 'write ssl_endpoint_identification_algorithm=""'),
            ("ssl_certfile", "write ssl_keystore_location"),
            ("ssl_keyfile", "write ssl_key_location"),
            ("sasl.login.callback.handler.class", "leave it out"),
        ],
    )
    def test_names_of_other_clients_are_answered_with_ours(self, option: str, advice: str) -> None:
        assert advice in refused(**{option: "x"})


def test_librdkafkas_pair_of_certificate_and_key(tmp_path: Path) -> None:
    certificates = TestCertificates(tmp_path)
    inline = certificates.inline_client_options(certificates.client_file)
    chain, key = certificates.directory / "pair.crt", certificates.directory / "pair.key"
    chain.write_text(inline["ssl_keystore_certificate_chain"])
    key.write_text(inline["ssl_keystore_key"])
    given = {"ssl.certificate.location": str(chain), "ssl.key.location": str(key)}
    config = ClientConfig.from_properties({"bootstrap.servers": "h", "security.protocol": "ssl", **given})
    assert (config.ssl_keystore_location, config.ssl_key_location) == (str(chain), str(key))


class TestNewCredentials:
    CONFIG = SubConfig(
        bootstrap_servers="h",
        request_timeout_ms=5,
        security_protocol="SASL_SSL",
        sasl_mechanism="PLAIN",
        sasl_username="alice",
        sasl_password="old",
    )

    def test_all_else_stays(self) -> None:
        config = self.CONFIG.with_credentials(sasl_password="new")
        assert (config.sasl_username, config.sasl_password, config.request_timeout_ms) == ("alice", "new", 5)
        assert self.CONFIG.sasl_password == "old"

    def test_they_are_checked_as_at_first(self) -> None:
        with pytest.raises(ConfigurationError, match="sasl_mechanism='NONE' is unknown"):
            self.CONFIG.with_credentials(sasl_mechanism="NONE")
        with pytest.raises(ConfigurationError, match="sasl_passwort"):
            self.CONFIG.with_credentials(sasl_passwort="new")

    def test_nothing_else_can_be_changed(self) -> None:
        with pytest.raises(ConfigurationError, match="linger_ms is not an option of SASL, and cannot be changed later"):
            self.CONFIG.with_credentials(linger_ms=5)
        with pytest.raises(ConfigurationError, match="security_protocol='PLAINTEXT' has no credentials to update"):
            ClientConfig(bootstrap_servers="h").with_credentials(sasl_password="new")


def test_a_partial_functions_arguments_are_not_shown() -> None:
    """They may be secrets, as of a function that gives TLS contexts."""
    give = partial(ssl.create_default_context, cadata="hush")
    shown = repr(ClientConfig(bootstrap_servers="h", security_protocol="SSL", ssl_context=give))
    assert "ssl_context=<partial of create_default_context>" in shown


class TestBackoffs:
    def test_only_the_lower_one_given_means_a_constant_back_off(self) -> None:
        config = ClientConfig(bootstrap_servers="h", reconnect_backoff_ms=5_000)
        assert config.reconnect_backoff_max_ms == 5_000
        assert config.reconnect_backoff.initial == config.reconnect_backoff.maximum == 5.0

    def test_they_are_made_in_seconds(self) -> None:
        config = ClientConfig(bootstrap_servers="h")
        assert (config.retry_backoff.initial, config.retry_backoff.maximum) == (0.1, 1.0)
        assert (config.connection_setup_timeout.initial, config.connection_setup_timeout.maximum) == (10, 30)


class TestOtherSources:
    def test_properties_have_kafkas_names_and_strings(self) -> None:
        config = SubConfig.from_properties(
            {"bootstrap.servers": "h:1", "linger.ms": "7", "enable.idempotence": "false", "retry.backoff.ms": "2000"},
            client_id="me",
        )
        assert (config.linger_ms, config.enable_idempotence, config.client_id) == (7, False, "me")
        assert config.retry_backoff_max_ms == 2_000

    def test_bad_properties_are_named(self) -> None:
        with pytest.raises(ConfigurationError, match="did you mean linger_ms"):
            SubConfig.from_properties({"bootstrap.servers": "h", "linger.mss": "7"})
        with pytest.raises(ConfigurationError, match="linger_ms='x' is not a whole number"):
            SubConfig.from_properties({"bootstrap.servers": "h", "linger.ms": "x"})

    def test_the_environment(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "e:1")
        monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "9")
        monkeypatch.setenv("AIOKAFKAPY_INTERPRETED", "1")
        config = SubConfig.from_env(client_id="me")
        assert (config.bootstrap_servers, config.linger_ms, config.client_id) == ("e:1", 9, "me")

    def test_errors_name_the_variable_that_a_value_came_from(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("AIOKAFKAPY_BOOTSTRAP_SERVERS", "e:1")
        monkeypatch.setenv("AIOKAFKAPY_LINGER_MS", "x")
        with pytest.raises(ConfigurationError, match=r"\(linger_ms is from the environment's AIOKAFKAPY_LINGER_MS\)"):
            SubConfig.from_env()
        assert SubConfig.from_env(linger_ms=3).linger_ms == 3
        with pytest.raises(ConfigurationError) as raised:
            SubConfig.from_env(linger_ms=3, request_timeout_ms="y")
        assert "AIOKAFKAPY" not in str(raised.value)

    def test_a_prefix_of_ones_own(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("MY_BOOTSTRAP_SERVERS", "e:1")
        assert SubConfig.from_env("MY_").bootstrap_servers == "e:1"
        assert SubConfig.from_env("my_").bootstrap_servers == "e:1"
        monkeypatch.setenv("own_bootstrap_servers", "o:1")
        assert SubConfig.from_env("own_").bootstrap_servers == SubConfig.from_env("OWN_").bootstrap_servers == "o:1"
        monkeypatch.setenv("MY_LINGERMS", "1")
        with pytest.raises(ConfigurationError, match="did you mean linger_ms"):
            SubConfig.from_env("MY_")


def test_a_configuration_can_be_pickled_and_compared() -> None:
    config = SubConfig(bootstrap_servers="h", linger_ms=1)
    assert pickle.loads(pickle.dumps(config)) == config
    assert config != SubConfig(bootstrap_servers="h", linger_ms=2)
    assert config.model_copy() == config
    assert hash(ClientConfig(bootstrap_servers=["a", "b"])) == hash(ClientConfig(bootstrap_servers=("a", "b")))


@pytest.mark.parametrize("config", [ClientConfig, ProducerConfig, ReaderConfig])
def test_help_describes_every_option(config: type[ClientConfig]) -> None:
    for name, field in config.model_fields.items():
        assert field.description, name
        assert f"\n{name} (" in (config.__doc__ or "")
        assert not name.endswith("_ms") or "illiseconds" in field.description, name


class Watching:
    def throttled(self, event: object) -> None: ...


@pytest.mark.parametrize(
    ("observers", "words"),
    [
        ([Watching], "write Watching()"),
        ([object()], "object has none of the methods connection_opened"),
        ("observer", "observers='observer'"),
    ],
)
def test_an_observer_is_an_object_with_a_method_of_an_observer(observers: Any, words: str) -> None:
    assert words in refused(observers=observers)
    watching = Watching()
    assert SubConfig(bootstrap_servers="h:1", observers=[watching]).observers == (watching,)


@pytest.mark.parametrize(
    ("client", "ready", "option"),
    [
        (KafkaProducer, ProducerConfig(bootstrap_servers="h:1"), {"client_id": "a"}),
        (PartitionReader, ReaderConfig(bootstrap_servers="h:1"), {"client_id": "a"}),
        (TopicAdmin, ClientConfig(bootstrap_servers="h:1"), {"client_id": "a"}),
        (SchemaRegistryClient, SchemaRegistryClient("http://h:1").config, {"timeout_ms": 5}),
    ],
)
def test_every_client_takes_its_configuration_or_options_but_not_both(client: Any, ready: Any, option: Any) -> None:
    name, kind = next(iter(option)), type(ready).__name__
    address = "url" if client is SchemaRegistryClient else "bootstrap_servers"
    assert client(config=ready).config == ready
    for arguments, options, names in ((), option, name), (("http://h:1",), {}, address):
        with pytest.raises(ConfigurationError) as caught:
            client(*arguments, config=ready, **options)
        assert str(caught.value) == f"config and also {names} were given: put the options into {kind}(…)"
    with pytest.raises(ConfigurationError, match=f"config is a dict: write config={kind}"):
        client(config={"client_id": "a"})


def test_no_variable_that_the_package_or_its_tests_read_is_taken_for_an_option() -> None:
    root = Path(aiokafkapy.__file__).parents[1]
    sources = [path for folder in ("aiokafkapy", "tests") for path in (root / folder).rglob("*.py")]
    texts = [path.read_text() for path in (*sources, root / ".ci/run", root / ".ci/tests")]
    read = r'(?:environ(?:\.get\(|\[)"|export |envvar="|VARIABLE: Final = ")AIOKAFKAPY_([A-Z_]+)'
    names = {name.lower() for text in texts for name in re.findall(read, text)}
    assert names > {"require_kafka", "console_token", "pictures"}
    assert not {name for name in names if not is_switch(name) and name not in ProducerConfig.model_fields}
