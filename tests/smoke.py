"""An installed package works: a record goes to a dev broker and is read back. ``python tests/smoke.py [--compiled]``.

It is run by the Python that the package was installed for, outside of the tree, with no test tool: by cibuildwheel for
each wheel, and by ``.ci/pythons`` for each Python that is found. ``--compiled`` fails when the core is interpreted, and
in a free-threaded Python when a module that was imported has turned the GIL on.
"""

from __future__ import annotations

import asyncio
import platform
import sys
import sysconfig
from pathlib import Path

import aiokafkapy
from aiokafkapy import KafkaProducer, TopicPartition
from aiokafkapy.broker import DevBroker
from aiokafkapy.reader import PartitionReader

COUNT = 1_000


async def main() -> None:
    async with DevBroker() as broker:
        async with KafkaProducer(broker.bootstrap_servers, compression_type="zstd") as producer:
            first = await producer.send("orders", b"tea", key=b"ann", headers=[("trace", b"1")])
            await producer.send_many("orders", [b"%d" % number for number in range(COUNT)])
        async with PartitionReader(broker.bootstrap_servers) as reader:
            reader.assign([TopicPartition("orders", 0)])
            found: list[bytes | None] = []
            while len(found) < COUNT + 1:
                found += [record.value for record in await reader.fetch()]
    if first.offset != 0 or found[0] != b"tea" or found[-1] != b"%d" % (COUNT - 1):
        sys.exit(f"the records read are not the records sent: {found[:3]} …")


if __name__ == "__main__":
    if "--compiled" in sys.argv and not aiokafkapy.compiled:
        sys.exit(f"the core of {Path(aiokafkapy.__file__).parent} is not compiled")
    asyncio.run(main())
    form = "compiled" if aiokafkapy.compiled else "interpreted"
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        form += ", with the GIL" if (has_gil := sys._is_gil_enabled()) else ", without a GIL"  # type: ignore[attr-defined]
        if has_gil and "--compiled" in sys.argv and sys.flags.gil is None:  # type: ignore[attr-defined]
            sys.exit("a module has turned the GIL on: see Python's warning above")
    print(f"{COUNT + 1} records there and back: {form}, {platform.python_implementation()} {platform.python_version()}")
