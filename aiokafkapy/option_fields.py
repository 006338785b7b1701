"""Options that are declared as pydantic reads them, in classes that can do without pydantic.

Owns the words of such a declaration (``Field``, ``BeforeValidator``, ``AfterValidator``, ``Tag``, ``Discriminator``,
``Within``), the check of plain values (``checked``), and the making of a pydantic model from a
declaration (``declarations``). It must not know any option. pydantic takes longer to import than all else that a
producer needs, and the commonest options are a few numbers and words.

Rules: the declaration is the only place that says what an option takes; ``checked`` finds that a value is right, or
that pydantic has to be asked, but never that it is wrong, so every message comes from pydantic. pydantic accepts each
value that ``checked`` accepts, with the same result; a test checks all options.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import NoneType, UnionType
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    ClassVar,
    Final,
    Literal,
    TypeVar,
    Union,
    get_args,
    get_origin,
    get_type_hints,
)

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler
    from pydantic_core import CoreSchema

__all__ = [
    "AfterValidator",
    "BeforeValidator",
    "Declared",
    "Discriminator",
    "Field",
    "Tag",
    "Within",
    "checked",
    "declarations",
    "default_of",
    "field_options",
    "names_of",
    "with_values",
]


T = TypeVar("T")


class Declared:
    """The base of declarations at run time; for type checkers it is pydantic's ``BaseModel``.

    An instance has values that were checked here. It is immutable, and has the part of a model that this package uses.
    """

    model_fields_set: frozenset[str] = frozenset()
    """The options that were given."""

    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError(f"{type(self).__name__} is frozen: {name} cannot be set")


class Field:
    """pydantic's ``Field`` of an annotation: a range, a length, and words for people."""

    __slots__ = ("options",)

    def __init__(self, **options: Any) -> None:
        self.options = options


class _OfPydantic:
    """Stands for pydantic's class of the same name while a declaration is read before pydantic is imported."""

    __slots__ = ("argument",)

    def __init__(self, argument: Any) -> None:
        self.argument = argument

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        import pydantic

        word = getattr(pydantic, type(self).__name__)(self.argument)
        schema: CoreSchema = word.__get_pydantic_core_schema__(source, handler)
        return schema


class BeforeValidator(_OfPydantic):
    """A function of the value as it was given; it returns the value to check, or raises ValueError."""

    __slots__ = ()


class AfterValidator(_OfPydantic):
    """A function of the value that was checked; it returns the option's, or raises ValueError."""

    __slots__ = ()


class Tag(_OfPydantic):
    """Names a part of a union, for its ``Discriminator``."""

    __slots__ = ()


class Discriminator(_OfPydantic):
    """A function that says which part of a union a value is for."""

    __slots__ = ()


class Within:
    """A range of whole numbers, both ends in it: ``Field(ge=…, le=…)``, for the name of a type."""

    __slots__ = ("options",)

    def __init__(self, ge: int, le: int) -> None:
        self.options = {"ge": ge, "le": le}

    def __get_pydantic_core_schema__(self, source: object, handler: GetCoreSchemaHandler) -> CoreSchema:
        return {**handler(source), **self.options}


_WORDS: Final = ("Field", "BeforeValidator", "AfterValidator", "Tag", "Discriminator")


def declarations(declared: type, above: type = Declared, *, methods: bool = True, **names: object) -> dict[str, Any]:
    """The fields, and the methods, of ``declared`` and its bases below ``above``, for the body of a pydantic model:
    ``vars().update(declarations(…))``.

    ``names`` has the names in its annotations that its module defines for type checkers only.
    """
    import pydantic

    words = {word: getattr(pydantic, word) for word in _WORDS}
    hints = get_type_hints(declared, localns={**words, **names}, include_extras=True)
    body: dict[str, Any] = {"__annotations__": {}}
    for base in reversed(declared.__mro__):
        if base not in above.__mro__:
            own = vars(base).get("__annotations__", {})
            body["__annotations__"] |= {name: hints[name] for name in own}
            body |= {
                name: value for name, value in vars(base).items() if name in own or (methods and not _is_of_class(name))
            }
    return body


