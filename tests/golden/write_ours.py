"""Prints batches made by aiokafkapy, one ``name hex`` a line, for Kafka's Java classes to read; README.md says how."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.compression import Compression, compress

LEVELS: dict[Compression, list[int | None]] = {
    Compression.NONE: [None],
    Compression.GZIP: [None, 1, 9],
    Compression.SNAPPY: [None],
    Compression.LZ4: [None, 1, 17],
    Compression.ZSTD: [None, -5, 22],
}


def main() -> None:
    """Print one line for each set of records, codec and level."""
    path = Path(__file__).resolve().parents[1] / "unit" / "record" / "conftest.py"
    spec = importlib.util.spec_from_file_location("golden_records", path)
    assert spec is not None
    assert spec.loader is not None
    records = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(records)
    for name, make in records.RECORDS.items():
        for codec, levels in LEVELS.items():
            for level in levels:
                if name == "large" and codec is Compression.NONE:
                    continue
                builder = RecordBatchBuilder(1 << 20)
                for record in make():
                    builder.try_append(*record)
                if codec is Compression.NONE:
                    builder.seal(codec)
                else:
                    builder.seal(codec, compress(codec, builder.records_view(), level))
                builder.stamp(42, 7, 1000)
                label = "" if level is None else f"-{level}"
                print(f"{name}-{codec.codec_name}{label}", b"".join(builder.buffers()).hex())


if __name__ == "__main__":
    main()
