# C interface of the byte kernel, for the other compiled modules (producer_batch, record_accumulator).
#
# `cimport` RecordBatchBuilder to call `try_append` without a Python call and to read its counters as C fields.
# The fields are readonly for everybody but the kernel itself. Keep the Python twin, _kernel_py.py, in step.

cimport cython


cdef class RecordBlock:
    cdef unsigned char *data
    cdef Py_ssize_t used
    cdef Py_ssize_t allocated


@cython.final
cdef class RecordBatchBuilder:
    cdef readonly Py_ssize_t limit
    cdef public Py_ssize_t allowance
    cdef readonly Py_ssize_t size
    cdef readonly Py_ssize_t count
    cdef readonly Py_ssize_t capacity
    cdef readonly Py_ssize_t records_size
    cdef readonly long long base_timestamp
    cdef readonly long long max_timestamp
    cdef readonly int compression
    cdef readonly bint is_sealed
    cdef readonly long long producer_id
    cdef readonly int producer_epoch
    cdef readonly int base_sequence
    cdef readonly bint is_transactional
    cdef list _blocks
    cdef RecordBlock _block
    cdef unsigned char *_next
    cdef unsigned char *_stop
    cdef bint _is_closed
    cdef object _payload
    cdef bytes _header

    cpdef Py_ssize_t try_append(self, long long timestamp_ms, object key, object value, object headers) except -1
    cdef Py_ssize_t _append_buffers(self, long long timestamp_ms, object key, object value, object headers) except -1
    cdef Py_ssize_t _append(
        self, long long timestamp_ms,
        const unsigned char *key, Py_ssize_t key_size,
        const unsigned char *value, Py_ssize_t value_size,
        object headers,
    ) except -1
    cdef Py_ssize_t _next_block_size(self, Py_ssize_t record_size) noexcept
    cdef int _open_block(self, Py_ssize_t added) except -1
    cdef void _fill_block_before(self, Py_ssize_t record_size) noexcept
    cdef void _settle(self) noexcept


cpdef Py_ssize_t record_size_upper_bound(object key, object value, object headers) except -1
cpdef int murmur2(object data) except? -1
