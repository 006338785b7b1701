"""``python -m benchmarks.micro.codecs``: the cost of our codecs, beside the peers', and the size from which a thread
pays.

Three tables:

1. Each codec and level beside aiokafka's function for it (``--only``), on JSON and on noise of 16 KiB, 128 KiB and
   1 MiB: CPU time, ratio, and ours divided by theirs. A level is compared with the one of theirs that gives the same
   ratio: Java's default for lz4, 9, is the library's fast compressor, level 1 in aiokafka.
2. The cost of passing a batch to a thread and back, and the size of JSON from which each codec costs more than that,
   beside ``inline_limit``, up to which the producer compresses on the loop.
3. With ``--librdkafka``: the same data through confluent-kafka into a dev broker. CPU of its process is with the codec
   less than without, for each MiB; the ratio is that of the bytes it sent.

Times are the best of several, each on another part of the data: a codec that sees the same bytes again is faster.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
import resource
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import uvloop

from aiokafkapy.broker import DevBroker
from aiokafkapy.record.compression import Compression, compress, inline_limit

from .sample_data import json_like, noise

__all__ = ["main"]

KIB = 1024
MIB = 1024 * KIB
SIZES = (16 * KIB, 128 * KIB, MIB)
DATA_SIZE = 8 * MIB
SLOWER = 1.05
"""Ours divided by theirs, from which a row is marked."""
CALL_SECONDS = 2e-6
"""The extra cost of a call that is not marked."""
REPEATS = 3
"""The number of times that a row that looks slower is measured again."""
WORTH_A_THREAD_US = 40.0
TOPIC = "codecs"
SENT = 32 * MIB
VALUE_SIZE = 4 * KIB

# Codec, our level, the peer's level of the same ratio; None is the codec's only one.
LEVELS: tuple[tuple[Compression, int | None, int | None], ...] = (
    (Compression.GZIP, 1, 1),
    (Compression.GZIP, 6, 6),
    (Compression.GZIP, 9, 9),
    (Compression.SNAPPY, None, None),
    (Compression.LZ4, 9, 1),
    (Compression.LZ4, 3, 3),
    (Compression.LZ4, 8, 8),
    (Compression.LZ4, 10, 9),
    (Compression.ZSTD, -5, -5),
    (Compression.ZSTD, 1, 1),
    (Compression.ZSTD, 3, 3),
    (Compression.ZSTD, 9, 9),
    (Compression.ZSTD, 19, 19),
)
LIBRDKAFKA: tuple[tuple[Compression, int | None], ...] = (
    (Compression.NONE, None),
    (Compression.GZIP, 1),
    (Compression.GZIP, 6),
    (Compression.GZIP, 9),
    (Compression.SNAPPY, None),
    (Compression.LZ4, 0),  # its default, the fast compressor
    (Compression.LZ4, 3),
    (Compression.LZ4, 8),
    (Compression.ZSTD, 1),
    (Compression.ZSTD, 3),
    (Compression.ZSTD, 9),
)

Compressor = Callable[[memoryview], bytes]


def compare_with_aiokafka(only: str | None) -> None:
    """The first table."""
    print(f"{'CPU ms':30}{'ours':>10}{'aiokafka':>10}{'ours/theirs':>13}{'ratio':>10}{'theirs':>9}")
    for codec, level, peer_level in LEVELS:
        for (kind, data), size in itertools.product((("JSON", json_like), ("noise", noise)), SIZES):
            name = f"{_name(codec, level)} {kind} {_size(size)}"
            if only is not None and not re.search(only, name):
                continue
            blocks = _blocks(data(DATA_SIZE), size)
            both = partial(_compress, codec, level), _of_aiokafka(codec, peer_level)
            ours, theirs = _cpu_of_both(*both, blocks)
            for _ in range(REPEATS):
                if ours <= theirs * SLOWER:
                    break
                again = _cpu_of_both(*both, blocks)
                ours, theirs = min(ours, again[0]), min(theirs, again[1])
            ratios = [size / len(run(blocks[0])) for run in both]
            is_slower = ours > max(theirs * SLOWER, theirs + CALL_SECONDS) and ratios[0] < ratios[1] * SLOWER
            mark = "  SLOWER" if is_slower else ""
            print(
                f"{name:30}{ours * 1e3:10.3f}{theirs * 1e3:10.3f}{ours / theirs:13.2f}"
                f"{ratios[0]:10.2f}{ratios[1]:9.2f}{mark}"
            )


async def find_where_threads_pay() -> None:
    """The second table."""
    wall, cpu = await _hop()
    print(f"\nto a thread and back: {wall * 1e6:.0f} µs, {cpu * 1e6:.0f} µs of the loop's own CPU")
    print(f"{'JSON':30}{f'{WORTH_A_THREAD_US:.0f} µs from':>14}{'inline limit':>14}{'µs there':>10}{'1 MiB ms':>10}")
    data = json_like(DATA_SIZE)
    for codec, level, _ in LEVELS:
        run = partial(_compress, codec, level)
        sizes = [256 << half for half in range(10)]
        slow = next((s for s in sizes if _cpu(run, _blocks(data, s)) * 1e6 > WORTH_A_THREAD_US), None)
        limit = inline_limit(codec, level)
        there, whole = _cpu(run, _blocks(data, limit)), _cpu(run, _blocks(data, MIB))
        found = "more" if slow is None else _size(slow)
        print(f"{_name(codec, level):30}{found:>14}{_size(limit):>14}{there * 1e6:10.0f}{whole * 1e3:10.2f}")


async def compare_with_librdkafka() -> None:
    """The third table."""
    print(f"\n{'JSON, batches of 128 KiB':30}{'ours ms/MiB':>13}{'librdkafka':>12}{'ratio':>10}{'theirs':>9}")
    blocks = _blocks(json_like(DATA_SIZE), 128 * KIB)
    async with DevBroker() as broker:
        base = 0.0
        for codec, level in LIBRDKAFKA:
            cpu, sent = await _through_librdkafka(broker.bootstrap_servers, codec, level)
            if codec is Compression.NONE:
                base = cpu
                continue
            our_level = 9 if codec is Compression.LZ4 and level == 0 else level
            run = partial(_compress, codec, our_level)
            ours, made = _cpu(run, blocks) * 8, len(run(blocks[0]))
            print(
                f"{_name(codec, our_level):30}{ours * 1e3:13.2f}{(cpu - base) / (SENT / MIB) * 1e3:12.2f}"
                f"{len(blocks[0]) / made:10.2f}{SENT / sent:9.2f}"
            )


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.micro.codecs", description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", help="rows of the first table that match this regular expression")
    parser.add_argument("--librdkafka", action="store_true", help="also compare with librdkafka")
    parser.add_argument("--produce", nargs=3, metavar=("SERVERS", "CODEC", "LEVEL"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce is not None:
        _produce(*arguments.produce)
        return
    compare_with_aiokafka(arguments.only)
    uvloop.run(find_where_threads_pay())
    if arguments.librdkafka:
        uvloop.run(compare_with_librdkafka())


# internals


def _compress(codec: Compression, level: int | None, block: memoryview) -> bytes:
    return compress(codec, block, level)


def _of_aiokafka(codec: Compression, level: int | None) -> Compressor:
    from aiokafka import codec as theirs

    functions: dict[Compression, Any] = {
        Compression.GZIP: theirs.gzip_encode,
        Compression.SNAPPY: theirs.snappy_encode,
        Compression.LZ4: theirs.lz4_encode,
        Compression.ZSTD: theirs.zstd_encode,
    }
    encode = functions[codec]
    # Its batches are bytearrays; lz4 alone wants bytes.
    return lambda block: encode(bytes(block)) if level is None else encode(bytes(block), level)


def _blocks(data: bytes, size: int) -> list[memoryview]:
    view = memoryview(data)
    return [view[start : start + size] for start in range(0, len(view) - size + 1, size)]


def _cpu(run: Compressor, blocks: Sequence[memoryview]) -> float:
    """CPU seconds for a block: the best of three times over some blocks."""
    return _cpu_of_both(run, None, blocks)[0]


def _cpu_of_both(ours: Compressor, theirs: Compressor | None, blocks: Sequence[memoryview]) -> tuple[float, float]:
    # About a MiB, at most so many blocks; the two in turn, so that a slower moment is one of both.
    count = max(1, min(100, len(blocks), MIB // len(blocks[0])))
    best = [float("inf"), float("inf")]
    for number in range(3):
        chosen = [blocks[(number * count + place) % len(blocks)] for place in range(count)]
        for place, run in enumerate((ours, theirs)):
            if run is not None:
                started = time.process_time()
                for block in chosen:
                    run(block)
                best[place] = min(best[place], (time.process_time() - started) / count)
    return best[0], best[1]


async def _hop() -> tuple[float, float]:
    """Seconds to a thread and back, and the loop's CPU seconds of them; medians."""
    loop = asyncio.get_running_loop()
    times = []
    with ThreadPoolExecutor(1) as executor:
        for _ in range(2_000):
            started, cpu = time.perf_counter(), time.thread_time()
            await loop.run_in_executor(executor, int)
            times.append((time.perf_counter() - started, time.thread_time() - cpu))
    middle = len(times) // 2
    return sorted(wall for wall, _ in times)[middle], sorted(cpu for _, cpu in times)[middle]


