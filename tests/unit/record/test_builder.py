"""aiokafkapy.record.builder: the form that runs, and the same names in both."""

from __future__ import annotations

from types import ModuleType

from aiokafkapy import _form
from aiokafkapy.record import builder
from tests.forms import plain_form

from .conftest import KERNEL


def test_the_form_that_runs_is_the_one_that_was_asked_for() -> None:
    assert str(builder.__file__).endswith(".py") is not _form.compiled


def test_both_forms_have_the_same_public_names(kernel: ModuleType) -> None:
    plain = plain_form(KERNEL)
    assert set(kernel.__all__) == set(plain.__all__)
    members = {name for name in dir(plain.RecordBatchBuilder) if not name.startswith("_")}
    assert members == {name for name in dir(kernel.RecordBatchBuilder) if not name.startswith("_")}
