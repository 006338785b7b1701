"""aiokafkapy.integrations.settings: the sources of options, and the agreement with ``from_env``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from aiokafkapy import KafkaProducer, ProducerConfig
from aiokafkapy.errors import ConfigurationError
from aiokafkapy.reader import ReaderConfig

pydantic_settings = pytest.importorskip(
    "pydantic_settings", reason="pydantic-settings is not installed: pip install 'aiokafkapy[settings]'"
)

from aiokafkapy.integrations.settings import ProducerSettings, ReaderSettings  # noqa: E402

VARIABLES = {
    "BOOTSTRAP_SERVERS": "a:1,b:2",
    "LINGER_MS": "auto",
    "ACKS": "1",
    "ENABLE_METRICS_PUSH": "false",
    "TOPICS": '{"clicks": {"linger_ms": 50}}',
    "BUFFER_RECORDS": "1000",
    "SASL_MECHANISM": "PLAIN",
    "SECURITY_PROTOCOL": "sasl_ssl",
    "SASL_USERNAME": "ann",
    "SASL_PASSWORD": "hunter2",
    # Switches of the package, which are not options
    "TAP": "/tmp/tap",
    "INTERPRETED": "0",
}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith("AIOKAFKAPY_")]:
        monkeypatch.delenv(name)


def set_all(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in VARIABLES.items():
        monkeypatch.setenv(f"AIOKAFKAPY_{name}", value)


def test_the_environment_is_read_as_from_env_reads_it(monkeypatch: pytest.MonkeyPatch) -> None:
    set_all(monkeypatch)
    settings, config = ProducerSettings(batch_size=10), ProducerConfig.from_env(batch_size=10)
    assert settings.model_dump() == config.model_dump()
    assert settings.model_fields_set == config.model_fields_set
    assert isinstance(settings, ProducerConfig)
    assert KafkaProducer(config=settings).config is settings
    assert settings.for_topic("clicks").linger_ms == 50
    assert "hunter2" not in f"{settings!r} {settings}"


def test_a_file_of_variables_is_read_as_the_environment_which_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    file.write_text("".join(f"AIOKAFKAPY_{name}={value}\n" for name, value in VARIABLES.items()) + "OTHER=1\n")
    from_file = ProducerSettings(_env_file=file)
    monkeypatch.setenv("AIOKAFKAPY_CLIENT_ID", "from the environment")
    both = ProducerSettings(_env_file=file, acks="all")
    set_all(monkeypatch)
    monkeypatch.delenv("AIOKAFKAPY_CLIENT_ID")
    assert from_file.model_dump() == ProducerConfig.from_env().model_dump()
    assert (both.client_id, both.acks) == ("from the environment", "all")


def test_secrets_are_files_and_come_last(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "aiokafkapy_sasl_password").write_text("hunter2\n")
    (tmp_path / "aiokafkapy_sasl_username").write_text("of the file\n")
    monkeypatch.setenv("AIOKAFKAPY_SASL_USERNAME", "ann")
    settings = ProducerSettings(
        bootstrap_servers="a:1", _secrets_dir=tmp_path, security_protocol="SASL_SSL", sasl_mechanism="PLAIN"
    )
    assert settings.sasl_username == "ann"
    assert settings.sasl_password == "hunter2"


@pytest.mark.parametrize("where", ["environment", "file"])
def test_an_unknown_name_is_an_error_with_the_nearest_option(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / ".env"
    file.write_text("AIOKAFKAPY_LINGRE_MS=5\n" if where == "file" else "")
    if where == "environment":
        monkeypatch.setenv("AIOKAFKAPY_LINGRE_MS", "5")
    with pytest.raises(ConfigurationError, match="AIOKAFKAPY_LINGRE_MS is not an option: did you mean linger_ms"):
        ProducerSettings(bootstrap_servers="a:1", _env_file=file)


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("LINGER_MS", "soon", "linger_ms='soon' is not a whole number"),
        ("ACKS", "2", "acks='2' is unknown"),
        ("TOPICS", "{", "topics"),
        ("BATCH_SIZE", "-1", "batch_size='-1' is out of range: write at least 0"),
    ],
)
def test_values_that_cannot_be_meant_are_errors_of_ours(
    name: str, value: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"AIOKAFKAPY_{name}", value)
    with pytest.raises(ConfigurationError, match=wanted):
        ProducerSettings(bootstrap_servers="a:1")


def test_the_error_names_missing_and_unknown_keywords() -> None:
    unknown: Any = {"lingre_ms": 5}
    with pytest.raises(ConfigurationError, match="bootstrap_servers is missing"):
        ProducerSettings()
    with pytest.raises(ConfigurationError, match="unknown option 'lingre_ms'"):
        ProducerSettings(bootstrap_servers="a:1", **unknown)


@pytest.mark.parametrize("settings", [ProducerSettings, ReaderSettings])
def test_servers_are_given_by_name(settings: Any) -> None:
    assert settings(bootstrap_servers="h:1").bootstrap_servers == "h:1"
    with pytest.raises(TypeError, match="positional"):
        settings("h:1")


def test_a_subclass_has_places_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    file = tmp_path / "orders.env"
    file.write_text("ORDERS_LINGER_MS=7\n")

    class Orders(ProducerSettings):
        model_config = pydantic_settings.SettingsConfigDict(env_prefix="ORDERS_", env_file=file)

    monkeypatch.setenv("ORDERS_BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv("AIOKAFKAPY_LINGRE_MS", "of another prefix")
    orders: Any = Orders
    assert orders().linger_ms == 7
    monkeypatch.setenv("ORDERS_LINGRE_MS", "5")
    with pytest.raises(ConfigurationError, match="ORDERS_LINGRE_MS is not an option"):
        orders()


def test_a_reader_has_settings_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(f"{ReaderConfig.environment_prefix}BOOTSTRAP_SERVERS", "a:1")
    monkeypatch.setenv(f"{ReaderConfig.environment_prefix}ISOLATION_LEVEL", "read_committed")
    assert ReaderSettings(fetch_max_wait_ms=7).model_dump() == ReaderConfig.from_env(fetch_max_wait_ms=7).model_dump()


def test_a_configuration_is_a_field_of_an_applications_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    class Settings(pydantic_settings.BaseSettings):  # type: ignore[misc, name-defined]
        model_config = pydantic_settings.SettingsConfigDict(env_prefix="SHOP_", env_nested_delimiter="__")
        kafka: ProducerSettings

    monkeypatch.setenv("SHOP_KAFKA__BOOTSTRAP_SERVERS", "a:1,b:2")
    monkeypatch.setenv("SHOP_KAFKA__LINGER_MS", "5")
    monkeypatch.setenv("SHOP_KAFKA__ENABLE_METRICS_PUSH", "false")
    monkeypatch.setenv("SHOP_KAFKA__TOPICS", '{"clicks": {"linger_ms": 50}}')
    topics: Any = {"clicks": {"linger_ms": 50}}
    wanted = ProducerConfig(bootstrap_servers="a:1,b:2", linger_ms=5, enable_metrics_push=False, topics=topics)
    assert Settings().kafka.model_dump() == wanted.model_dump()
    monkeypatch.setenv("SHOP_KAFKA__LINGRE_MS", "5")
    with pytest.raises(ValueError, match="lingre_ms"):
        Settings()
