"""The configuration of a producer from the arguments of ``KafkaProducer(...)``.

Owns the choice: plain options are checked without pydantic, and all others, and every wrong one, by ``ProducerConfig``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from ..option_fields import checked, names_of, with_values
from .options.config_fields import ProducerConfigFields

if TYPE_CHECKING:
    from .config import ProducerConfig

__all__ = ["as_model", "make_config", "plain_config"]

_BY_PYDANTIC: Final = ("ssl_", "sasl_", "security_protocol")
"""Prefixes of options that ``update_credentials`` may change later, which needs a model."""


def make_config(
    bootstrap_servers: str | Sequence[str] | None, config: ProducerConfig | None, options: dict[str, Any]
) -> ProducerConfig:
    """The configuration that ``KafkaProducer(...)`` was given. Raises ConfigurationError if both forms were given.

    ``config`` may also be what this function made, which needs no model for a second producer.
    """
    given = {name: value for name, value in options.items() if value is not None or name == "linger_ms"}
    if len(given) < len(options):
        # A variable that is not set yet must not hide a misspelt name.
        given |= dict.fromkeys(options.keys() - given.keys() - set(names_of(ProducerConfigFields)))
    if bootstrap_servers is not None:
        given["bootstrap_servers"] = bootstrap_servers
    if config is None:
        # Plain options have a model's fields and properties; the application gets their ``as_model``.
        plain = cast("ProducerConfig | None", plain_config(given))
        if plain is not None:
            return plain
    elif isinstance(config, ProducerConfigFields) and not given:
        return config
    from ..client.config import complete_config
    from .config import ProducerConfig

    return ProducerConfig(**given) if config is None else complete_config(ProducerConfig, config, given)


def as_model(config: ProducerConfigFields) -> ProducerConfig:
    """The configuration as a model, for the application: it may copy it, or look at its fields."""
    from .config import ProducerConfig

    if isinstance(config, ProducerConfig):
        return config
    return ProducerConfig(**{name: getattr(config, name) for name in config.model_fields_set})


def plain_config(given: dict[str, Any]) -> ProducerConfigFields | None:
    """The configuration, if it needs no pydantic. Raises ConfigurationError for options in contradiction."""
    if "bootstrap_servers" not in given or any(name.startswith(_BY_PYDANTIC) for name in given):
        return None
    normalized = ProducerConfigFields.normalized(ProducerConfigFields.normalized_for_producer(given))
    values = checked(ProducerConfigFields, normalized)
    if values is None:
        return None
    config = with_values(ProducerConfigFields, values)
    config.check()
    config.check_producer()
    return config