async def _through_librdkafka(servers: str, codec: Compression, level: int | None) -> tuple[float, int]:
    """CPU seconds of a process that sends all data through confluent-kafka, and the bytes that it sent."""
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.micro.codecs", "--produce", servers, codec.codec_name, str(level or 0),
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    printed, _ = await child.communicate()
    cpu, sent = json.loads(printed)
    return float(cpu), int(sent)


def _produce(servers: str, codec: str, level: str) -> None:
    from confluent_kafka import Producer

    sent = 0

    def note(statistics: str) -> None:
        nonlocal sent
        sent = sum(broker["txbytes"] for broker in json.loads(statistics)["brokers"].values())

    options: dict[str, Any] = {
        "bootstrap.servers": servers,
        "compression.type": codec,
        "linger.ms": 100,
        "batch.size": 128 * KIB,
        "queue.buffering.max.kbytes": 2 * SENT // KIB,
        "statistics.interval.ms": 200,
        "stats_cb": note,
    }
    if level != "0":
        options["compression.level"] = int(level)
    producer = Producer(options)
    values = [bytes(block) for block in _blocks(json_like(DATA_SIZE), VALUE_SIZE)]
    producer.list_topics(TOPIC, timeout=10)
    before = resource.getrusage(resource.RUSAGE_SELF)
    for value in itertools.islice(itertools.cycle(values), SENT // VALUE_SIZE):
        producer.produce(TOPIC, value, partition=0)
        producer.poll(0)
    producer.flush()
    after = resource.getrusage(resource.RUSAGE_SELF)
    producer.poll(0.5)  # the last statistics
    print(json.dumps([after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, sent]))


def _name(codec: Compression, level: int | None) -> str:
    return codec.codec_name if level is None else f"{codec.codec_name} {level}"


def _size(size: int) -> str:
    return f"{size // MIB} MiB" if size >= MIB else f"{size // KIB} KiB" if size >= KIB else f"{size} B"


if __name__ == "__main__":
    main()
