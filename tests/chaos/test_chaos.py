"""One round of all faults on three real nodes; ``make chaos`` is the long run."""

from __future__ import annotations

import pytest

from aiokafkapy.testing import ApacheKafka

from . import __main__ as program
from .run import Report, run
from .schedule import Kind

SEED = 1
"""The seed's one round takes two nodes away at once, pauses one for nine seconds and moves a partition meanwhile."""
SECONDS_OF_COPYING = 12
"""The fault that is under way then comes to its end."""


@pytest.mark.kafka
@pytest.mark.timeout(600)
async def test_a_round_of_faults_breaks_no_promise(kafka3: ApacheKafka) -> None:
    report = await run(kafka3, SEED, seconds=0, rounds=1)
    print(report)
    assert report.findings == []
    assert set(report.faults) == set(Kind)
    assert kafka3.running == kafka3.node_ids
    assert report.retries > 0, "no fault met a record"
    assert report.acknowledged > report.sent / 3


@pytest.mark.kafka
@pytest.mark.timeout(600)
async def test_faults_copy_each_record_once(kafka3: ApacheKafka) -> None:
    """Some faults only: ``python -m tests.chaos --transactions`` is the long run."""
    report = await run(kafka3, SEED, seconds=SECONDS_OF_COPYING, transactions=True)
    print(report)
    assert report.findings == []
    assert kafka3.running == kafka3.node_ids
    copies = report.copies
    assert copies is not None
    assert copies.committed > 0
    assert copies.strikes.total() > 1
    assert copies.started.total() > len(copies.started), "no copier began anew"
    assert report.acknowledged > report.sent / 3


def test_a_finding_is_the_program_s_exit_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def found(seed: int, seconds: float, *, transactions: bool) -> Report:
        assert seconds == 30
        assert transactions is (seed == 8)
        return Report(seed, findings=["1 record acknowledged and lost"] * (seed == 8))

    monkeypatch.setattr(program, "run_on_three_nodes", found)
    monkeypatch.setattr("sys.argv", ["chaos", "--minutes", "0.5", "--seed", "8", "--transactions"])
    assert program.main() == 1
    said = capsys.readouterr().out
    assert said.startswith("seed 8, ")
    assert "FINDING: 1 record acknowledged and lost" in said
    monkeypatch.setattr("sys.argv", ["chaos", "--minutes", "0.5", "--seed", "9"])
    assert program.main() == 0
