"""``SchemaRules``: the choice and order of a schema's rules, and the action when one fails.

Owns modes, order, actions and the errors; knows no format. Executors know the rules. Confluent's counterparts are
``RuleRegistry`` and the rule half of ``AbstractKafkaSchemaSerDe``.

Rules:

- Preparing asks registries and key management, and is awaited; running is an ordinary function of one message.
- A rule that fails has the action of its ``onFailure``: ``ERROR``, unless it says otherwise, refuses the message;
  ``NONE`` goes on with the message as it was before the rule; ``DLQ`` refuses it, for the dead-letter policy. An unmet
  condition is a failure, and so is a transformation without a result.
- Of field rules of one type, kind, mode and set of tags only the first is run, as in Confluent's clients: a field is
  never encrypted twice.
- A rule of a type without an executor, or with an action other than the three, is refused before any data is touched.
- An error that may pass (of a registry that is away) is raised unchanged; no action follows it.
- An error names rule, type, mode and subject, and quotes the rule; it shows no data.
"""

from __future__ import annotations

import asyncio
import importlib
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from ....errors import ConfigurationError, KafkaError
from ..data_contracts import Rule, RunMode
from ..errors import RuleFailedError, SchemaRulesError
from ..schemas import Schema
from .fields import Field, Walk, wants

if TYPE_CHECKING:
    from ....producer.records import ProducerRecord
    from ..client import SchemaRegistryClient
    from .kms import KmsDriver

__all__ = [
    "DeadLetterSink",
    "KeyNeeded",
    "PreparedRule",
    "RuleContext",
    "RuleExecutor",
    "RuleRun",
    "SchemaRules",
    "on_fields",
]

_ACTIONS: Final = ("NONE", "ERROR", "DLQ")
_DLQ_TOPIC: Final = "dlq.topic"
_RETRY_SECONDS: Final = 30.0
"""Seconds after which a rule is prepared again if its preparation failed and its action ignores that."""

_BUILT_IN: Final = {
    "CEL": ("cel", "CelRules"),
    "CEL_FIELD": ("cel", "CelFieldRules"),
    "JSONATA": ("jsonata_rules", "JsonataRules"),
    "ENCRYPT": ("encryption", "FieldEncryptionRules"),
    "ENCRYPT_PAYLOAD": ("encryption", "PayloadEncryptionRules"),
}

Apply: TypeAlias = Callable[[Any, Walk | None], object]
"""Runs a rule on a message; the walk goes through its fields, and is None for bytes."""


class KeyNeeded(Exception):
    """A rule needs a key that only the message names: ``await fetch()``, then run it again."""

    def __init__(self, fetch: Callable[[], Awaitable[None]]) -> None:
        super().__init__()
        self.fetch = fetch


class DeadLetterSink(Protocol):
    """The destination of messages that a reader's rules refuse: ``DeadLetters``."""

    def refuse(self, record: ProducerRecord, error: BaseException) -> bool:
        """Take a record with its error; never waits."""


@dataclass(frozen=True, slots=True)
class RuleContext:
    """A rule's surroundings, for its executor. ``schema`` is the schema that has the rule."""

    rule: Rule
    mode: RunMode
    subject: str
    schema: Schema
    registry: SchemaRegistryClient

    def parameter(self, name: str) -> str | None:
        """A parameter of the rule, or else a property of the schema's metadata."""
        found = dict(self.rule.params).get(name)
        if found is None and self.schema.metadata is not None:
            found = dict(self.schema.metadata.properties).get(name)
        return found


@dataclass(frozen=True, slots=True)
class PreparedRule:
    """A rule that is ready to run. ``seconds`` later it has to be prepared again."""

    apply: Apply
    seconds: float = math.inf
    is_field_rule: bool = False


class RuleExecutor(Protocol):
    """Executes the rules of one type. Give your own to ``SchemaRules(executors={"MY_TYPE": MyExecutor()})``."""

    async def prepare(self, context: RuleContext, /) -> PreparedRule:
        """Make ready to run a rule; its exception is the rule's failure."""


