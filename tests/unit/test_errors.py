"""The error tree: codes, flags, copies."""

import pickle
import re

import pytest
from kio.schema.errors import ErrorCode

from aiokafkapy import errors
from aiokafkapy.errors import base, local
from aiokafkapy.errors.remedies import REMEDIES, remedy_of

RETRIABLE = {
    2,
    3,
    5,
    6,
    7,
    9,
    13,
    14,
    15,
    16,
    19,
    20,
    41,
    51,
    56,
    70,
    71,
    72,
    74,
    75,
    78,
    80,
    83,
    84,
    88,
    89,
    100,
    103,
    106,
}
INVALID_METADATA = {3, 5, 6, 9, 13, 56, 72, 74, 80, 83, 84, 100, 103}


def test_every_code_of_the_protocol_has_its_class() -> None:
    for member in ErrorCode:
        if member.value:
            assert errors.for_code(member.value).code == member.value, member


def test_flags_are_kafkas() -> None:
    codes = [member.value for member in ErrorCode if 0 < member.value <= 120]
    assert {code for code in codes if errors.for_code(code).retriable} == RETRIABLE
    assert {code for code in codes if errors.for_code(code).invalid_metadata} == INVALID_METADATA


def test_an_unknown_code_keeps_its_number() -> None:
    error = errors.make(9999, "new in 5.0", topic="t", partition=2)
    assert isinstance(error, errors.UnknownServerError)
    assert "9999" in str(error)
    assert "new in 5.0" in str(error)
    assert "t-2" in str(error)


def test_an_error_says_its_place_and_cause() -> None:
    error = errors.make(6, topic="orders", partition=1)
    assert type(error) is errors.NotLeaderOrFollowerError
    assert (error.topic, error.partition, error.retriable) == ("orders", 1, True)
    assert str(error).startswith("orders-1: ")


def test_a_fresh_copy_has_the_fields_and_no_traceback() -> None:
    try:
        raise errors.RecordTooLargeError("big", size=2_000, limit=1_000, topic="t") from ValueError("cause")
    except errors.RecordTooLargeError as error:
        original = error
    twin = original.fresh()
    assert twin is not original
    assert twin.__traceback__ is None
    assert original.__traceback__ is not None
    assert (twin.size, twin.limit, twin.topic, str(twin)) == (2_000, 1_000, "t", "big")
    assert isinstance(twin.__cause__, ValueError)


@pytest.mark.parametrize(
    "error", [errors.make(10, topic="t"), errors.RecordTooLargeError("x", size=1, limit=2), errors.KafkaError()]
)
def test_errors_survive_pickling(error: errors.KafkaError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_errors_are_also_the_ones_that_python_would_raise() -> None:
    assert issubclass(errors.DeliveryTimeoutError, TimeoutError)
    assert issubclass(errors.DisconnectedError, ConnectionError)
    assert issubclass(errors.ConfigurationError, ValueError)
    assert issubclass(errors.RecordTooLargeError, errors.MessageTooLargeError)


def test_a_note_to_a_fresh_copy_is_its_own() -> None:
    original = errors.KafkaError("x")
    original.add_note("of all")
    twin = original.fresh()
    twin.add_note("of one")
    assert original.__notes__ == ["of all"]
    assert twin.__notes__ == ["of all", "of one"]


def public_errors() -> list[type[errors.KafkaError]]:
    found = [found for name in dir(errors) if isinstance(found := getattr(errors, name), type)]
    return [each for each in found if issubclass(each, errors.KafkaError)]


def test_every_error_has_a_remedy_of_its_own() -> None:
    names = {error.__name__ for error in public_errors()}
    assert len(names) > 150
    assert set(REMEDIES) == names
    for error in public_errors():
        assert error.remedy == error().remedy == REMEDIES[error.__name__]
        assert 10 < len(error.remedy) < 120, error
        assert "\n" not in error.remedy
        assert not error.remedy.endswith("."), error


def test_a_user_s_own_error_has_the_remedy_of_its_base() -> None:
    class OurError(errors.RecordTooLargeError):
        pass

    assert OurError().remedy == errors.RecordTooLargeError.remedy
    assert remedy_of(ValueError) == ""


def test_few_errors_end_a_transaction_or_the_producer() -> None:
    """KIP-1050's classes; transactions and their attempts ask the flags."""
    assert {error.__name__ for error in public_errors() if error.fatal} == {
        "ClusterAuthorizationFailedError",
        "ForkedProducerError",
        "InvalidProducerIdMappingError",
        "InvalidTransactionTimeoutError",
        "InvalidTxnStateError",
        "ProducerClosedError",
        "ProducerFencedError",
        "SenderCrashedError",
        "TransactionCoordinatorFencedError",
        "TransactionalIdAuthorizationFailedError",
        "UnsupportedForMessageFormatError",
        "UnsupportedVersionError",
    }
    assert {error.__name__ for error in public_errors() if error.abortable} == {
        "InvalidProducerEpochError",
        "OutOfOrderSequenceNumberError",
        "TransactionAbortableError",
        "UnknownProducerIdError",
    }
    assert not any(error.fatal and (error.retriable or error.abortable) for error in public_errors())


def test_the_tree_has_every_error_of_ours_and_every_field() -> None:
    tree = errors.__doc__ or ""
    shown = {*re.findall(r"\w+-?", tree)}
    names = [*base.__all__, *local.__all__]
    assert [name for name in names if not {name, name.removesuffix("Error") + "-"} & shown] == []
    fields = [*vars(errors.KafkaError("x")), *(name for name in errors.KafkaError.__annotations__)]
    assert [name for name in fields if name not in shown] == []
