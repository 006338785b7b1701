"""Topics with a type, CloudEvents, and a place for refused records: built on the producer's public calls.

    orders = Topic[Order]("orders", key=lambda order: order.id)
    await orders.send(producer, Order(...))

Models, events and failed records come in; records for the producer go out.

``topic`` turns a model into a record for the producer; ``cloud_events`` gives it the attributes of CloudEvents;
``dead_letters`` stands around a producer. Kafka has no counterpart: its serializers are typed, its topics are not.

Rules: a module is imported when its first name is asked for; of the producer's insides only the check of a call's
arguments and the size of a record are used, so that both apply the same rules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazy_names

if TYPE_CHECKING:
    from .cloud_events import CloudEvents, from_cloud_event
    from .dead_letters import DeadLetters, GuardedProducer, is_permanent
    from .topic import BoundTopic, Topic

__all__ = ["BoundTopic", "CloudEvents", "DeadLetters", "GuardedProducer", "Topic", "from_cloud_event", "is_permanent"]

_HOMES = {
    "BoundTopic": "topic",
    "CloudEvents": "cloud_events",
    "DeadLetters": "dead_letters",
    "GuardedProducer": "dead_letters",
    "Topic": "topic",
    "from_cloud_event": "cloud_events",
    "is_permanent": "dead_letters",
}

if not TYPE_CHECKING:  # it would give every name a type, and misspelt ones too
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    """The public names, for completion."""
    return sorted(__all__)