def on_fields(context: RuleContext, change: Callable[[Field, Any], object]) -> PreparedRule:
    """A rule that is run on each field that it applies to."""
    rule, metadata = context.rule, context.schema.metadata
    is_condition = rule.kind == "CONDITION"

    def visit(field: Field, value: object) -> object:
        if not wants(rule, field, metadata):
            return value
        found = change(field, value)
        if not is_condition:
            return found
        if found is False:
            raise _NotMetError
        return value

    def apply(message: object, walk: Walk | None) -> object:
        if walk is None:
            raise ConfigurationError(f"a rule of type {rule.type} is for fields, and bytes have none")
        walked = walk(message, visit)
        return True if is_condition else walked

    return PreparedRule(apply, is_field_rule=True)


@dataclass(frozen=True, slots=True)
class _Step:
    context: RuleContext
    apply: Apply


class RuleRun:
    """The rules of one schema, phase and mode, ready to run in order. They are valid for ``seconds``."""

    __slots__ = ("_steps", "seconds")

    def __init__(self, steps: Sequence[_Step], seconds: float) -> None:
        self._steps = steps
        self.seconds = seconds

    def __bool__(self) -> bool:
        return bool(self._steps)

    def __call__(self, message: object, walk: Walk | None = None, *, skipped: str | None = None) -> Any:
        """The message after the rules. ``skipped`` names a rule to leave out, when a dead letter is read.

        Raises RuleFailedError, KeyNeeded.
        """
        for step in self._steps:
            rule = step.context.rule
            if skipped is not None and rule.name == skipped:
                continue
            try:
                found = step.apply(message, walk)
            except (KeyNeeded, KeyboardInterrupt, SystemExit):
                raise
            except BaseException as error:  # an error of an expression, a library, a key: the action decides
                if getattr(error, "retriable", False):
                    raise
                self._after_failure(step, error)
                continue
            if rule.kind == "CONDITION":
                if not found:
                    self._after_failure(step, _NotMetError())
                    continue
            else:
                message = found
                if found is None:
                    self._after_failure(step, None)
                    continue
            if rule.action(step.context.mode, is_success=True) != "NONE":
                raise _failure(step, f"its onSuccess is {rule.on_success}", None, is_success=True)
        return message

    @staticmethod
    def _after_failure(step: _Step, error: BaseException | None) -> None:
        if step.context.rule.action(step.context.mode, is_success=False) == "NONE":
            return
        raise _failure(step, _reason(step.context.rule, error), error)


