"""The byte kernel, compiled: the twin of ``builder.py``, byte for byte.

Owns the innermost loops over bytes: encoding records into a batch, decoding a batch's records, murmur2. It knows no
clock, no network and no topic; sizes and offsets are ints, timestamps are milliseconds since the epoch.

Kafka counterparts: ``MemoryRecordsBuilder``, ``DefaultRecord``, ``DefaultRecordBatch.writeHeader``, ``Utils.murmur2``.

Rules:

- The twin documents each public name's promises; every change is made there too.
- A record is sized first and then written straight into malloc'd memory; between the two no Python code can run.
- Memory is a row of blocks that never move and are never copied as the batch grows; the views on a block keep it
  alive. Freed blocks are kept for the next batch: fresh pages from the system cost more than the encoding.
- A batch's header is a new ``bytes`` after each stamp, so the bytes that a transport still holds never change.
- A decoder trusts no length and no count before it has checked it against the available bytes.
"""

cimport cython
from cpython cimport array
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_CheckExact, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.long cimport PyLong_AsLongLongAndOverflow, PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy, memmove

from aiokafkapy.errors import CorruptMessageError, IllegalStateError, RecordTooLargeError
from aiokafkapy.record.compression import decompress
from aiokafkapy.record.crc import library_crc32c

__all__ = [
    "LONGEST_RUN",
    "RecordBatchBuilder",
    "decode_records",
    "murmur2",
    "plain_headers",
    "plain_number",
    "plain_sizes",
    "record_size_upper_bound",
]

cdef extern from "Python.h":
    bint PyUnicode_IS_ASCII(object text)
    Py_ssize_t PyUnicode_GET_LENGTH(object text)
    const char *PyUnicode_AsUTF8AndSize(object text, Py_ssize_t *size) except NULL
    PyObject *PyList_GET_ITEM(object items, Py_ssize_t index)
    bint is_bytes "PyBytes_CheckExact"(PyObject *value)
    const unsigned char *bytes_of "(const unsigned char *)PyBytes_AS_STRING"(PyObject *value)
    Py_ssize_t size_of_bytes "PyBytes_GET_SIZE"(PyObject *value)
    void *PyMem_RawMalloc(size_t size) nogil
    void PyMem_RawFree(void *memory) nogil

cdef enum:
    BATCH_HEADER_SIZE = 61
    CRC_START = 21  # the checksummed bytes begin here
    MAX_RECORD_OVERHEAD = 21
    MIN_RECORD_SIZE = 7
    TRANSACTIONAL = 0x10
    NO_PRODUCER = -1
    # New blocks double the capacity up to SMALL_STORAGE bytes, then add up to a quarter, so that a batch holds little
    # more than it uses. Their sizes are powers of two from the first to the largest; only these are kept when freed.
    SMALL_STORAGE = 4096
    FIRST_BLOCK = 512
    BLOCK_SIZES = 10
    # 256 KiB: each block of a batch costs a view, a call of the checksum and an entry of writev.
    LARGEST_BLOCK = FIRST_BLOCK << (BLOCK_SIZES - 1)
    KEPT_BYTES = 8 * 1024 * 1024
    # The tail of a block is filled with the head of the record that does not fit, unless it is too long to move.
    LONG_RECORD = 16384
    # Values of a run may be anywhere in memory: prefetch so many ahead.
    VALUES_AHEAD = 16
    # Records up to this size are copied behind their header, since the transport would copy them anyway.
    JOINED = 2048

LONGEST_RUN = 8192

cdef int64_t MAX_BATCH_SIZE = 0x7FFFFFFF
# An allowance that no batch reaches.
cdef Py_ssize_t UNLIMITED = <Py_ssize_t>1 << 62
cdef int64_t NO_TIMESTAMP = -1

# Polynomials over GF(2) with the highest power in the lowest bit: CRC-32C's own, without x^32, and 1.
cdef uint32_t CASTAGNOLI = 0x82F63B78
cdef uint32_t ONE = 0x80000000


# x^8, which stands for one byte, then its squares: for two, four, ... bytes.
cdef uint32_t[32] SQUARES
SQUARES[0] = ONE >> 8
for _place in range(1, 32):
    SQUARES[_place] = product(SQUARES[_place - 1], SQUARES[_place - 1])

