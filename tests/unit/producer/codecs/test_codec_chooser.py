"""The choice of a codec, from figures alone."""

from __future__ import annotations

import pytest

from aiokafkapy.producer.codecs.codec_chooser import (
    BYTE_PRICE,
    CANDIDATES,
    INTERVALS,
    LARGE,
    MARGIN,
    NONE,
    PATIENCE,
    Candidate,
    CodecChooser,
    Measurement,
)
from aiokafkapy.record.compression import Compression

LZ4 = Candidate(Compression.LZ4)
ZSTD_1, ZSTD_3, ZSTD_6 = (Candidate(Compression.ZSTD, level) for level in (1, 3, 6))
SIZE = 10_000


def figures(**ratios_and_ns: tuple[float, float]) -> dict[Candidate, Measurement]:
    """Measurements by candidate, of a ratio and nanoseconds of CPU for a byte each."""
    names = {"none": NONE, "lz4": LZ4, "zstd_1": ZSTD_1, "zstd_3": ZSTD_3, "zstd_6": ZSTD_6}
    return {
        names[name]: Measurement(SIZE, round(SIZE * ratio), SIZE * ns * 1e-9)
        for name, (ratio, ns) in ({"none": (1.0, 0.0)} | ratios_and_ns).items()
    }


JSON = figures(lz4=(0.5, 1.5), zstd_1=(0.3, 3), zstd_3=(0.25, 5), zstd_6=(0.24, 20))
NOISE = figures(lz4=(1.0, 3), zstd_1=(1.0, 4), zstd_3=(1.0, 5), zstd_6=(1.0, 6))


def test_the_first_codec_is_none_and_a_sample_is_due() -> None:
    chooser = CodecChooser()
    assert chooser.chosen == NONE
    assert chooser.is_due(0.0, SIZE)
    assert chooser.choice() == ("none", None, 1.0, 0.0, 0, "no sample yet")


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        (JSON, ZSTD_1),
        (NOISE, NONE),
        (figures(lz4=(0.9, 1), zstd_1=(0.85, 3)), NONE),  # it saves less than a tenth
        (figures(lz4=(0.4, 1), zstd_1=(0.38, 3), zstd_3=(0.37, 6)), LZ4),  # hardly smaller, and slower
        (figures(lz4=(0.5, 1), zstd_1=(0.3, 3), zstd_3=(0.05, 5), zstd_6=(0.045, 9)), ZSTD_3),
        (figures(lz4=(0.2, 100)), NONE),  # as of tiny batches: a call costs more than it saves
        (figures(lz4=(0.5, 0), zstd_1=(0.4, 0), zstd_3=(0.3, 0), zstd_6=(0.2, 0)), ZSTD_6),  # no clock: the smallest
    ],
)
def test_the_lowest_cost_wins(results: dict[Candidate, Measurement], expected: Candidate) -> None:
    chooser = CodecChooser()
    assert chooser.measured(results) == (expected != NONE)
    assert chooser.chosen == expected
    assert all(chooser.cost(expected) <= chooser.cost(each) / (1 - MARGIN) for each in results)


def test_the_choice_says_its_figures_and_the_costs_of_the_others() -> None:
    chooser = CodecChooser()
    chooser.measured(JSON)
    choice = chooser.choice()
    assert choice[:5] == ("zstd", 1, 0.3, 3.0, 1)
    assert choice.why == (
        "costs in ns for each byte: zstd at level 1 9.0, zstd at level 3 10.0, lz4 11.5, none 20.0, "
        "zstd at level 6 24.8"
    )
    assert BYTE_PRICE == 20e-9


def test_codecs_that_are_alike_do_not_take_turns() -> None:
    chooser = CodecChooser()
    chooser.measured(figures(lz4=(0.5, 1), zstd_1=(0.44, 1.5)))
    chosen = chooser.chosen
    for _ in range(10):
        assert not chooser.measured(figures(lz4=(0.45, 1), zstd_1=(0.45, 1.2)))
        assert not chooser.measured(figures(lz4=(0.46, 1), zstd_1=(0.44, 1)))
    assert chooser.chosen == chosen


def test_the_codec_follows_a_topic_whose_records_change() -> None:
    chooser = CodecChooser()
    chooser.measured(JSON)
    for _ in range(10):
        chooser.measured(NOISE)
    assert chooser.chosen == NONE
    for _ in range(10):
        chooser.measured(JSON)
    assert chooser.chosen == ZSTD_1


def test_a_codec_that_cannot_be_used_any_more_is_left() -> None:
    chooser = CodecChooser()
    chooser.measured(JSON)
    without_zstd = [NONE, LZ4]
    assert chooser.measured(JSON, without_zstd)
    assert chooser.chosen == LZ4
    assert chooser.measured(JSON, CANDIDATES)
    assert chooser.chosen == ZSTD_1


def test_a_library_that_is_missing_is_not_chosen() -> None:
    chooser = CodecChooser()
    chooser.measured(figures())
    assert chooser.chosen == NONE
    chooser.measured({})
    assert chooser.samples == 2


def test_a_sample_of_nothing_says_nothing() -> None:
    chooser = CodecChooser()
    assert not chooser.measured({LZ4: Measurement(0, 0, 1.0)})
    assert chooser.chosen == NONE


def test_samples_become_rare() -> None:
    chooser = CodecChooser()
    now, gaps = 100.0, []
    for _ in range(7):
        assert chooser.is_due(now, SIZE)
        chooser.begin(now)
        chooser.measured(JSON)
        began = now
        while not chooser.is_due(now, SIZE):
            now += 0.5
        gaps.append(now - began)
    assert gaps == [*INTERVALS[1:], INTERVALS[-1], INTERVALS[-1], INTERVALS[-1]]


def test_a_small_batch_is_a_sample_only_when_no_larger_one_comes() -> None:
    chooser = CodecChooser()
    assert not chooser.is_due(100.0, LARGE - 1)
    assert chooser.is_due(100.0, LARGE)
    assert not chooser.is_due(100.0 + PATIENCE - 0.1, 1)
    assert chooser.is_due(100.0 + PATIENCE, 1)
    chooser.begin(102.0)
    assert chooser.is_due(102.0 + INTERVALS[1], LARGE)
    assert not chooser.is_due(102.0 + INTERVALS[1], 1)
    assert chooser.is_due(102.0 + INTERVALS[1] + PATIENCE, 1)