class SchemaRules:
    """Runs the rules of data contracts for serializers and deserializers, which take it as ``rules``.

    ``kms`` are the key managements for encryption, ``executors`` run rules of types of your own, or Confluent's in
    your own way. ``dead_letters`` takes the records that a reader's rules refuse with the action ``DLQ``; a writer's
    go through the producer that ``DeadLetters`` guards.
    """

    def __init__(
        self,
        *,
        kms: Iterable[KmsDriver] = (),
        executors: Mapping[str, RuleExecutor] | None = None,
        dead_letters: DeadLetterSink | None = None,
    ) -> None:
        self.kms: Final = {driver.kms_type: driver for driver in kms}
        self.dead_letters: Final = dead_letters
        self._executors: dict[str, RuleExecutor] = {}
        for name, executor in (executors or {}).items():
            if not isinstance(name, str) or not hasattr(executor, "prepare"):
                raise ConfigurationError(f"executors[{name!r}] is a {type(executor).__name__}: it has no prepare()")
            self._executors[name.upper()] = executor

    async def prepare(
        self, rules: Sequence[Rule], mode: RunMode, subject: str, schema: Schema, registry: SchemaRegistryClient
    ) -> RuleRun:
        """Make ready to run rules, given in the order in which they run.

        Raises SchemaRulesError for rules that cannot be run at all, RuleFailedError, and the errors of an unreachable
        registry.
        """
        self.check(rules, mode, subject)
        steps: list[_Step] = []
        seconds = math.inf
        seen: set[object] = set()
        kept: list[_Step] = []
        for rule in rules:
            context = RuleContext(rule, mode, subject, schema, registry)
            executor = await self._executor(rule)
            try:
                prepared = await executor.prepare(context)
            except Exception as error:
                if isinstance(error, (SchemaRulesError, OSError)) or getattr(error, "retriable", False):
                    raise
                step = _Step(context, _failing(error))
                if rule.action(mode, is_success=False) != "NONE":
                    raise _failure(step, _reason(rule, error), error) from error
                steps.append(step)
                seconds = min(seconds, _RETRY_SECONDS)
                continue
            step = _Step(context, prepared.apply)
            steps.append(step)
            seconds = min(seconds, prepared.seconds)
            if prepared.is_field_rule and rule.tags and rule.kind == "TRANSFORM":
                kept.append(step)
        # Of equal rules the contract's first stays, which is the last to run if they run backwards.
        for step in reversed(kept) if mode in ("READ", "DOWNGRADE") else kept:
            rule = step.context.rule
            same = (rule.type, rule.mode, rule.tags)
            if same in seen:
                steps.remove(step)
            seen.add(same)
        return RuleRun(steps, seconds)

    def check(self, rules: Sequence[Rule], mode: RunMode, subject: str) -> None:
        """Raise SchemaRulesError for rules without an executor, or with unknown actions."""
        unknown = [f"{one.name} ({one.type})" for one in rules if not self._knows(one.type.upper())]
        if unknown:
            known = sorted({*_BUILT_IN, *self._executors})
            raise _refused(
                f"subject {subject!r} has rules of unknown types for {mode}: {', '.join(unknown)}. Types that are run "
                f"are {', '.join(known)}: give SchemaRules an executor for others, or say ignore_rules=True",
                subject,
                unknown,
            )
        for rule in rules:
            for action in (rule.action(mode, is_success=True), rule.action(mode, is_success=False)):
                if action not in _ACTIONS:
                    raise _refused(
                        f"the rule {rule.name!r} of subject {subject!r} has the action {action!r}: {_ACTIONS} are run",
                        subject,
                        [rule.name],
                    )

    # internals

    def _knows(self, name: str) -> bool:
        return name in self._executors or name in _BUILT_IN

    async def _executor(self, rule: Rule) -> RuleExecutor:
        name = rule.type.upper()
        found = self._executors.get(name)
        if found is None:
            module, class_name = _BUILT_IN[name]
            # Libraries of half a second: not on the loop.
            try:
                home = await asyncio.to_thread(importlib.import_module, f"{__package__}.{module}")
            except ModuleNotFoundError as missing:
                raise _refused(f"the rule {rule.name!r} cannot be run: {missing}", None, [rule.name]) from missing
            found = self._executors.setdefault(name, getattr(home, class_name)(self))
        return found


# internals


class _NotMetError(Exception):
    """A condition that does not hold."""


def _failing(error: BaseException) -> Apply:
    def apply(message: object, walk: Walk | None) -> object:
        raise error

    return apply


def _reason(rule: Rule, error: BaseException | None) -> str:
    if error is None:
        return "it made nothing of it"
    if isinstance(error, _NotMetError):
        return rule.doc or f"its condition does not hold: {rule.expr}"
    if isinstance(error, KafkaError):  # our own text
        return str(error)
    return f"it failed: {type(error).__name__}"  # a library's text may contain data


def _failure(step: _Step, reason: str, error: BaseException | None, *, is_success: bool = False) -> RuleFailedError:
    context = step.context
    rule, mode = context.rule, context.mode
    failed = RuleFailedError(
        f"the rule {rule.name!r} ({rule.type}, {mode}) of subject {context.subject!r}: {reason}",
        rule=rule.name,
        mode=mode,
        subject=context.subject,
    )
    failed.is_dead_letter = rule.action(mode, is_success=is_success) == "DLQ"
    if failed.is_dead_letter:
        failed.dead_letter_topic = context.parameter(_DLQ_TOPIC)
    if error is not None and not isinstance(error, _NotMetError):
        failed.__cause__ = error
    return failed


def _refused(text: str, subject: str | None, rules: Sequence[str]) -> SchemaRulesError:
    error = SchemaRulesError(text, subject=subject)
    error.rules = tuple(rules)
    return error
