# Types of produce_request.py for its compiled form. They are documented there.

cimport cython

cdef tuple _last_lone_head
cdef Py_ssize_t _CORRELATION_ID, _LONE_TAIL_SIZE, _INT32_SIZE, _BEHIND_PARTITION, _SMALL_BUFFER
cdef int _HIGHEST_VERSION
cdef bytes _LONE_TAIL


@cython.locals(head=bytearray, pieces=list, flexible=bint, size=Py_ssize_t, partition=int)
cpdef list encode_produce_request(
    int version, int correlation_id, object client_id, object transactional_id, int acks, int timeout_ms, object topics
)
cpdef list encode_lone_produce_request(
    int version, int correlation_id, object client_id, object transactional_id, int acks, int timeout_ms, object topic,
    bytes topic_id, int partition, tuple buffers
)
@cython.locals(size=Py_ssize_t, rest=Py_ssize_t, end=Py_ssize_t, head=bytearray)
cdef list _encode_lone_request(
    int correlation_id, object client_id, int acks, int timeout_ms, bytes topic_id, int partition, tuple buffers
)
cdef Py_ssize_t _put_long_size(bytearray head, Py_ssize_t size) except -1
cdef _put_int32(bytearray target, Py_ssize_t position, long long value)
@cython.locals(last_acks=int, last_timeout_ms=int, head=bytearray)
cdef bytearray _new_lone_head(object client_id, int acks, int timeout_ms, bytes topic_id)
cdef bytes _partition_head(long long partition, long long size, bint flexible)
@cython.locals(gathered=list, small=list, size=Py_ssize_t, total=Py_ssize_t)
cdef list _gathered(list pieces)