def default_of(options: type, name: str) -> Any:
    """An option's default, of a declaration or of a model."""
    fields: Mapping[str, Any] | None = getattr(options, "model_fields", None)
    return getattr(options, name) if fields is None else fields[name].default


def with_values(declared: type[T], values: Mapping[str, object]) -> T:
    """An instance with these values, which ``checked`` returned; other options have their defaults."""
    made = object.__new__(declared)
    vars(made).update(values, model_fields_set=frozenset(values))
    return made


def names_of(declared: type) -> list[str]:
    """The names of all options, in their order."""
    bases = [base for base in reversed(declared.__mro__) if base not in Declared.__mro__]
    annotated = [pair for base in bases for pair in vars(base).get("__annotations__", {}).items()]
    return list(dict.fromkeys(name for name, kind in annotated if not str(kind).startswith("ClassVar")))


def field_options(declared: type, name: str) -> Mapping[str, Any]:
    """The arguments of an option's ``Field``."""
    notes = get_args(_annotation(declared, name))[1:]
    return next((note.options for note in notes if type(note) is Field), {})


def checked(declared: type, given: Mapping[str, object]) -> dict[str, object] | None:
    """The values of these options, when all of them are plain and right; None when pydantic has to be asked."""
    try:
        return {name: _value(_annotation(declared, name), value) for name, value in given.items()}
    except (_AskPydantic, ValueError):
        return None


# internals


class _AskPydantic(Exception):
    pass


_PLAIN: Final = (int, str, bool, float)


def _is_of_class(name: str) -> bool:
    return name.startswith("__") and name.endswith("__")


@cache
def _annotation(declared: type, name: str) -> object:
    for base in declared.__mro__:
        text = vars(base).get("__annotations__", {}).get(name)
        if text is not None and base is not Declared:
            try:
                found = eval(text, vars(sys.modules[base.__module__])) if isinstance(text, str) else text
            except NameError:  # the annotation of a type whose module needs pydantic itself
                break
            if get_origin(found) is ClassVar:
                break
            return found
    raise _AskPydantic


def _value(kind: object, value: object) -> object:
    """The value that an option of this type takes from ``value``."""
    origin = get_origin(kind)
    if origin is Annotated:
        return _annotated(kind, value)
    if origin in (Union, UnionType):
        return _of_union(get_args(kind), value)
    if origin is Mapping and type(value) is dict:
        name_kind, value_kind = get_args(kind)
        return {_value(name_kind, name): _value(value_kind, one) for name, one in value.items()}
    is_right = (
        kind is Any
        or (kind in _PLAIN and type(value) is kind)
        or (kind in (None, NoneType) and value is None)
        or (origin is Literal and any(type(value) is type(one) and value == one for one in get_args(kind)))
        or (origin is Sequence and get_args(kind) == (str,) and _are_words(value))
    )
    if not is_right:
        raise _AskPydantic
    return value


def _are_words(value: Any) -> bool:
    return type(value) in (tuple, list) and all(type(one) is str for one in value)


def _annotated(kind: object, value: object) -> object:
    inner, *notes = get_args(kind)
    for note in reversed(notes):
        if type(note) is BeforeValidator:
            value = note.argument(value)
    value = _value(inner, value)
    for note in notes:
        if type(note) in (Field, Within):
            _check_limits(note.options, value)
        elif type(note) is AfterValidator:
            value = note.argument(value)
    return value


def _of_union(parts: tuple[object, ...], value: object) -> object:
    for part in parts:
        try:
            return _value(part, value)
        except (_AskPydantic, ValueError):
            continue
    raise _AskPydantic


def _check_limits(limits: Mapping[str, object], value: object) -> None:
    for name, limit in limits.items():
        if name in _FOR_PEOPLE or value is None:
            continue
        if name not in _LIMITS or not _LIMITS[name](value, limit):
            raise _AskPydantic


_FOR_PEOPLE: Final = ("description", "repr")
_LIMITS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "ge": lambda value, limit: value >= limit,
    "gt": lambda value, limit: value > limit,
    "le": lambda value, limit: value <= limit,
    "min_length": lambda value, limit: len(value) >= limit,
}