# Checksums of up to SHORT bytes, a lone record's or a header's, take the CPU's instruction, if it has one: a call of
# the library takes a thousand instructions more. For longer ones the library is faster, with three of them in flight.
cdef extern from *:
    """
    #if defined(__x86_64__) && defined(__GNUC__)
    #define AIOKAFKAPY_HAS_CRC32C() __builtin_cpu_supports("sse4.2")
    static __attribute__((target("sse4.2"))) uint32_t aiokafkapy_crc32c(const unsigned char *data, Py_ssize_t size) {
        uint64_t crc = 0xFFFFFFFF, word;
        for (; size >= 8; data += 8, size -= 8) {
            memcpy(&word, data, 8);
            crc = __builtin_ia32_crc32di(crc, word);
        }
        for (; size > 0; data++, size--) crc = __builtin_ia32_crc32qi((uint32_t)crc, *data);
        return ~(uint32_t)crc;
    }
    #else
    #define AIOKAFKAPY_HAS_CRC32C() 0
    static uint32_t aiokafkapy_crc32c(const unsigned char *data, Py_ssize_t size) { return 0; }
    #endif
    """
    bint has_crc32c "AIOKAFKAPY_HAS_CRC32C"()
    uint32_t short_crc32c "aiokafkapy_crc32c"(const unsigned char *data, Py_ssize_t size)

cdef Py_ssize_t SHORT = 4096 if has_crc32c() else -1

# The library's function, set by its first checksum.
cdef object _crc32c = None

