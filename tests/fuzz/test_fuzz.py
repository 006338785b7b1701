"""Untrusted bytes: every past finding, and some seconds of new inputs for each target.

``python -m tests.fuzz`` is the long form of the same, and keeps its findings.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from . import __main__ as command
from . import targets
from .corpus import CORPUS, kept, read, write
from .mutator import mutate
from .targets import TARGETS, ExcessiveMemoryError, Target, check, opened

EXAMPLES = {
    "responses": 100,
    "client": 30,
    "batches": 100,
    "calls": 30,
    "tls_client": 40,
    "tls_server": 40,
}


def examples_of(target: Target) -> int:
    """The number of inputs of each kind for which a run of the tests has time; ``make fuzz`` has more."""
    return EXAMPLES.get(target.name, 75)


@pytest.fixture(params=sorted(TARGETS), scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    with opened(TARGETS[request.param]()) as found:
        yield found


def test_kept_inputs_are_read_without_a_finding(target: Target) -> None:
    paths = kept(target.name)
    assert paths, "each target has a corpus"
    for path in paths:
        check(target, read(path))


def test_each_corpus_has_its_target() -> None:
    assert sorted(path.name for path in CORPUS.iterdir()) == sorted(TARGETS)


def test_damaged_messages_are_read_without_a_finding(target: Target) -> None:
    """Hypothesis chooses the damage, and shrinks its findings."""

    @settings(max_examples=examples_of(target), suppress_health_check=list(HealthCheck), database=None)
    @given(seed=st.integers(0, 2**32), damage=st.integers(0, 2**32))
    def damaged(seed: int, damage: int) -> None:
        chance = random.Random(damage)
        data = target.valid(random.Random(seed))
        check(target, mutate(data, target.valid(chance), chance) if damage else data)

    damaged()


def test_noise_is_read_without_a_finding(target: Target) -> None:
    @settings(max_examples=examples_of(target) // 3, suppress_health_check=list(HealthCheck), database=None)
    @given(st.binary(max_size=120))
    def noise(data: bytes) -> None:
        check(target, data)

    noise()


# the machinery


class Broken(Target):
    """Believes a length, and trips over a byte."""

    name = "broken"

    def valid(self, chance: random.Random) -> bytes:
        return b"\1\2\3\4"

    def run(self, data: bytes) -> None:
        if data[:1] == b"\xee":
            raise KeyError("tripped")
        bytearray(int.from_bytes(data[:4], "big") % (1 << 28))


def test_a_bomb_and_a_wrong_exception_are_findings() -> None:
    with opened(Broken()) as broken:
        check(broken, b"\0\0\1\0")
        with pytest.raises(ExcessiveMemoryError, match="4 bytes cost"):
            check(broken, b"\x0e\0\0\0")
        with pytest.raises(KeyError):
            check(broken, b"\xee")


def test_the_command_writes_its_findings_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(TARGETS, "frames", Broken)
    monkeypatch.setattr(targets, "TARGETS", TARGETS)
    found = tmp_path / "found"
    assert command.main(["--inputs", "400", "--seed", "3", "--target", "frames", "--findings", str(found)]) == 1
    files = sorted((found / "broken").glob("*.hex"))
    assert files
    said = capfd.readouterr()
    assert str(files[0]) in said.out
    assert "Traceback" in said.err
    again = tmp_path / "again"
    command.main(["--inputs", "400", "--seed", "3", "--target", "frames", "--findings", str(again)])
    assert [path.name for path in sorted((again / "broken").glob("*.hex"))] == [path.name for path in files]
    replay = ["--replay", str(files[0]), "--target", "frames", "--findings", str(again)]
    assert command.main(replay) == 1
    kept_well = write(tmp_path, b"\0\0\1\0", "fine")
    assert command.main(["--replay", str(kept_well), "--target", "frames"]) == 0


def test_the_command_has_help_and_an_exit_status() -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        root = Path(__file__).resolve().parents[2]
        return subprocess.run(
            [sys.executable, "-m", "tests.fuzz", *arguments], cwd=root, capture_output=True, text=True, timeout=120
        )

    helped = run("--help")
    assert helped.returncode == 0
    assert "--minutes" in helped.stdout
    done = run("--inputs", "50", "--target", "frames")
    assert (done.returncode, "50 inputs" in done.stdout) == (0, True), done.stderr
