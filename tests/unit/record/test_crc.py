from __future__ import annotations

import struct
import subprocess
import sys

import pytest

from aiokafkapy.record.builder import RecordBatchBuilder
from aiokafkapy.record.crc import crc32c, library_crc32c


def test_the_polynomial_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_checksum_goes_on_from_another() -> None:
    assert crc32c(memoryview(b"6789"), crc32c(b"12345")) == crc32c(b"123456789")


def test_the_library_s_function_is_looked_up_once() -> None:
    assert library_crc32c() is library_crc32c()


def test_the_library_is_loaded_without_its_command_line_and_the_imports_of_that() -> None:
    program = (
        "import sys\nfrom aiokafkapy.record.crc import crc32c\nfound = crc32c(b'123456789')\n"
        "print(found, *({'crc32c', 'argparse', 'importlib.metadata'} & set(sys.modules)))\n"
        "import crc32c as library\nprint(library.crc32c(b'123456789'))"
    )
    path = repr([entry for entry in sys.path if entry])
    command = [sys.executable, "-S", "-c", f"import sys\nsys.path[:] = {path}\n{program}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(0xE3069283)] * 2


def test_without_the_extension_by_itself_the_package_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aiokafkapy.record.crc.find_spec", lambda name: None)
    library_crc32c.cache_clear()
    try:
        assert library_crc32c()(b"123456789", 0) == 0xE3069283
    finally:
        library_crc32c.cache_clear()


@pytest.mark.parametrize("size", [*range(20), 2_030, 3_900, 4_200, 20_000])
def test_a_batch_s_checksum_is_the_library_s_for_any_length(size: int) -> None:
    """The compiled kernel takes the CPU's own instruction for short ones, eight bytes at a time."""
    builder = RecordBatchBuilder(30_000)
    builder.try_append(7, None, bytes(number % 251 for number in range(size)), None)
    builder.seal(0)
    builder.stamp(3, 0, 9)
    batch = b"".join(builder.buffers())
    assert struct.unpack_from(">I", batch, 17)[0] == crc32c(batch[21:])
