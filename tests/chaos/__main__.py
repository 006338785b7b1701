"""``python -m tests.chaos``: three real Kafka nodes under load and under faults; exit status 1 when a promise broke.

Faults are kill -9, SIGSTOP, restarts, elections and reassignments, the same ones for the same seed. Afterwards every
record is read back: each acknowledged record must be there once, in order, where the producer said. With
--transactions copiers meanwhile consume one topic and produce to another, are themselves killed, cancelled and
overtaken, and the copy must have each record once, in order.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import sys
from functools import partial

from aiokafkapy.testing import ApacheKafka, KafkaUnavailableError

from .run import Report, run


def main() -> int:
    """Run the command line: 0 is well, 1 a finding, 2 no Kafka."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--minutes", type=float, default=5.0, metavar="M", help="of faults (default 5)")
    parser.add_argument("--seed", type=int, metavar="N", help="of the faults (default: any, which is printed)")
    parser.add_argument("--transactions", action="store_true", help="copy from topic to topic, exactly once")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(1_000_000) if arguments.seed is None else arguments.seed
    print(f"seed {seed}, {arguments.minutes:g} minutes; three nodes are starting", flush=True)
    try:
        report = asyncio.run(run_on_three_nodes(seed, arguments.minutes * 60, transactions=arguments.transactions))
    except KafkaUnavailableError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"interrupted, with seed {seed}", file=sys.stderr)
        return 130
    print(report)
    return 1 if report.findings else 0


async def run_on_three_nodes(seed: int, seconds: float, *, transactions: bool) -> Report:
    """The report of one run on real nodes, which start for it and end with it."""
    async with ApacheKafka(nodes=3, config={"auto.create.topics.enable": False}) as kafka:
        say = partial(print, flush=True)
        return await run(kafka, seed, seconds=seconds, transactions=transactions, say=say)


if __name__ == "__main__":
    sys.exit(main())
