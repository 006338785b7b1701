# C interface of the byte kernel, for the other compiled modules (producer_batch, record_appender, arrow_rows).
#
# ``cimport`` RecordBatchBuilder to call ``try_append`` without a Python call and to read its counters as C fields.
# The fields are readonly for everybody but the kernel itself. Keep the Python twin, builder.py, in step.

cimport cython
from libc.stdint cimport int32_t, int64_t, uint32_t, uint64_t
from libc.string cimport memcpy


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define AIOKAFKAPY_PREFETCH(address, is_to_be_written) __builtin_prefetch(address, is_to_be_written)
    #else
    #define AIOKAFKAPY_PREFETCH(address, is_to_be_written) ((void)0)
    #endif
    """
    # The second argument must be a literal.
    void prefetch "AIOKAFKAPY_PREFETCH"(const void *address, int is_to_be_written) noexcept nogil

cdef enum:
    LINE = 64  # bytes that a CPU reads at once
    # A batch is longer than what the fastest caches hold: the bytes to be read and written soon are asked for.
    BYTES_AHEAD = 2048


cdef class RecordBlock:
    cdef unsigned char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t allocated


# stencils: the common bytes of records without a key and headers, whose values have one size

cdef enum:
    STENCIL_OVERRUN = 32  # bytes that are free after each block's end, since a stencil is laid down whole


cdef struct Stencil:
    Py_ssize_t value_size
    uint64_t timestamp_delta
    Py_ssize_t stop  # the first offset delta that differs in more than its first byte
    int64_t record_size
    Py_ssize_t size  # up to the value: 27 bytes at most
    Py_ssize_t place  # of the offset delta
    unsigned char continued  # a bit of the offset delta's first byte: more bytes follow
    unsigned char bytes[32]


@cython.final
cdef class RecordBatchBuilder:
    # The fields of every append come first, on few cache lines: with thousands of builders each line is a cache miss.
    cdef unsigned char *_next
    cdef unsigned char *_stop
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t records_size
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t limit
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef bint _is_closed
    cdef public Py_ssize_t allowance
    cdef public Py_ssize_t expected
    cdef readonly Py_ssize_t capacity
    cdef readonly int compression
    cdef readonly bint is_sealed
    cdef readonly long long producer_id
    cdef readonly int producer_epoch
    cdef readonly int base_sequence
    cdef readonly bint is_transactional
    cdef tuple _blocks
    cdef RecordBlock _block
    cdef object _payload
    cdef uint32_t _payload_crc
    cdef bytes _header
    # Of the last record, if it had neither key nor headers; cut when a second one comes whose value is of that size.
    cdef Py_ssize_t _last_size
    cdef Stencil _stencil

    cpdef Py_ssize_t try_append(self, long long timestamp_ms, object key, object value, object headers) except -1
    cpdef Py_ssize_t append_run(self, long long timestamp_ms, object values, Py_ssize_t start, Py_ssize_t stop) except -1
    cpdef seal(self, int compression, object compressed_payload=*)
    cpdef stamp(self, long long producer_id, int epoch, int base_sequence, bint is_transactional=*)
    cpdef tuple buffers(self)
    cdef Py_ssize_t _append_buffers(self, long long timestamp_ms, object key, object value, object headers) except -1
    cdef Py_ssize_t _append(
        self, long long timestamp_ms,
        const unsigned char *key, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_size,
        object headers,
    ) except -1
    cdef void _write_header(self, unsigned char *out) noexcept
    cdef bytes _joined(self)
    cdef Py_ssize_t _next_block_size(self, Py_ssize_t record_size, Py_ssize_t expected) noexcept
    cdef int _open_block(self, Py_ssize_t added) except -1
    cdef void _fill_block_before(self, Py_ssize_t record_size) noexcept
    cdef void _settle(self) noexcept


cpdef Py_ssize_t record_size_upper_bound(object key, object value, object headers) except -1
cpdef tuple plain_headers(object headers)
cpdef long long plain_number(object number) noexcept
cpdef int murmur2(object data) except? -1
cdef int32_t hash_bytes(const unsigned char *data, Py_ssize_t length) noexcept nogil


# reading the numbers of a record, but no byte past ``end``

cdef struct Reader:
    const unsigned char *data
    Py_ssize_t position
    Py_ssize_t end


cdef enum Reading:
    READ_TOO_LONG = -1
    READ_ENDED = 0
    READ_WHOLE = 1


cdef inline Reading try_zigzag(Reader *reader, int most_bytes, uint64_t *into) noexcept nogil:
    cdef int index
    cdef unsigned char byte
    into[0] = 0
    for index in range(most_bytes):
        if reader.position >= reader.end:
            return READ_ENDED
        byte = reader.data[reader.position]
        reader.position += 1
        into[0] |= <uint64_t>(byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return READ_WHOLE
    return READ_TOO_LONG


cdef inline Reading try_varint(Reader *reader, int64_t *into) noexcept nogil:
    cdef uint64_t zigzag
    cdef Reading done = try_zigzag(reader, 5, &zigzag)
    # Bits past the width are dropped, as in Java.
    zigzag = <uint32_t>zigzag
    into[0] = <int64_t>(zigzag >> 1) ^ -<int64_t>(zigzag & 1)
    return done


cdef inline Reading try_varlong(Reader *reader, int64_t *into) noexcept nogil:
    cdef uint64_t zigzag
    cdef Reading done = try_zigzag(reader, 10, &zigzag)
    into[0] = <int64_t>(zigzag >> 1) ^ -<int64_t>(zigzag & 1)
    return done


# writing a record whose parts are given as addresses and sizes, -1 for null

cdef extern from *:
    """
    #if defined(__GNUC__)
    /* A seventh of the number of bits, rounded up, without a division: exact for all of 64 bits. */
    #define AIOKAFKAPY_VARINT_SIZE(zigzag) (((63 - __builtin_clzll((zigzag) | 1)) * 9 + 73) >> 6)
    #else
    static int AIOKAFKAPY_VARINT_SIZE(unsigned long long zigzag) {
        int size = 1;
        while (zigzag > 0x7f) { zigzag >>= 7; size++; }
        return size;
    }
    #endif
    """
    int varint_size "AIOKAFKAPY_VARINT_SIZE"(uint64_t zigzag) nogil


cdef inline uint64_t zigzag_of(int64_t number) noexcept nogil:
    return (<uint64_t>number << 1) ^ <uint64_t>(number >> 63)


cdef inline Py_ssize_t size_field(Py_ssize_t size) noexcept nogil:
    return 1 if size < 0 else varint_size(<uint64_t>size << 1) + size


cdef inline int64_t size_body(
    uint64_t timestamp_delta, uint64_t offset_delta, Py_ssize_t key_size, Py_ssize_t value_size,
    Py_ssize_t header_count, Py_ssize_t headers_size,
) noexcept nogil:
    """The size of a record without its own length; the deltas are zigzag-encoded."""
    return (
        1 + varint_size(timestamp_delta) + varint_size(offset_delta)
        + size_field(key_size) + size_field(value_size)
        + varint_size(zigzag_of(header_count)) + headers_size
    )


cdef inline unsigned char *write_varint(unsigned char *out, uint64_t zigzag) noexcept nogil:
    while zigzag > 0x7F:
        out[0] = <unsigned char>(zigzag & 0x7F | 0x80)
        out += 1
        zigzag >>= 7
    out[0] = <unsigned char>zigzag
    return out + 1


cdef inline unsigned char *write_field(unsigned char *out, const unsigned char *data, Py_ssize_t size) noexcept nogil:
    if size < 0:
        out[0] = 1  # -1: null
        return out + 1
    out = write_varint(out, <uint64_t>size << 1)
    memcpy(out, data, size)
    return out + size


cdef inline unsigned char *write_body(
    unsigned char *out, int64_t body_size, uint64_t timestamp_delta, uint64_t offset_delta,
    const unsigned char *key, Py_ssize_t key_size, const unsigned char *value, Py_ssize_t value_size,
    Py_ssize_t header_count,
) noexcept nogil:
    """Write a record up to its headers."""
    out = write_varint(out, zigzag_of(body_size))
    out[0] = 0  # attributes: unused
    out = write_varint(out + 1, timestamp_delta)
    out = write_varint(out, offset_delta)
    out = write_field(out, key, key_size)
    out = write_field(out, value, value_size)
    return write_varint(out, zigzag_of(header_count))


# writing records by a stencil, whose bytes are copied at once

cdef inline void cut_stencil(
    Stencil *stencil, uint64_t timestamp_delta, Py_ssize_t count, Py_ssize_t value_size
) noexcept nogil:
    """Make the stencil for the record at offset delta ``count``; the timestamp's delta is zigzag-encoded."""
    cdef uint64_t offset_delta = zigzag_of(count)
    cdef int64_t body_size = size_body(timestamp_delta, offset_delta, -1, value_size, 0, 0)
    cdef unsigned char *out = write_varint(stencil.bytes, zigzag_of(body_size))
    out[0] = 0  # attributes: unused
    out = write_varint(out + 1, timestamp_delta)
    stencil.place = out - stencil.bytes
    out = write_field(write_varint(out, offset_delta), NULL, -1)
    if value_size < 0:
        out = write_field(out, NULL, -1)
    else:
        out = write_varint(out, <uint64_t>value_size << 1)
    stencil.size = out - stencil.bytes
    stencil.record_size = body_size + varint_size(zigzag_of(body_size))
    stencil.value_size = value_size
    stencil.timestamp_delta = timestamp_delta
    stencil.continued = 0x80 if offset_delta > 0x7F else 0
    stencil.stop = (count | 0x3F) + 1


cdef inline unsigned char *write_stenciled(
    const Stencil *stencil, unsigned char *out, Py_ssize_t count, const unsigned char *value
) noexcept nogil:
    """Write the record at offset delta ``count``, whose value is of the stencil's size."""
    memcpy(out, stencil.bytes, 32)
    # Here and not in the stencil: a CPU stalls on a read that overlaps a narrower write just before it.
    out[stencil.place] = <unsigned char>(count << 1 & 0x7F) | stencil.continued
    out += stencil.size
    if stencil.value_size > 0:
        memcpy(out, value, stencil.value_size)
        out += stencil.value_size
    out[0] = 0  # no headers
    return out + 1


cdef inline unsigned char *write_in_run(
    const Stencil *stencil, unsigned char *out, Py_ssize_t count, const unsigned char *value
) noexcept nogil:
    """As ``write_stenciled``, where many records follow."""
    out = write_stenciled(stencil, out, count, value)
    prefetch(out + BYTES_AHEAD, 1)
    prefetch(out + BYTES_AHEAD + LINE, 1)
    return out
