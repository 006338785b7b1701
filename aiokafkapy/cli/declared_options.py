"""Options of commands, declared for typer and readable without it.

Owns ``Option``, which commands declare in place of typer's, the form that typer takes (``for_typer``), and the reading
of plain command lines (``parsed``). It knows no command. typer and rich take longer to import than a broker to start.

Rules: only the declaration says what an option takes. ``parsed`` reads plain and correct command lines, and gives up
on all others (help, completion, a mistake, a variable of the environment), which typer then reads from the start.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Final, get_args, get_origin, get_type_hints

__all__ = ["Option", "bad_parameter", "for_typer", "parsed"]


class Option:
    """typer's ``Option`` in an annotation: its names, and the settings that typer's takes."""

    __slots__ = ("names", "settings")

    def __init__(self, *names: str, **settings: Any) -> None:
        self.names = names
        self.settings = settings


def bad_parameter(message: str, option: str) -> Exception:
    """typer's error for an option's value: it shows the usage, and exits with code 2."""
    import typer

    return typer.BadParameter(message, param_hint=option)


def for_typer(command: Callable[..., None]) -> Callable[..., None]:
    """The command in the form for typer: every option in its signature is typer's own."""
    import inspect

    import typer

    def run(**arguments: Any) -> None:
        command(**arguments)

    parameters = []
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        hint = hints[name]
        kind, option = _parts(hint)
        if option is not None:
            hint = Annotated[kind, typer.Option(*option.names, **option.settings)]
        parameters.append(parameter.replace(annotation=hint))
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, command.__module__
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return run


def parsed(command: Callable[..., None], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of ``command`` for these words of a command line; None if typer has to read them."""
    hints = get_type_hints(command, include_extras=True)
    parameters = {name: _parts(hint) for name, hint in hints.items() if name != "return"}
    if any(os.environ.get(variable) for _, option in parameters.values() if (variable := _variable(option))):
        return None
    known = {flag: name for name, (_, option) in parameters.items() if option for flag in option.names}
    found: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag, equals, text = word.partition("=") if word.startswith("--") else (word, "", "")
        name = known.get(flag)
        if name is None:
            return None
        kind, option = parameters[name]
        assert option is not None
        if kind is bool:
            if equals:
                return None
            found[name] = True
            continue
        text = text if equals else next(rest, "")
        try:
            value = _converted(kind, text, option)
        except ValueError:
            return None
        found[name] = [*found.get(name, ()), value] if _is_list(kind) else value
    return found


# internals


_WORDS: Final = {int: int, str: str, Path: Path}


def _parts(hint: object) -> tuple[Any, Option | None]:
    if get_origin(hint) is not Annotated:
        return hint, None
    kind, *notes = get_args(hint)
    return kind, next((note for note in notes if isinstance(note, Option)), None)


def _variable(option: Option | None) -> str | None:
    return None if option is None else option.settings.get("envvar")


def _is_list(kind: object) -> bool:
    return any(get_origin(one) is list for one in (kind, *_of_union(kind)))


def _of_union(kind: object) -> tuple[Any, ...]:
    return get_args(kind) if isinstance(kind, UnionType) else (kind,)


def _converted(kind: object, text: str, option: Option) -> Any:
    """The value of the text. Raises ValueError if it is not plain."""
    if not text or text.startswith("-"):
        raise ValueError(text)
    (one,) = [part for part in _of_union(kind) if part is not NoneType]
    if get_origin(one) is list:
        (one,) = get_args(one)
    if one not in _WORDS or (one is int and not text.isascii()):
        raise ValueError(text)
    value = _WORDS[one](text)
    low, high = option.settings.get("min"), option.settings.get("max")
    if (low is not None and value < low) or (high is not None and value > high):
        raise ValueError(text)
    return value