cdef object crc32c(object data, object crc=0):
    global _crc32c
    if PyBytes_CheckExact(data) and PyBytes_GET_SIZE(data) <= SHORT and crc == 0:
        return short_crc32c(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    if _crc32c is None:
        _crc32c = library_crc32c()
    return _crc32c(data, crc)


cdef uint64_t checksum(const unsigned char *data, Py_ssize_t size) except? 0:
    """As ``crc32c``, for the bytes at this address."""
    if size <= SHORT:
        return short_crc32c(data, size)
    return crc32c(PyBytes_FromStringAndSize(<char *>data, size))

cdef array.array NO_SIZES = array.array("i")

# State that the process's threads share: the GIL guards it, at no cost. Without one (3.14t) the blocks have a lock, and
# headers are measured each time, for their tuple and size would have to be read together.
cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    static PyMutex aiokafkapy_blocks;
    #define AIOKAFKAPY_LOCK_BLOCKS() PyMutex_Lock(&aiokafkapy_blocks)
    #define AIOKAFKAPY_UNLOCK_BLOCKS() PyMutex_Unlock(&aiokafkapy_blocks)
    #define AIOKAFKAPY_HAS_GIL 0
    #else
    #define AIOKAFKAPY_LOCK_BLOCKS()
    #define AIOKAFKAPY_UNLOCK_BLOCKS()
    #define AIOKAFKAPY_HAS_GIL 1
    #endif
    """
    void lock_blocks "AIOKAFKAPY_LOCK_BLOCKS"() noexcept
    void unlock_blocks "AIOKAFKAPY_UNLOCK_BLOCKS"() noexcept
    bint HAS_GIL "AIOKAFKAPY_HAS_GIL"

# The last tuple that ``plain_headers`` accepted, and its encoded size: appending this very tuple needs no further
# checks, since it is immutable. Released when it is in a batch.
cdef tuple checked_headers = None
cdef Py_ssize_t checked_size = 0

# Freed blocks by size, each list linked through the blocks' own first bytes.
cdef unsigned char *kept_blocks[BLOCK_SIZES]
cdef Py_ssize_t kept_bytes = 0


@cython.final
@cython.freelist(256)
cdef class RecordBlock:
    """Memory for some of a batch's records; hands out read-only views of the used part, which keep it alive."""

    def __cinit__(self, Py_ssize_t allocated):
        global kept_bytes
        cdef int index = block_index(allocated)
        self.used = 0
        self.allocated = 0
        self.data = NULL
        if index >= 0:
            lock_blocks()
            self.data = kept_blocks[index]
            if self.data != NULL:
                kept_blocks[index] = (<unsigned char **>self.data)[0]
                kept_bytes -= allocated
            unlock_blocks()
        if self.data == NULL:
            self.data = <unsigned char *>PyMem_RawMalloc(allocated + STENCIL_OVERRUN)
            if self.data == NULL:
                raise MemoryError(f"no memory for {allocated} bytes of records")
        self.allocated = allocated

    def __dealloc__(self):
        global kept_bytes
        cdef int index = block_index(self.allocated)
        if index >= 0:
            lock_blocks()
            if kept_bytes + self.allocated <= KEPT_BYTES:
                (<unsigned char **>self.data)[0] = kept_blocks[index]
                kept_blocks[index] = self.data
                kept_bytes += self.allocated
                self.data = NULL
            unlock_blocks()
        if self.data != NULL:
            PyMem_RawFree(self.data)

    def __getbuffer__(self, Py_buffer *view, int flags):
        PyBuffer_FillInfo(view, self, self.data, self.used, 1, flags)


@cython.final
@cython.no_gc
@cython.freelist(64)
cdef class RecordBatchBuilder:
    """Encodes records into one batch (magic 2): append, then seal once, then stamp and write ``buffers()``."""

    def __cinit__(self, Py_ssize_t limit):
        self.limit = limit
        self.allowance = UNLIMITED
        self.size = BATCH_HEADER_SIZE
        self.count = 0
        self.base_timestamp = self.max_timestamp = NO_TIMESTAMP
        self.compression = 0
        self.is_sealed = False
        self.producer_id = self.producer_epoch = self.base_sequence = NO_PRODUCER
        self.is_transactional = False
        self.capacity = self.records_size = self.expected = 0
        self._blocks = ()
        self._block = None
        self._next = self._stop = NULL
        self._is_closed = False
        self._payload = None
        self._header = None

    cpdef Py_ssize_t try_append(self, long long timestamp_ms, object key, object value, object headers) except -1:
        """Encode a record and return its size in bytes; 0 when it does not fit, negative when over the allowance."""
        cdef const unsigned char *key_data = NULL
        cdef const unsigned char *value_data = NULL
        cdef Py_ssize_t key_size = -1
        cdef Py_ssize_t value_size = -1
        if key is not None:
            if not PyBytes_CheckExact(key):
                return self._append_buffers(timestamp_ms, key, value, headers)
            key_data = <const unsigned char *>PyBytes_AS_STRING(key)
            key_size = PyBytes_GET_SIZE(key)
        if value is not None:
            if not PyBytes_CheckExact(value):
                return self._append_buffers(timestamp_ms, key, value, headers)
            value_data = <const unsigned char *>PyBytes_AS_STRING(value)
            value_size = PyBytes_GET_SIZE(value)
        cdef Py_ssize_t size
        if headers is None:
            if key is None:
                size = append_stenciled(self, timestamp_ms, value_data, value_size)
                if size:
                    return size
            return self._append(timestamp_ms, key_data, key_size, value_data, value_size, None)
        return self._append(timestamp_ms, key_data, key_size, value_data, value_size, _plain_headers(headers))

    cpdef Py_ssize_t append_run(self, long long timestamp_ms, object values, Py_ssize_t start, Py_ssize_t stop) except -1:
        """Encode values[start:stop], without keys and headers, to the first that needs ``try_append``: its position."""
        if self._is_closed or not self.count or type(values) is not list:
            return start
        cdef list items = values
        cdef Py_ssize_t position = start
        cdef Py_ssize_t count = self.count
        cdef Py_ssize_t value_size, turn
        cdef PyObject *value
        cdef const unsigned char *ahead
        cdef Stencil stencil
        cdef uint64_t timestamp_delta = zigzag_of(<int64_t>(<uint64_t>timestamp_ms - <uint64_t>self.base_timestamp))
        cdef unsigned char *first = self._next
        cdef unsigned char *out = first
        # No record ends after it: its block ends there, or the batch is full.
        cdef unsigned char *end = first + min(self._stop - first, min(self.limit, MAX_BATCH_SIZE) - self.size)
        cdef unsigned char *last
        stencil.value_size = stencil.stop = 0  # of no record
        stop = min(stop, len(items))
        while position < stop:
            value = PyList_GET_ITEM(items, position)  # borrowed: nothing runs meanwhile that could let go of it
            if is_bytes(value):
                value_size = size_of_bytes(value)
            elif value == <PyObject *>None:
                value_size = -1
            else:
                break
            if value_size != stencil.value_size or count >= stencil.stop:
                cut_stencil(&stencil, timestamp_delta, count, value_size)
            if end - out < stencil.record_size:
                break
            # The records that follow with this stencil need fewer questions.
            last = end - stencil.record_size
            turn = min(stop, position + (stencil.stop - count))
            while True:
                if position + VALUES_AHEAD < turn:
                    ahead = <const unsigned char *>PyList_GET_ITEM(items, position + VALUES_AHEAD)
                    prefetch(ahead, 0)
                    prefetch(ahead + LINE, 0)
                out = write_in_run(&stencil, out, count, bytes_of(value))
                count += 1
                position += 1
                if position >= turn or out > last:
                    break
                value = PyList_GET_ITEM(items, position)
                if not is_bytes(value) or size_of_bytes(value) != value_size:
                    break
        if position > start:
            self._next = out
            self.count = count
            self.records_size += out - first
            self.size += out - first
            self.max_timestamp = max(self.max_timestamp, timestamp_ms)
        return position

    def records_view(self):
        """The encoded records in one piece (a copy if in several blocks); no record can be appended after it."""
        if self._payload is not None:
            raise IllegalStateError("the batch is compressed: its raw records are gone")
        self._settle()
        self._is_closed = True
        return memoryview(self._block if len(self._blocks) == 1 else b"".join(self._blocks))

    cpdef seal(self, int compression, object compressed_payload=None):
        """End appending, once; with a codec, ``compressed_payload`` replaces the raw records, which are freed."""
        cdef Py_ssize_t payload_size
        if self.is_sealed:
            raise IllegalStateError("the batch is sealed already")
        if (compression == 0) != (compressed_payload is None):
            raise ValueError("a compressed payload goes with a codec, and a codec with a payload")
        if compressed_payload is not None:
            payload_size = len(memoryview(compressed_payload).cast("B"))
            if payload_size > MAX_BATCH_SIZE - BATCH_HEADER_SIZE:
                raise ValueError(f"a compressed payload of {payload_size} bytes does not fit into a batch")
            self._payload = compressed_payload
            self._blocks = ()
            self._block = None
            self.size = BATCH_HEADER_SIZE + payload_size
            self.capacity = payload_size
        else:
            self._settle()
        if self.size > BATCH_HEADER_SIZE + JOINED:
            # Computed here, while the records are still in the CPU's caches; the header's part follows in ``stamp``.
            crc = 0
            for part in self._blocks if self._payload is None else (self._payload,):
                crc = crc32c(part, crc)
            self._payload_crc = crc
        self._next = self._stop = NULL
        self.compression = compression
        self.is_sealed = self._is_closed = True

    cpdef stamp(self, long long producer_id, int epoch, int base_sequence, bint is_transactional=False):
        """Write the header for this producer id, epoch and sequence."""
        if not self.is_sealed:
            raise IllegalStateError("seal the batch before it is stamped")
        if (
            self._header is not None
            and self.producer_id == producer_id
            and self.producer_epoch == epoch
            and self.base_sequence == base_sequence
            and self.is_transactional == is_transactional
        ):
            return
        if not -0x8000 <= epoch <= 0x7FFF:
            raise OverflowError(f"producer epoch {epoch} does not fit into 16 bits")
        self.producer_id = producer_id
        self.producer_epoch = epoch
        self.base_sequence = base_sequence
        self.is_transactional = is_transactional
        self._header = None

    cpdef tuple buffers(self):
        """Header and records as written to the wire, large ones without a copy; without a stamp, no producer id."""
        if not self.is_sealed:
            raise IllegalStateError("seal the batch before it is sent")
        if self.size <= BATCH_HEADER_SIZE + JOINED:
            return (self._joined(),)
        cdef bytes header
        cdef unsigned char *out
        if self._header is None:
            header = PyBytes_FromStringAndSize(NULL, BATCH_HEADER_SIZE)
            out = <unsigned char *>PyBytes_AS_STRING(header)
            self._write_header(out)
            crc = checksum(out + CRC_START, BATCH_HEADER_SIZE - CRC_START)
            write_big_endian(out + 17, combined_crc(crc, self._payload_crc, self.size - BATCH_HEADER_SIZE), 4)
            self._header = header
        if self._payload is not None:
            return self._header, self._payload
        return (self._header, *[memoryview(block) for block in self._blocks])

    def records(self):
        """Decode the appended records, in order; for splitting a batch."""
        from aiokafkapy.record.encoding import BatchRecord  # the twin's module, which nothing else here needs

        if self._payload is None:
            self._settle()
            data = b"".join(self._blocks)
        else:
            data = decompress(self.compression, self._payload, self.records_size)
        for _, key, value, headers, timestamp_ms, *_ in decode_records(data, self.count, 0, self.base_timestamp):
            yield BatchRecord(timestamp_ms, key, value, headers)

    # internals

    cdef void _write_header(self, unsigned char *out) noexcept:
        """The header without the checksum."""
        write_big_endian(out, 0, 8)
        write_big_endian(out + 8, <uint64_t>(self.size - 12), 4)
        write_big_endian(out + 12, <uint64_t><int64_t>-1, 4)  # partition leader epoch: unknown to a producer
        out[16] = 2  # magic
        write_big_endian(out + 21, <uint64_t>(self.compression | (TRANSACTIONAL if self.is_transactional else 0)), 2)
        write_big_endian(out + 23, <uint64_t>(self.count - 1), 4)
        write_big_endian(out + 27, <uint64_t>self.base_timestamp, 8)
        write_big_endian(out + 35, <uint64_t>self.max_timestamp, 8)
        write_big_endian(out + 43, <uint64_t>self.producer_id, 8)
        write_big_endian(out + 51, <uint64_t>self.producer_epoch, 2)
        write_big_endian(out + 53, <uint64_t>self.base_sequence, 4)
        write_big_endian(out + 57, <uint64_t>self.count, 4)

    cdef bytes _joined(self):
        """A whole small batch in one piece."""
        cdef bytes whole = PyBytes_FromStringAndSize(NULL, self.size)
        cdef unsigned char *start = <unsigned char *>PyBytes_AS_STRING(whole)
        cdef unsigned char *out = start + BATCH_HEADER_SIZE
        cdef RecordBlock block
        self._write_header(start)
        if self._payload is not None:
            payload = bytes(self._payload)
            memcpy(out, PyBytes_AS_STRING(payload), PyBytes_GET_SIZE(payload))
        else:
            for block in self._blocks:
                memcpy(out, block.data, block.used)
                out += block.used
        write_big_endian(start + 17, checksum(start + CRC_START, self.size - CRC_START), 4)
        return whole

    cdef Py_ssize_t _append_buffers(self, long long timestamp_ms, object key, object value, object headers) except -1:
        """As ``try_append``, for a key or value that is not of type bytes."""
        cdef Py_buffer key_buffer
        cdef Py_buffer value_buffer
        cdef const unsigned char *key_data = NULL
        cdef const unsigned char *value_data = NULL
        cdef Py_ssize_t key_size = -1
        cdef Py_ssize_t value_size = -1
        # Any Python code of these types runs before sizes are computed.
        if headers is not None:
            headers = _plain_headers(headers)
        if key is not None:
            _get_buffer(key, &key_buffer)
            key_data = <const unsigned char *>key_buffer.buf
            key_size = key_buffer.len
        try:
            if value is not None:
                _get_buffer(value, &value_buffer)
                value_data = <const unsigned char *>value_buffer.buf
                value_size = value_buffer.len
            try:
                return self._append(timestamp_ms, key_data, key_size, value_data, value_size, headers)
            finally:
                if value is not None:
                    PyBuffer_Release(&value_buffer)
        finally:
            if key is not None:
                PyBuffer_Release(&key_buffer)

    cdef Py_ssize_t _append(
        self, long long timestamp_ms,
        const unsigned char *key, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_size,
        object headers,
    ) except -1:
        cdef uint64_t timestamp_delta = 0
        cdef Py_ssize_t header_count = 0
        cdef Py_ssize_t headers_size = 0
        global checked_headers
        if self._is_closed:
            raise IllegalStateError("the batch is closed and takes no more records")
        if self.count:
            # Unsigned, so that it wraps around as Java's long does.
            timestamp_delta = zigzag_of(<int64_t>(<uint64_t>timestamp_ms - <uint64_t>self.base_timestamp))
        cdef uint64_t offset_delta = 0
        cdef int64_t body_size = 0
        cdef int64_t record_size, size
        if headers is not None:
            header_count = len(<tuple>headers)
            if HAS_GIL and headers is checked_headers:
                headers_size = checked_size
            else:
                headers_size = size_headers(<tuple>headers)
        offset_delta = zigzag_of(self.count)
        body_size = size_body(timestamp_delta, offset_delta, key_size, value_size, header_count, headers_size)
        record_size = body_size + varint_size(zigzag_of(body_size))
        size = self.size + record_size
        if size > self.limit and self.count:
            return 0
        if size > MAX_BATCH_SIZE:
            raise RecordTooLargeError(
                f"a record of {record_size} bytes does not fit into a batch, which may have {MAX_BATCH_SIZE}",
                size=record_size,
                limit=MAX_BATCH_SIZE,
            )
        cdef bint opens_block = self._stop - self._next < record_size
        cdef Py_ssize_t added
        if opens_block:
            added = self._next_block_size(record_size, self.expected - self.records_size)
            if self.capacity + added > self.allowance:
                return -(self.capacity + added)
            self._open_block(added)
        cdef unsigned char *out = self._next
        out = write_body(
            out, body_size, timestamp_delta, offset_delta, key, key_size, value, value_size, header_count
        )
        if header_count:
            out = write_headers(out, <tuple>headers)
            checked_headers = None
        elif key_size < 0:
            if value_size == self._last_size:
                cut_stencil(&self._stencil, timestamp_delta, self.count, value_size)
            self._last_size = value_size
        self._next = out
        if opens_block:
            self._fill_block_before(record_size)
        if not self.count:
            self.base_timestamp = self.max_timestamp = timestamp_ms
        elif timestamp_ms > self.max_timestamp:
            self.max_timestamp = timestamp_ms
        self.count += 1
        self.size = size
        self.records_size += record_size
        return record_size

    cdef Py_ssize_t _next_block_size(self, Py_ssize_t record_size, Py_ssize_t expected) noexcept:
        """The size of the block to add for a record that does not fit into the last one.

        ``expected`` is the number of bytes to come, this record included; 0 or less if unknown. If it is known, small
        steps would save nothing.
        """
        cdef Py_ssize_t rest = self.limit - self.size
        cdef Py_ssize_t added = FIRST_BLOCK
        while added < LARGEST_BLOCK and (
            added * (2 if self.capacity < SMALL_STORAGE else 8) <= self.capacity
            # Little past the limit, where nothing is ever used; past ``expected`` more may come.
            or (added < expected and 2 * added <= rest + rest // 8)
        ):
            added *= 2
        while added > FIRST_BLOCK and added // 2 >= rest:
            added //= 2  # memory past the limit would never be used
        if added < record_size:
            if record_size > SMALL_STORAGE:
                added = record_size
            while added < record_size:
                added *= 2
        return added

    cdef int _open_block(self, Py_ssize_t added) except -1:
        """Add a block with room for the whole next record, and make it the current one."""
        cdef RecordBlock block = RecordBlock(added)
        self._settle()
        self._blocks += (block,)
        self._block = block
        self._next = block.data
        self._stop = block.data + added
        self.capacity += added
        return 0

    cdef void _fill_block_before(self, Py_ssize_t record_size) noexcept:
        """Move the head of the record just written to a new block into the rest of the previous block."""
        if len(self._blocks) < 2 or record_size > LONG_RECORD:
            return
        cdef RecordBlock before = <RecordBlock>(<tuple>self._blocks)[len(self._blocks) - 2]
        cdef Py_ssize_t room = before.allocated - before.used
        memcpy(before.data + before.used, self._block.data, room)
        memmove(self._block.data, self._block.data + room, record_size - room)
        before.used += room
        self._next -= room

    cdef void _settle(self) noexcept:
        """Store the used size in the current block."""
        if self._next != NULL:
            self._block.used = self._next - self._block.data


cdef inline Py_ssize_t append_stenciled(
    RecordBatchBuilder builder, long long timestamp_ms, const unsigned char *value, Py_ssize_t value_size
) noexcept:
    """Append a record by the stencil, if it is of that kind and there is room; its size, or 0 if it was not."""
    cdef const Stencil *stencil = &builder._stencil
    cdef Py_ssize_t count = builder.count
    cdef int64_t record_size = stencil.record_size
    cdef int64_t size = builder.size + record_size
    if (
        count >= stencil.stop  # that is 0 as long as there is no stencil
        or value_size != stencil.value_size
        or zigzag_of(<int64_t>(<uint64_t>timestamp_ms - <uint64_t>builder.base_timestamp)) != stencil.timestamp_delta
        or size > builder.limit
        or size > MAX_BATCH_SIZE
        or builder._stop - builder._next < record_size
        or builder._is_closed
    ):
        return 0
    builder._next = write_stenciled(stencil, builder._next, count, value)
    builder.count = count + 1
    builder.size = size
    builder.records_size += record_size
    if timestamp_ms > builder.max_timestamp:
        builder.max_timestamp = timestamp_ms
    return record_size


cdef inline int block_index(Py_ssize_t allocated) noexcept:
    """The number of the free list for this size; -1 if there is none."""
    cdef int index
    for index in range(BLOCK_SIZES):
        if allocated == <Py_ssize_t>FIRST_BLOCK << index:
            return index
    return -1


cpdef Py_ssize_t record_size_upper_bound(object key, object value, object headers) except -1:
    """The most bytes that a batch with only this record can have, its header included."""
    cdef Py_ssize_t size = BATCH_HEADER_SIZE + MAX_RECORD_OVERHEAD + 15
    if key is not None:
        size += len(key) if PyBytes_CheckExact(key) else memoryview(key).nbytes
    if value is not None:
        size += len(value) if PyBytes_CheckExact(value) else memoryview(value).nbytes
    if headers:
        for name, content in headers:
            size += 10 + len(name.encode())
            if content is not None:
                size += len(content) if PyBytes_CheckExact(content) else memoryview(content).nbytes
    return size


def plain_sizes(list values, Py_ssize_t start, Py_ssize_t stop):
    """The sizes of values[start:stop] where all are bytes or None, -1 for None, and their sum; None when one is
    something else, or too long for any batch.
    """
    cdef Py_ssize_t index, size
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t count = max(0, min(stop, len(values)) - start)
    cdef PyObject *value
    cdef array.array sizes = array.clone(NO_SIZES, count, False)
    cdef int *out = sizes.data.as_ints
    for index in range(count):
        value = PyList_GET_ITEM(values, start + index)  # borrowed: nothing runs meanwhile that could let go of it
        if is_bytes(value):
            size = size_of_bytes(value)
            if size > MAX_BATCH_SIZE:
                return None
            out[index] = <int>size
            total += size
        elif value == <PyObject *>None:
            out[index] = -1
        else:
            return None
    return sizes, total


cpdef tuple plain_headers(object headers):
    """A list or tuple of headers as a tuple, if each is a tuple of an ASCII str and bytes or None; else None."""
    global checked_headers, checked_size
    cdef object item, content
    cdef Py_ssize_t size = 0
    if type(headers) is not tuple and type(headers) is not list:
        return None
    cdef tuple given = tuple(headers)
    for item in given:
        if not _is_plain_header(item) or not PyUnicode_IS_ASCII((<tuple>item)[0]):
            return None
        content = (<tuple>item)[1]
        size += size_field(PyUnicode_GET_LENGTH((<tuple>item)[0]))
        size += size_field(-1 if content is None else PyBytes_GET_SIZE(content))
    if HAS_GIL:
        checked_headers, checked_size = given, size
    return given


cpdef long long plain_number(object number) noexcept:
    """``number`` if it is exactly an int, not negative, and fits into 64 bits; else -1."""
    cdef int overflow
    if not PyLong_CheckExact(number):
        return -1
    return max(-1, PyLong_AsLongLongAndOverflow(number, &overflow))  # -1 where it overflows, too


def decode_records(
    object data,
    Py_ssize_t count,
    long long base_offset,
    long long base_timestamp,
    object append_time=None,
    object topic="",
    object partition=-1,
):
    """Decode the ``count`` records of an uncompressed records section, which they must fill exactly."""
    cdef Py_buffer buffer
    cdef Reader reader
    cdef int64_t size, timestamp_delta, offset_delta
    cdef Py_ssize_t end
    cdef long long fixed_timestamp = 0 if append_time is None else append_time
    cdef bint has_append_time = append_time is not None
    cdef list records = []
    PyObject_GetBuffer(data, &buffer, PyBUF_SIMPLE)
    try:
        reader.data = <const unsigned char *>buffer.buf
        reader.position = 0
        reader.end = end = buffer.len
        if count < 0 or count > end // MIN_RECORD_SIZE:
            raise CorruptMessageError(f"a batch says it has {count} records, its {end} bytes cannot hold them")
        for _ in range(count):
            reader.end = end
            size = read_varint(&reader)
            if size < MIN_RECORD_SIZE - 1 or size > end - reader.position:
                raise CorruptMessageError(
                    f"a record says it has {size} bytes, {end - reader.position} are left in its batch"
                )
            reader.end = reader.position + size
            reader.position += 1  # attributes: unused
            timestamp_delta = read_varlong(&reader)
            offset_delta = read_varint(&reader)
            key = read_field(&reader)
            value = read_field(&reader)
            headers = read_headers(&reader)
            if reader.position != reader.end:
                raise CorruptMessageError(
                    f"{reader.end - reader.position} bytes are left over after a record's headers"
                )
            records.append((
                <int64_t>(<uint64_t>base_offset + <uint64_t>offset_delta),
                key,
                value,
                headers,
                fixed_timestamp if has_append_time
                else <int64_t>(<uint64_t>base_timestamp + <uint64_t>timestamp_delta),
                topic,
                partition,
                1 if has_append_time else 0,
            ))
        if reader.position != end:
            raise CorruptMessageError(
                f"{end - reader.position} bytes are left over after the {count} records of a batch"
            )
    finally:
        PyBuffer_Release(&buffer)
    return records


cpdef int murmur2(object data) except? -1:
    """Kafka's 32-bit murmur2 hash, signed as Java's int (``Utils.murmur2``)."""
    cdef Py_buffer buffer
    if PyBytes_CheckExact(data):
        return hash_bytes(<const unsigned char *>PyBytes_AS_STRING(data), PyBytes_GET_SIZE(data))
    _get_buffer(data, &buffer)
    try:
        return hash_bytes(<const unsigned char *>buffer.buf, buffer.len)
    finally:
        PyBuffer_Release(&buffer)


cdef int32_t hash_bytes(const unsigned char *data, Py_ssize_t length) noexcept nogil:
    cdef uint32_t multiplier = 0x5BD1E995
    cdef uint32_t hashed = <uint32_t>0x9747B28C ^ <uint32_t>length
    cdef uint32_t word
    cdef Py_ssize_t left = length
    while left >= 4:
        word = data[0] | <uint32_t>data[1] << 8 | <uint32_t>data[2] << 16 | <uint32_t>data[3] << 24
        word *= multiplier
        word ^= word >> 24
        word *= multiplier
        hashed = hashed * multiplier ^ word
        data += 4
        left -= 4
    if left >= 3:
        hashed ^= <uint32_t>data[2] << 16
    if left >= 2:
        hashed ^= <uint32_t>data[1] << 8
    if left >= 1:
        hashed ^= data[0]
        hashed *= multiplier
    hashed ^= hashed >> 13
    hashed *= multiplier
    hashed ^= hashed >> 15
    return <int32_t>hashed


cdef uint32_t combined_crc(uint32_t first, uint32_t second, Py_ssize_t second_size) noexcept nogil:
    """The CRC-32C of two pieces, one after the other, from those of each: the first times x^(8 * second_size), plus the
    second. As zlib's crc32_combine.
    """
    cdef int place = 0
    while second_size:
        if second_size & 1:
            first = product(SQUARES[place], first)
        place += 1
        second_size >>= 1
    return first ^ second


cdef uint32_t product(uint32_t a, uint32_t b) noexcept nogil:
    """The product of two polynomials, modulo CRC-32C's."""
    cdef uint32_t found = 0, bit = ONE
    while bit:
        if a & bit:
            found ^= b
        b = (b >> 1) ^ CASTAGNOLI if b & 1 else b >> 1
        bit >>= 1
    return found


cdef int _get_buffer(object data, Py_buffer *buffer) except -1:
    """The bytes of ``data`` in one piece, copied if necessary; TypeError if it is not bytes-like."""
    try:
        PyObject_GetBuffer(data, buffer, PyBUF_SIMPLE)
    except BufferError:
        PyObject_GetBuffer(memoryview(data).tobytes(), buffer, PyBUF_SIMPLE)
    return 0


cdef tuple _plain_headers(object headers):
    """Headers as a tuple of exact (str, bytes or None) tuples, sized and written without running Python."""
    cdef tuple given
    cdef object item
    if HAS_GIL and headers is checked_headers:
        return <tuple>headers
    if type(headers) is tuple or type(headers) is list:
        given = tuple(headers)
        for item in given:
            if not _is_plain_header(item):
                break
        else:
            return given
    plain = []
    for name, content in headers:
        if not isinstance(name, str):
            raise TypeError(f"a header's name must be str, not {type(name).__name__}")
        if content is not None and not PyBytes_CheckExact(content):
            content = memoryview(content).tobytes()
        plain.append((name, content))
    return tuple(plain)


cdef bint _is_plain_header(object item) noexcept:
    if type(item) is not tuple or len(<tuple>item) != 2:
        return False
    if type((<tuple>item)[0]) is not str:
        return False
    return (<tuple>item)[1] is None or PyBytes_CheckExact((<tuple>item)[1])


cdef Py_ssize_t size_headers(tuple headers) except -1:
    cdef Py_ssize_t total = 0
    cdef Py_ssize_t name_size
    cdef object item
    for item in headers:
        PyUnicode_AsUTF8AndSize((<tuple>item)[0], &name_size)
        total += size_field(name_size)
        total += size_field(-1 if (<tuple>item)[1] is None else PyBytes_GET_SIZE((<tuple>item)[1]))
    return total


cdef unsigned char *write_headers(unsigned char *out, tuple headers) except NULL:
    cdef const char *name
    cdef Py_ssize_t name_size
    cdef object item, content
    for item in headers:
        # The str was sized before, so its UTF-8 is cached: this neither fails nor allocates.
        name = PyUnicode_AsUTF8AndSize((<tuple>item)[0], &name_size)
        out = write_field(out, <const unsigned char *>name, name_size)
        content = (<tuple>item)[1]
        if content is None:
            out = write_field(out, NULL, -1)
        else:
            out = write_field(out, <const unsigned char *>PyBytes_AS_STRING(content), PyBytes_GET_SIZE(content))
    return out


cdef inline void write_big_endian(unsigned char *out, uint64_t number, int width) noexcept nogil:
    cdef int index
    for index in range(width):
        out[index] = <unsigned char>(number >> (8 * (width - 1 - index)))


cdef int64_t read_varint(Reader *reader) except? -2:
    cdef int64_t number
    cdef Reading done = try_varint(reader, &number)
    if done != READ_WHOLE:
        _raise_number(done, 5)
    return number


cdef int64_t read_varlong(Reader *reader) except? -2:
    cdef int64_t number
    cdef Reading done = try_varlong(reader, &number)
    if done != READ_WHOLE:
        _raise_number(done, 10)
    return number


cdef int _raise_number(Reading done, int most_bytes) except -1:
    if done == READ_ENDED:
        raise CorruptMessageError("a record ends within a number")
    raise CorruptMessageError(f"a number of a record is longer than {most_bytes} bytes")


cdef bytes read_field(Reader *reader):
    cdef int64_t size = read_varint(reader)
    if size == -1:
        return None
    if size < 0 or size > reader.end - reader.position:
        raise CorruptMessageError(
            f"a field says it has {size} bytes, {reader.end - reader.position} are left of its record"
        )
    cdef bytes field = PyBytes_FromStringAndSize(<const char *>reader.data + reader.position, size)
    reader.position += size
    return field


cdef tuple read_headers(Reader *reader):
    cdef int64_t count = read_varint(reader)
    cdef int64_t size
    if count == 0:
        return ()
    if count < 0 or count * 2 > reader.end - reader.position:
        raise CorruptMessageError(
            f"a record says it has {count} headers, {reader.end - reader.position} bytes are left of it"
        )
    cdef list headers = []
    for _ in range(count):
        size = read_varint(reader)
        if size == -1:
            raise CorruptMessageError("a record has a header without a name")
        if size < 0 or size > reader.end - reader.position:
            raise CorruptMessageError(
                f"a field says it has {size} bytes, {reader.end - reader.position} are left of its record"
            )
        name = PyUnicode_DecodeUTF8(<const char *>reader.data + reader.position, size, "replace")
        reader.position += size
        headers.append((name, read_field(reader)))
    return tuple(headers)
