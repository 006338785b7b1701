"""Options from the environment, ``.env`` files and directories of secrets, by pydantic-settings.

    settings = ProducerSettings(_env_file=".env", _secrets_dir="/run/secrets")
    producer = KafkaProducer(config=settings)

Owns the sources of options. The config models, whose subclasses these are, define their meaning; they may be fields of
an application's own settings. Needs ``pip install 'aiokafkapy[settings]'``. Kafka has no counterpart.

Rules:

- Names and text are those of ``from_env``: ``AIOKAFKAPY_LINGER_MS=5``, the same in a ``.env`` file, and a file
  ``aiokafkapy_sasl_password`` in a directory of secrets. Keywords come first, then the environment, the ``.env`` file,
  and secrets.
- A name with the prefix that is not an option, in the environment or the ``.env`` file, is a ConfigurationError, as
  are invalid values; no value of a secret is shown.
- Text is read as elsewhere in this package (``topics`` as JSON), not as pydantic-settings reads complex types.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from ..client.config import ClientConfig, fill_from_text, hint_for, is_switch
from ..errors import ConfigurationError
from ..producer.config import ProducerConfig
from ..reader import ReaderConfig

try:
    from pydantic_settings import BaseSettings, EnvSettingsSource, PydanticBaseSettingsSource, SettingsConfigDict
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "settings need pydantic-settings: pip install 'aiokafkapy[settings]'", name=missing.name
    ) from missing

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from ..producer.options.keywords import ProducerOptions

    EnvFile: TypeAlias = str | os.PathLike[str] | Sequence[str | os.PathLike[str]] | None

__all__ = ["ProducerSettings", "ReaderSettings"]


class _FromText(ClientConfig):
    """Reads the text from the sources as ``from_env`` does."""

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            fill_from_text(self, values)


class _Settings(BaseSettings):
    """Looks for options in the sources of pydantic-settings."""

    model_config = SettingsConfigDict(env_prefix="AIOKAFKAPY_", enable_decoding=False)

    if not TYPE_CHECKING:

        def __init__(self, **given: Any) -> None:
            super().__init__(**given)  # by name: pydantic-settings takes a positional argument for _case_sensitive

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """pydantic-settings' own order, after a check for names that are not options."""
        for source in (env_settings, dotenv_settings):
            if isinstance(source, EnvSettingsSource):
                _refuse_unknown(settings_cls, source)
        return init_settings, env_settings, _OptionsOf(settings_cls, dotenv_settings), file_secret_settings


class ProducerSettings(_Settings, _FromText, ProducerConfig):  # type: ignore[misc]  # model_config has keys of both
    """A ``ProducerConfig`` whose options come from the environment, a ``.env`` file and secrets.

    A subclass may have its own sources: ``model_config = SettingsConfigDict(env_prefix="ORDERS_", env_file=".env")``.
    Raises ConfigurationError.
    """

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            bootstrap_servers: str | Sequence[str] = ...,
            _env_file: EnvFile = ...,
            _env_prefix: str | None = ...,
            _secrets_dir: EnvFile = ...,
            **options: Unpack[ProducerOptions],
        ) -> None: ...


class ReaderSettings(_Settings, _FromText, ReaderConfig):  # type: ignore[misc]  # as above
    """A ``ReaderConfig`` whose options come from the same sources."""

    if TYPE_CHECKING:

        def __init__(
            self,
            *,
            bootstrap_servers: str | Sequence[str] = ...,
            _env_file: EnvFile = ...,
            _env_prefix: str | None = ...,
            _secrets_dir: EnvFile = ...,
            **options: Any,
        ) -> None: ...


# internals


class _OptionsOf(PydanticBaseSettingsSource):
    """The options in a ``.env`` file: pydantic-settings takes all other names in it for unknown options."""

    def __init__(self, settings_cls: type[BaseSettings], source: PydanticBaseSettingsSource) -> None:
        super().__init__(settings_cls)
        self._source = source

    def get_field_value(self, field: Any, field_name: str) -> tuple[Any, str, bool]:
        """The value of one field, for pydantic-settings."""
        return self._source.get_field_value(field, field_name)

    def __call__(self) -> dict[str, Any]:
        """The options that were found."""
        return {name: value for name, value in self._source().items() if name in self.settings_cls.model_fields}


def _refuse_unknown(settings: type[Any], source: EnvSettingsSource) -> None:
    """Raise for variables with the prefix that are not options: pydantic-settings would ignore them."""
    prefix = source.env_prefix.lower()
    names = [name.lower().removeprefix(prefix) for name in source.env_vars if name.lower().startswith(prefix)]
    unknown = [name for name in names if name not in settings.model_fields and not is_switch(name)]
    if unknown and prefix and issubclass(settings, ClientConfig):
        raise ConfigurationError(
            "; ".join(
                f"{prefix.upper()}{name.upper()} is not an option: {hint_for(settings, name)}" for name in unknown
            )
        )
