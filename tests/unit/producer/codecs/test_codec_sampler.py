"""Samples of batches: their choice, their measurements, and the codec that follows."""

from __future__ import annotations

import asyncio
import builtins
import logging
import os
from collections.abc import Callable
from typing import Any

import pytest

from aiokafkapy.common import TopicPartition
from aiokafkapy.producer.accumulator.producer_batch import ProducerBatch
from aiokafkapy.producer.codecs import codec_sampler
from aiokafkapy.producer.codecs.codec_chooser import CANDIDATES, NONE, Candidate, Measurement
from aiokafkapy.producer.codecs.codec_sampler import LEAST_PAUSE, SAMPLE, CodecSampler, measure
from aiokafkapy.record import compression
from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

TEXT = b'{"customer": "ann", "item": "tea", "count": 3}' * 40


class Loop:
    """A clock of the test's, and threads that work when it says so."""

    def __init__(self) -> None:
        self.now = 100.0
        self.work: list[tuple[asyncio.Future[Any], Callable[[], Any]]] = []
        self.is_ending = False

    def time(self) -> float:
        return self.now

    def run_in_executor(self, executor: Any, function: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        if self.is_ending:
            raise RuntimeError("cannot schedule new futures after shutdown")
        future = asyncio.get_running_loop().create_future()
        self.work.append((future, lambda: function(*args)))
        return future

    async def finish(self) -> None:
        """Do the thread's work."""
        future, function = self.work.pop(0)
        try:
            future.set_result(function())
        except Exception as error:
            future.set_exception(error)
        await asyncio.sleep(0)


class Accumulator:
    def __init__(self) -> None:
        self.used: list[tuple[str, int, int | None]] = []

    def use_codec(self, topic: str, codec: int, level: int | None) -> None:
        self.used.append((topic, codec, level))


class Rig:
    def __init__(self, **options: Any) -> None:
        self.loop, self.accumulator = Loop(), Accumulator()
        self.takes_zstd = True
        loop: Any = self.loop
        accumulator: Any = self.accumulator
        self.sampler = CodecSampler(
            accumulator, options.pop("then", None), loop=loop,
            is_default=options.pop("is_default", True), topics=options.pop("topics", {}),
            takes_zstd=lambda: self.takes_zstd,
        )  # fmt: skip

    def deliver(self, value: bytes = TEXT, topic: str = "t", codec: int = 0) -> None:
        self.sampler.completed(sealed(value, topic, codec), 0, self.loop.now)

    async def sample(self, value: bytes = TEXT, topic: str = "t", codec: int = 0) -> None:
        self.deliver(value, topic, codec)
        await self.loop.finish()
        self.loop.now += 100.0


def sealed(value: bytes = TEXT, topic: str = "t", codec: int = 0) -> ProducerBatch:
    batch = ProducerBatch(TopicPartition(topic, 0), RecordBatchBuilder(10_000_000), 0.0, compression=codec)
    for _ in range(3):
        batch.try_append(1, None, value, None)
    batch.seal()
    return batch


@pytest.fixture(autouse=True)
def no_cpu_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine's speed decides nothing here."""
    monkeypatch.setattr("time.thread_time", lambda: 1.0)


async def test_text_is_compressed_after_its_first_sample_and_noise_is_not(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig()
    with caplog.at_level(logging.DEBUG, codec_sampler.__name__):
        await rig.sample()
        await rig.sample(os.urandom(100_000), "noise")
    ((topic, codec, _),) = rig.accumulator.used
    assert (topic, codec) == ("t", Compression.ZSTD)
    choices = rig.sampler.choices()
    assert choices["t"].codec == "zstd"
    assert choices["t"].ratio < 0.1
    assert choices["noise"].codec == "none"
    assert [record.getMessage().split()[:2] for record in caplog.records] == [["codec.chosen", "topic=t"]]


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD, Compression.GZIP, Compression.SNAPPY])
async def test_a_batch_that_is_compressed_already_is_a_sample_too(codec: Compression) -> None:
    plain, packed = Rig(), Rig()
    await plain.sample()
    await packed.sample(codec=codec)
    assert packed.sampler.choices() == plain.sampler.choices()


async def test_samples_are_taken_one_at_a_time_with_pauses_between_them() -> None:
    rig = Rig()
    rig.deliver(topic="a")
    rig.deliver(topic="b")
    assert len(rig.loop.work) == 1
    await rig.loop.finish()
    rig.deliver(topic="b")
    assert rig.loop.work == []
    rig.loop.now += LEAST_PAUSE
    rig.deliver(topic="a")  # which has had its own
    assert rig.loop.work == []
    rig.deliver(topic="b")
    assert len(rig.loop.work) == 1


async def test_only_topics_whose_codec_is_chosen_are_sampled() -> None:
    rig = Rig(is_default=False, topics={"mine": True, "other": False})
    for topic in ("other", "third"):
        rig.deliver(topic=topic)
    assert rig.loop.work == []
    rig.deliver(topic="mine")
    assert len(rig.loop.work) == 1
    rig = Rig(topics={"other": False})
    rig.deliver(topic="other")
    assert rig.loop.work == []


