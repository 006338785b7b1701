"""The plugin, in a pytest of its own, as a user's project has it: strict mode, marks, and no pytest-asyncio at all."""

from __future__ import annotations

import pytest

from aiokafkapy import KafkaProducer
from aiokafkapy.broker import DevBroker

LOOP_SCOPE = ("-o", "asyncio_default_fixture_loop_scope=function")


async def test_a_record_goes_from_the_producer_to_the_broker(
    kafka_producer: KafkaProducer, kafka_broker: DevBroker
) -> None:
    await kafka_producer.send("orders", b"1")
    assert [record.value for record in kafka_broker.records("orders")] == [b"1"]


@pytest.mark.kafka_broker(nodes=3, num_partitions=4)
@pytest.mark.kafka_producer(linger_ms=0, client_id="marked")
async def test_marks_set_options(kafka_producer: KafkaProducer, kafka_broker: DevBroker) -> None:
    assert kafka_broker.bootstrap_servers.count(",") == 2
    assert len(await kafka_producer.partitions_for("orders")) == 4
    assert kafka_producer.config.client_id == "marked"


def test_it_works_in_strict_mode_with_strict_marks(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_producer(linger_ms=0)
        @pytest.mark.asyncio
        async def test_it(kafka_producer, kafka_broker):
            assert (await kafka_producer.send("t", b"x")).offset == 0
            assert len(kafka_broker.records("t")) == 1
        """
    )
    result = pytester.runpytest_subprocess(
        "-p", "no:randomly", "--strict-markers", "--asyncio-mode=strict", *LOOP_SCOPE, "-Werror"
    )
    result.assert_outcomes(passed=1)


def test_without_pytest_asyncio_it_says_what_to_install(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_untouched():
            pass

        def test_asking(kafka_broker):
            pass
        """
    )
    pytester.makepyfile(
        without="""
        import importlib.util

        find_spec = importlib.util.find_spec
        importlib.util.find_spec = lambda name, *rest: None if name == "pytest_asyncio" else find_spec(name, *rest)
        """
    )
    script = pytester.makepyfile(
        run="""
        import sys
        import without, pytest
        sys.exit(pytest.main(["-p", "no:asyncio", "-p", "no:randomly"]))
        """
    )
    result = pytester.runpython(script)
    result.stdout.fnmatch_lines(
        ["*kafka_broker, kafka_cluster and kafka_producer need pytest-asyncio: pip install pytest-asyncio*"]
    )
    result.stdout.fnmatch_lines(["*1 passed*"])
