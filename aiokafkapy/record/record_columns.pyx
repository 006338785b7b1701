"""The kernel that reads batches into columns, compiled: the twin of ``record_columns.py``, byte for byte.

Owns the way from the records of batches into buffers as Arrow lays them out. It knows no pyarrow, no connection and no
topic's name. Java has no counterpart.

Rules:

- The twin documents each public name's promises; every change is made there too.
- A batch is read as a whole or not at all: when its bytes are wrong, nothing of it stays.
- The bytes are untrusted: each length and count is checked against the available bytes first.
- The loop over records makes no object and holds no GIL, except for a header's name that is not ASCII. The error for
  invalid bytes is made by ``decode_records``, which reads them again.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy

from aiokafkapy.record.builder cimport READ_WHOLE, Reader, try_varint, try_varlong

from aiokafkapy.errors import CorruptMessageError
from aiokafkapy.record.builder import decode_records
from aiokafkapy.record.columns import ReadHeaders, ReadRecords, ReadStrings

__all__ = ["OFFSET_MAX", "RecordColumns"]

cdef extern from "Python.h":
    void *PyMem_RawRealloc(void *memory, size_t size) nogil
    void PyMem_RawFree(void *memory) nogil

cdef enum:
    MIN_RECORD_SIZE = 7
    MICROSECONDS = 1000
    FIRST_ALLOCATION = 4096

cdef int64_t MOST_COLUMN_BYTES = 0x7FFFFFFF
OFFSET_MAX = 0x7FFFFFFFFFFFFFFF


cdef struct Memory:
    unsigned char *data
    Py_ssize_t size
    Py_ssize_t allocated


cdef struct Strings:
    Memory validity
    Memory starts
    Memory data
    Py_ssize_t count
    Py_ssize_t null_count


@cython.final
cdef class OwnedBuffer:
    """Memory that is read-only from now on."""

    cdef unsigned char *data
    cdef Py_ssize_t size

    def __dealloc__(self):
        PyMem_RawFree(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.size, 1, flags)


@cython.final
cdef class RecordColumns:
    """Collects the records of many batches; ``take`` returns their columns and resets."""

    cdef readonly Py_ssize_t row_count
    cdef readonly long long data_bytes
    cdef bint _has_headers
    cdef Memory _offsets
    cdef Memory _timestamps
    cdef Memory _timestamp_types
    cdef Strings _keys
    cdef Strings _values
    cdef Strings _headerless  # its bits and starts only, since each row has a list
    cdef Strings _header_names
    cdef Strings _header_values

    def __cinit__(self, bint with_headers=False):
        self._has_headers = with_headers

    def __init__(self, with_headers=False):
        self._begin()

    def __dealloc__(self):
        PyMem_RawFree(self._offsets.data)
        PyMem_RawFree(self._timestamps.data)
        PyMem_RawFree(self._timestamp_types.data)
        _free(&self._keys)
        _free(&self._values)
        _free(&self._headerless)
        _free(&self._header_names)
        _free(&self._header_values)

    def append(
        self,
        object data,
        Py_ssize_t count,
        long long base_offset,
        long long base_timestamp,
        object append_time=None,
        long long first_offset=0,
        long long end_offset=0x7FFFFFFFFFFFFFFF,
    ):
        """Read the ``count`` records of an uncompressed records section, except for those out of these bounds."""
        cdef Py_buffer buffer
        cdef Reader reader
        cdef RecordColumns before = RecordColumns.__new__(RecordColumns)
        cdef bint has_append_time = append_time is not None
        cdef long long fixed_timestamp = append_time if has_append_time else 0
        cdef Py_ssize_t row_count = self.row_count
        cdef int done
        PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
        try:
            self._check_room(buffer.len)
            self._note(before)
            reader.data = <const unsigned char *>buffer.buf
            reader.position = 0
            reader.end = buffer.len
            with nogil:
                done = self._read(
                    &reader, count, base_offset, base_timestamp, has_append_time, fixed_timestamp,
                    first_offset, end_offset,
                )
            if done != 1:
                self._take_back(before)
                if done < 0:
                    raise MemoryError
                decode_records(data, count, base_offset, base_timestamp, append_time)  # raises the exact error
                raise CorruptMessageError("a batch's records contradict its header")
        finally:
            PyBuffer_Release(&buffer)
        return self.row_count - row_count

    def take(self):
        """The columns of all rows since the last call."""
        headers = None
        if self._has_headers:
            headers = ReadHeaders(
                _validity(&self._headerless), self._headerless.null_count, _owned(&self._headerless.starts),
                _taken(&self._header_names), _taken(&self._header_values),
            )
        taken = ReadRecords(
            self.row_count, _owned(&self._offsets), _owned(&self._timestamps), _owned(&self._timestamp_types),
            _taken(&self._keys), _taken(&self._values), headers,
        )
        self._begin()
        return taken

    # internals

    cdef _begin(self):
        self.row_count = 0
        self.data_bytes = 0
        self._offsets.size = self._timestamps.size = self._timestamp_types.size = 0
        cdef int made = (
            _begin_strings(&self._keys) & _begin_strings(&self._values) & _begin_strings(&self._headerless)
            & _begin_strings(&self._header_names) & _begin_strings(&self._header_values)
        )
        if not made:
            raise MemoryError

    cdef _check_room(self, int64_t size):
        cdef int64_t strings = max(self._keys.data.size, self._values.data.size, self._header_values.data.size)
        if strings + size > MOST_COLUMN_BYTES or self._header_names.data.size + 3 * size > MOST_COLUMN_BYTES:
            raise OverflowError(f"{size} bytes of records do not fit into columns that have {self.data_bytes} bytes")

    cdef void _note(self, RecordColumns into) noexcept:
        """The sizes, without the memory."""
        into.row_count = self.row_count
        into.data_bytes = self.data_bytes
        _note_strings(&self._keys, &into._keys)
        _note_strings(&self._values, &into._values)
        _note_strings(&self._headerless, &into._headerless)
        _note_strings(&self._header_names, &into._header_names)
        _note_strings(&self._header_values, &into._header_values)

    cdef void _take_back(self, RecordColumns to) noexcept:
        to._note(self)
        self._offsets.size = self._timestamps.size = 8 * self.row_count
        self._timestamp_types.size = 4 * self.row_count

    cdef int _read(
        self, Reader *reader, Py_ssize_t count, long long base_offset, long long base_timestamp,
        bint has_append_time, long long fixed_timestamp, long long first_offset, long long end_offset,
    ) noexcept nogil:
        """Returns 1, 0 for invalid bytes, or -1 when out of memory."""
        cdef Py_ssize_t end = reader.end
        cdef Py_ssize_t index
        cdef int64_t size, timestamp_delta, offset_delta, offset
        cdef uint64_t timestamp
        cdef bint is_kept
        cdef int done
        if count < 0 or count > end // MIN_RECORD_SIZE:
            return 0
        if not (
            _reserve(&self._offsets, 8 * count) and _reserve(&self._timestamps, 8 * count)
            and _reserve(&self._timestamp_types, 4 * count)
        ):
            return -1
        for index in range(count):
            reader.end = end
            if try_varint(reader, &size) != READ_WHOLE or size < MIN_RECORD_SIZE - 1 or size > end - reader.position:
                return 0
            reader.end = reader.position + size
            reader.position += 1  # attributes: unused
            if try_varlong(reader, &timestamp_delta) != READ_WHOLE or try_varint(reader, &offset_delta) != READ_WHOLE:
                return 0
            offset = <int64_t>(<uint64_t>base_offset + <uint64_t>offset_delta)
            is_kept = first_offset <= offset < end_offset
            timestamp = <uint64_t>fixed_timestamp if has_append_time else (
                <uint64_t>base_timestamp + <uint64_t>timestamp_delta
            )
            timestamp *= MICROSECONDS
            done = self._read_field(reader, &self._keys if is_kept else NULL)
            if done == 1:
                done = self._read_field(reader, &self._values if is_kept else NULL)
            if done == 1:
                done = self._read_headers(reader, is_kept and self._has_headers)
            if done != 1:
                return done
            if reader.position != reader.end:
                return 0
            if is_kept:
                memcpy(self._offsets.data + self._offsets.size, &offset, 8)
                self._offsets.size += 8
                memcpy(self._timestamps.data + self._timestamps.size, &timestamp, 8)
                self._timestamps.size += 8
                (<int32_t *>(self._timestamp_types.data + self._timestamp_types.size))[0] = has_append_time
                self._timestamp_types.size += 4
                self.row_count += 1
        return reader.position == end

    cdef int _read_field(self, Reader *reader, Strings *into) noexcept nogil:
        """Skip it if there is no column for it."""
        cdef int64_t size
        if try_varint(reader, &size) != READ_WHOLE or size < -1 or size > reader.end - reader.position:
            return 0
        if into != NULL and not _add(into, NULL if size < 0 else reader.data + reader.position, size):
            return -1
        if size > 0:
            reader.position += size
            if into != NULL:
                self.data_bytes += size
        return 1

    cdef int _read_headers(self, Reader *reader, bint is_kept) noexcept nogil:
        cdef int64_t count, size
        cdef int32_t start
        cdef int done
        cdef Py_ssize_t index
        if try_varint(reader, &count) != READ_WHOLE or count < 0 or count * 2 > reader.end - reader.position:
            return 0
        for index in range(count):
            if try_varint(reader, &size) != READ_WHOLE or size < 0 or size > reader.end - reader.position:
                return 0
            if is_kept and not self._add_name(reader.data + reader.position, size):
                return -1
            reader.position += size
            done = self._read_field(reader, &self._header_values if is_kept else NULL)
            if done != 1:
                return done
        if is_kept:
            start = <int32_t>self._header_values.count
            if not (
                _add_bit(&self._headerless, count > 0)
                and _write(&self._headerless.starts, <const unsigned char *>&start, 4)
            ):
                return -1
        return 1

    cdef int _add_name(self, const unsigned char *name, Py_ssize_t size) noexcept nogil:
        cdef Py_ssize_t index
        for index in range(size):
            if name[index] >= 0x80:
                with gil:
                    return self._add_decoded_name(name, size)
        self.data_bytes += size
        return _add(&self._header_names, name, size)

    cdef int _add_decoded_name(self, const unsigned char *name, Py_ssize_t size) noexcept:
        cdef bytes encoded
        try:
            encoded = PyUnicode_DecodeUTF8(<const char *>name, size, "replace").encode()
        except MemoryError:
            return 0
        self.data_bytes += PyBytes_GET_SIZE(encoded)
        return _add(&self._header_names, <const unsigned char *>PyBytes_AS_STRING(encoded), PyBytes_GET_SIZE(encoded))


# growing memory; these return False when out of memory


cdef int _reserve(Memory *memory, Py_ssize_t more) noexcept nogil:
    cdef Py_ssize_t wanted = memory.size + more
    cdef Py_ssize_t allocated
    cdef void *data
    if wanted > memory.allocated:
        allocated = max(wanted, 2 * memory.allocated, <Py_ssize_t>FIRST_ALLOCATION)
        data = PyMem_RawRealloc(memory.data, allocated)
        if data == NULL:
            return 0
        memory.data = <unsigned char *>data
        memory.allocated = allocated
    return 1


cdef inline int _write(Memory *memory, const unsigned char *data, Py_ssize_t size) noexcept nogil:
    if not _reserve(memory, size):
        return 0
    memcpy(memory.data + memory.size, data, size)
    memory.size += size
    return 1


cdef int _begin_strings(Strings *strings) noexcept:
    cdef int32_t start = 0
    strings.validity.size = strings.starts.size = strings.data.size = 0
    strings.count = strings.null_count = 0
    return _write(&strings.starts, <const unsigned char *>&start, 4)


cdef void _free(Strings *strings) noexcept:
    PyMem_RawFree(strings.validity.data)
    PyMem_RawFree(strings.starts.data)
    PyMem_RawFree(strings.data.data)


cdef void _note_strings(Strings *strings, Strings *into) noexcept:
    into.validity.size = strings.validity.size
    into.starts.size = strings.starts.size
    into.data.size = strings.data.size
    into.count = strings.count
    into.null_count = strings.null_count


cdef inline int _add(Strings *strings, const unsigned char *item, Py_ssize_t size) noexcept nogil:
    """A byte string, or null."""
    cdef int32_t start
    if not _add_bit(strings, item != NULL):
        return 0
    if size > 0 and not _write(&strings.data, item, size):
        return 0
    start = <int32_t>strings.data.size
    return _write(&strings.starts, <const unsigned char *>&start, 4)


cdef inline int _add_bit(Strings *strings, bint is_there) noexcept nogil:
    cdef int place = strings.count & 7
    if place == 0:
        if not _reserve(&strings.validity, 1):
            return 0
        strings.validity.data[strings.validity.size] = 0
        strings.validity.size += 1
    cdef unsigned char *last = strings.validity.data + strings.validity.size - 1
    # Rows that were rolled back may have left their bits.
    last[0] &= <unsigned char>((1 << place) - 1)
    if is_there:
        last[0] |= <unsigned char>(1 << place)
    else:
        strings.null_count += 1
    strings.count += 1
    return 1


cdef object _owned(Memory *memory):
    """Hand the memory over to its reader."""
    cdef OwnedBuffer owned = OwnedBuffer.__new__(OwnedBuffer)
    if not _reserve(memory, 1):  # an empty buffer needs an address too, or Arrow rejects it
        raise MemoryError
    owned.data, owned.size = memory.data, memory.size
    memory.data = NULL
    memory.size = memory.allocated = 0
    return owned


cdef object _validity(Strings *strings):
    return _owned(&strings.validity) if strings.null_count else None


cdef object _taken(Strings *strings):
    return ReadStrings(
        _validity(strings), strings.null_count, _owned(&strings.starts), _owned(&strings.data)
    )
