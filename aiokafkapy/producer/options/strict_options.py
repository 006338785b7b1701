"""``StrictOptions``: the base of classes of options that are the value of one option.

Owns the checks of such options, and their reading from a mapping or JSON; the classes have the options. Kafka's
producer has no counterpart: its options are flat.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from ...client.options.config_fields import explained
from ...errors import ConfigurationError

__all__ = ["StrictOptions", "json_of", "options_of"]


class StrictOptions(BaseModel):
    """Immutable options, whose types are not converted; raises ConfigurationError for values that make no sense."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    if not TYPE_CHECKING:  # checkers know the constructor from the fields

        def __init__(self, **options: object) -> None:
            for name in options:
                if name not in type(self).model_fields:
                    raise ConfigurationError(f"{name!r:.100} {self.why_unknown(name)}")
            try:
                self.__pydantic_validator__.validate_python(options, self_instance=self, strict=True)
            except ValidationError as error:
                raise ConfigurationError("; ".join(explained(each, options) for each in error.errors())) from None

    @classmethod
    def why_unknown(cls, name: str) -> str:
        """The error text for a name that is not an option: the end of a sentence that begins with the name."""
        return f"is not an option of {cls.__name__}: write one of {', '.join(cls.model_fields)}"


OptionsT = TypeVar("OptionsT", bound=StrictOptions)


def options_of(value: object, kind: type[OptionsT]) -> OptionsT:
    """Options of this kind, or made from a mapping with the same names. Raises ValueError for anything else, and for
    values that the kind refuses.
    """
    if isinstance(value, kind):
        return value
    if not isinstance(value, Mapping):
        raise ValueError(f"{kind.__name__}(…) is needed, not {type(value).__name__}")
    for name in value:
        if not isinstance(name, str):
            raise ValueError(f"the name of an option is a {type(name).__name__}, not a str")
    try:
        return kind(**value)
    except ConfigurationError as error:
        raise ValueError(str(error)) from None


def json_of(text: str, example: str) -> object:
    """The value that is written in JSON. Raises ValueError, with an example, if it is not."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"write JSON, as {example}: {error}") from None
