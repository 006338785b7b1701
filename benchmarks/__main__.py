"""``python -m benchmarks``: every client against one real Kafka, interleaved; a table, the goals, and a file.

``python -m benchmarks check`` measures the client's own CPU without a broker and fails when it got worse;
``python -m benchmarks instructions`` counts its instructions, which swing less than time;
``python -m benchmarks spark`` measures the Spark data source.
"""

from __future__ import annotations

import argparse
import asyncio
import signal
import sys
from pathlib import Path

from .charts import draw
from .goals import answers
from .report import charts_section, compare, full_markdown, goals_text, put_into_page, readme_section, table
from .results import Results
from .runner import Runner
from .suite import everything, quick, select

ROOT = Path(__file__).parents[1]
RESULTS = Path(__file__).parent / "results"
ROUNDS = 3


def main() -> int:
    """Run the command line's choice; 1 when a measurement failed."""
    if sys.argv[1:2] == ["check"]:
        from .micro.check import main as check

        return check(sys.argv[2:]) or 0
    if sys.argv[1:2] == ["instructions"]:
        from .micro.instructions import main as instructions

        return instructions(sys.argv[2:])
    if sys.argv[1:2] == ["spark"]:
        from .spark.command import main as spark

        return spark(sys.argv[2:])
    parser = _parser()
    arguments = parser.parse_args()
    if arguments.readme and (arguments.quick or arguments.only or arguments.out):
        parser.error("--readme is for the whole suite, whose results are in benchmarks/results")
    measurements = select(quick() if arguments.quick else everything(), arguments.only)
    if arguments.list:
        print("\n".join(f"{m.label} · {m.count:,}" for m in measurements))
        return 0
    if not measurements:
        print(f"no measurement is called {arguments.only!r}: see --list", file=sys.stderr)
        return 2
    old = Results.read(arguments.compare) if arguments.compare else None
    rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
    runner = Runner(measurements, rounds, uncounted=0 if arguments.quick else 1)
    # Ends like Ctrl-C: otherwise the worker of the measurement under way would outlive this process. SIGINT itself is
    # not used, for a shell's background jobs ignore it.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        results = asyncio.run(runner.run())
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    is_whole = not arguments.quick and arguments.only is None
    found = [answer for answer in answers(results) if is_whole or answer.value is not None]
    print(table(results), goals_text(found), sep="\n\n")
    if old is not None:
        print(f"\n{compare(results, old)}")
    if is_whole or arguments.out:
        directory = arguments.out or RESULTS
        results.write(directory / f"{results.date}.json", [answer.to_dict() for answer in found])
        (directory / f"{results.date}.md").write_text(full_markdown(results, found))
        charts = draw(results, directory)
        if arguments.readme:
            page = ROOT / "docs" / "benchmarks.md"
            put_into_page(ROOT / "README.md", readme_section(results))
            put_into_page(page, charts_section(charts, page), "charts")
    for label, failures in results.failures.items():
        print(f"\nFAILED {label}\n" + "\n".join(failures), file=sys.stderr)
    return 1 if results.failures else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute: fewer rows and records, one round")
    parser.add_argument("--rounds", type=int, metavar="N", help=f"counted rounds (default {ROUNDS}, quick 1)")
    parser.add_argument("--only", metavar="PATTERN", help="measurements whose name contains or matches this")
    parser.add_argument("--compare", type=Path, metavar="FILE", help="print ratios to an earlier run's JSON")
    parser.add_argument("--list", action="store_true", help="name the measurements and measure nothing")
    parser.add_argument("--readme", action="store_true", help="put the table into README.md and the charts into docs")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="folder for the results (a part of the suite: only if given)"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