async def test_without_zstd_on_all_brokers_it_is_not_used() -> None:
    rig = Rig()
    rig.takes_zstd = False
    await rig.sample()
    assert rig.accumulator.used == [("t", Compression.LZ4, None)]
    rig.takes_zstd = True
    await rig.sample()
    assert rig.accumulator.used[1][:2] == ("t", Compression.ZSTD)
    rig.takes_zstd = False
    await rig.sample()
    assert rig.accumulator.used[2] == ("t", Compression.LZ4, None)


async def test_a_codec_that_a_broker_refuses_is_used_for_no_topic_any_more(caplog: pytest.LogCaptureFixture) -> None:
    rig = Rig(topics={"own": False})
    for topic in ("t", "u"):
        await rig.sample(topic=topic)
    used = rig.accumulator.used
    assert [codec for _, codec, _ in used] == [Compression.ZSTD] * 2
    assert not rig.sampler.refused("own", Compression.ZSTD)
    assert rig.sampler.refused("t", Compression.ZSTD)
    assert rig.sampler.refused("u", Compression.ZSTD)  # a batch of before
    assert used[2:] == [("t", Compression.NONE, None), ("u", Compression.NONE, None)]
    assert caplog.text.count("codec.refused") == 1
    await rig.sample()
    assert used[4:] == [("t", Compression.LZ4, None)]
    assert rig.sampler.refused("t", Compression.LZ4)
    await rig.sample()
    assert used[5:] == [("t", Compression.NONE, None)]


async def test_a_sample_that_fails_changes_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rig = Rig()
    with monkeypatch.context() as patch, caplog.at_level(logging.DEBUG, codec_sampler.__name__):
        patch.setattr(codec_sampler, "compress", lambda *_: 1 / 0)
        await rig.sample()
    assert rig.accumulator.used == []
    assert caplog.records[0].getMessage().startswith("codec.sample_failed")
    await rig.sample()
    assert len(rig.accumulator.used) == 1


async def test_at_its_end_nothing_runs_and_nothing_is_changed() -> None:
    rig = Rig()
    await rig.sampler.settled()
    rig.deliver()
    rig.sampler.abort()
    rig.sampler.abort()
    settled = asyncio.ensure_future(rig.sampler.settled())
    await rig.loop.finish()
    await settled
    assert rig.accumulator.used == []
    rig.deliver(topic="another")
    assert rig.loop.work == []


async def test_where_no_thread_can_be_started_there_is_no_sample() -> None:
    rig = Rig()
    rig.loop.is_ending = True
    rig.deliver()
    rig.deliver()
    assert rig.sampler.choices() == {}
    await rig.sampler.settled()


async def test_everything_is_passed_on_to_the_watch_behind_it() -> None:
    class Next:
        def __init__(self) -> None:
            self.told: list[tuple[Any, ...]] = []

        def completed(self, *told: Any) -> None:
            self.told.append(told)

        answered = failed = completed

    then = Next()
    rig = Rig(then=then)
    batch = sealed()
    rig.sampler.answered(3, 0.5)
    rig.sampler.completed(batch, 7, 1.0)
    rig.sampler.failed(batch, 2, KeyError("x"), 2.0)
    assert [each[0] for each in then.told] == [3, batch, batch]
    Rig().sampler.failed(batch, 2, KeyError("x"), 2.0)


class TestMeasure:
    def test_it_tells_the_result_of_each_candidate(self) -> None:
        results = measure(0, TEXT, len(TEXT))
        assert set(results) == set(CANDIDATES)
        assert results[NONE] == Measurement(len(TEXT), len(TEXT), 0.0)
        for candidate in CANDIDATES[1:]:
            expected = len(compress(candidate.codec, TEXT, candidate.level))
            assert results[candidate] == Measurement(len(TEXT), expected, 0.0)

    def test_it_takes_the_time_of_its_thread(self, monkeypatch: pytest.MonkeyPatch) -> None:
        ticks = iter(range(100))
        monkeypatch.setattr("time.thread_time", lambda: next(ticks))
        results = measure(0, TEXT, len(TEXT))
        assert [results[each].cpu_seconds for each in CANDIDATES] == [0.0, 1, 1, 1, 1]

    def test_a_sample_is_a_part_of_a_large_batch(self) -> None:
        data = TEXT * 100
        for codec in (Compression.NONE, Compression.LZ4):
            results = measure(codec, compress(codec, data), len(data))
            assert {each.bytes_in for each in results.values()} == {SAMPLE}

    def test_a_batch_that_compression_makes_longer_counts_as_it_is_sent(self) -> None:
        noise = os.urandom(1_000)
        assert {each.bytes_out for each in measure(0, noise, len(noise)).values()} == {1_000}

    def test_a_codec_without_its_library_is_left_out(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = builtins.__import__

        def without_cramjam(name: str, *args: Any) -> Any:
            if name == "cramjam":
                raise ImportError(name)
            return real(name, *args)

        compression._cramjam.cache_clear()
        monkeypatch.setattr("builtins.__import__", without_cramjam)
        candidates = (*CANDIDATES, Candidate(Compression.GZIP, 6))
        assert set(measure(0, TEXT, len(TEXT), candidates)) == {NONE, Candidate(Compression.GZIP, 6)}
