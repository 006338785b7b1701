"""JSONata: converts one version's messages to another's, over jsonata-python.

Confluent's counterpart is ``JsonataExecutor``.

Rules: an expression sees the message itself; its result is the message of the other version, in plain values. An
evaluation without end is bounded by ``_SECONDS``.
"""

from __future__ import annotations

import copy
from typing import Final

from .fields import Walk
from .running import PreparedRule, RuleContext, SchemaRules

try:
    import jsonata
except ModuleNotFoundError as missing:
    raise ModuleNotFoundError(
        "JSONata needs jsonata-python: pip install 'aiokafkapy[schema-rules]'", name=missing.name
    ) from missing

__all__ = ["JsonataRules"]

_SECONDS: Final = 5
_DEPTH: Final = 500


class JsonataRules:
    """Runs rules of type ``JSONATA``."""

    def __init__(self, rules: SchemaRules) -> None:
        self._rules = rules

    async def prepare(self, context: RuleContext) -> PreparedRule:
        """Compile the expression."""
        text = context.rule.expr
        if not text:
            raise ValueError("it has no expr")
        jsonata.Jsonata(text)  # a syntax error is raised now

        def apply(message: object, walk: Walk | None) -> object:
            # One for each call: an evaluated expression remembers its input.
            expression = jsonata.Jsonata(text)
            frame = expression.create_frame()
            frame.set_runtime_bounds(_SECONDS * 1000, _DEPTH)
            # The result would otherwise share parts of the message.
            return _plain(expression.evaluate(copy.deepcopy(message), frame))

        return PreparedRule(apply)


def _plain(found: object) -> object:
    """The result without the library's own kinds of lists and dicts."""
    if isinstance(found, dict):
        return {str(name): _plain(one) for name, one in found.items()}
    if isinstance(found, (list, tuple, range)):
        return [_plain(one) for one in found]
    return found
