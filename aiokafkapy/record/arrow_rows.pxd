# C interface of the kernel that reads rows out of columns, for record_appender. The names are documented in
# arrow_rows.py; keep the two in step.

cimport cython
from libc.stdint cimport int32_t, int64_t

from aiokafkapy.record.builder cimport RecordBatchBuilder


# Integers; with width 0 there is only the validity of the rows.
cdef struct Numbers:
    const unsigned char *validity
    const unsigned char *data
    Py_ssize_t offset
    int width


cdef struct Strings:
    int layout
    bint has_indices
    Numbers indices
    const unsigned char *validity
    const unsigned char *offsets
    const unsigned char *data
    Py_ssize_t data_size
    Py_ssize_t offset
    Py_ssize_t length
    Py_ssize_t width
    Py_ssize_t buffer_count
    const unsigned char **buffers
    Py_ssize_t *buffer_sizes


# A byte string of a row; size is -1 for null.
cdef struct Piece:
    const unsigned char *data
    Py_ssize_t size


cdef struct TopicRoute:
    int32_t first_lane
    int32_t partition_count
    int32_t sticky_partition
    int64_t sticky_bytes


@cython.final
cdef class ArrowRows:
    cdef public long long now_ms
    cdef public long long encoded_bytes
    cdef readonly Py_ssize_t start
    cdef readonly Py_ssize_t planned
    cdef public Py_ssize_t position
    cdef readonly Py_ssize_t refused
    # columns
    cdef object _columns
    cdef list _held
    cdef Py_ssize_t _count
    cdef Strings _value
    cdef Strings _key
    cdef Strings _header_names
    cdef Strings _header_values
    cdef Numbers _partition
    cdef Numbers _timestamp
    cdef Numbers _topics
    cdef Numbers _header_entries
    cdef Numbers _header_lists
    cdef Py_ssize_t _entry_count
    cdef bint _has_key
    cdef bint _has_headers
    cdef bint _has_partition
    cdef bint _has_timestamp
    cdef bint _has_topics
    cdef bint _hashes_keys
    cdef int64_t _multiplier
    cdef int64_t _divisor
    # the plan: a lane for each row and the order, unless all are in one lane; the end of each lane; and the routes
    cdef int32_t *_lanes
    cdef int32_t *_order
    cdef Py_ssize_t _allocated
    cdef int32_t *_lane_ends
    cdef Py_ssize_t _lanes_allocated
    cdef TopicRoute *_routes
    cdef Py_ssize_t _topic_count
    cdef int32_t _only_lane
    # an incomplete plan
    cdef Py_ssize_t _stop
    cdef Py_ssize_t _lane_count
    cdef int64_t _most_sticky_bytes

    cpdef bint plan(self, Py_ssize_t start, Py_ssize_t stop, list routes, long long most_sticky_bytes) except -1
    cpdef bint plan_on(self) except -1
    cdef void _end_plan(self, int32_t only_lane) noexcept
    cpdef Py_ssize_t row_at(self, Py_ssize_t position) noexcept
    cpdef Py_ssize_t lane_at(self, Py_ssize_t position) noexcept
    cpdef Py_ssize_t end_of_lane(self, Py_ssize_t position) noexcept
    cpdef tuple record(self, Py_ssize_t row)
    cpdef Py_ssize_t append_run(self, RecordBatchBuilder builder, Py_ssize_t stop, long long most_bytes) except -1
    cdef Strings _strings(self, object column) except *
    cdef Numbers _numbers(self, object column) except *
    cdef Numbers _list_offsets(self, object headers) except *
    cdef const unsigned char *_address(self, object buffer, Py_ssize_t least, Py_ssize_t *size) except? NULL
    cdef void _choose_lanes(self) noexcept nogil
    cdef int32_t _lane_of(self, Py_ssize_t row, TopicRoute *route, int64_t *hashed) noexcept nogil
    cdef bint _sort(self) noexcept nogil
    cdef bint _timestamp_of(self, Py_ssize_t row, int64_t *timestamp_ms) noexcept nogil
    cdef bint _size_headers(self, Py_ssize_t row, Py_ssize_t *first, Py_ssize_t *count, Py_ssize_t *size) noexcept nogil
    cdef unsigned char *_write_headers(self, unsigned char *out, Py_ssize_t first, Py_ssize_t count) noexcept nogil
    cdef Py_ssize_t _encode(self, RecordBatchBuilder builder, Py_ssize_t stop, int64_t most_bytes) noexcept nogil
    cdef Py_ssize_t _encode_values(self, RecordBatchBuilder builder, Py_ssize_t stop, int64_t most_bytes) noexcept nogil
