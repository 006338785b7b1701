"""aiokafkapy.producer.deliveries.returned: the iterator of an awaited object whose value is there, in both forms."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

from aiokafkapy.producer.deliveries.returned import returned


class Awaited:
    """Awaiting it gives ``value`` at once."""

    def __init__(self, value: object) -> None:
        self._value = value

    def __await__(self) -> Generator[Any, None, Any]:
        return returned(self._value)


@pytest.mark.parametrize("value", [None, 7, (1, 2), (), StopIteration(5), ValueError("a value like any other"), [3]])
async def test_the_value_is_what_await_gives(value: object) -> None:
    assert await Awaited(value) is value


@pytest.mark.parametrize("value", [None, 7, (1, 2), StopIteration(5), ValueError("a value like any other")])
@pytest.mark.parametrize("step", [next, lambda iterator: iterator.send(None)], ids=["next", "send"])
def test_the_first_step_returns_the_value_and_a_second_one_none(value: object, step: Any) -> None:
    iterator = returned(value)
    assert iter(iterator) is iterator
    with pytest.raises(StopIteration) as caught:
        step(iterator)
    assert caught.value.value is value
    with pytest.raises(StopIteration) as caught:
        step(iterator)
    assert caught.value.value is None


def test_it_can_be_delegated_to() -> None:
    def outer() -> Generator[Any, None, object]:
        return (yield from returned(7))

    with pytest.raises(StopIteration) as caught:
        next(outer())
    assert caught.value.value == 7
