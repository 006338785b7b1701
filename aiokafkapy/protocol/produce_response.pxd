# Types of produce_response.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.protocol.framing cimport int32_at

cdef long long _TWO_TO_32
cdef Py_ssize_t _LONE_ANSWER_SIZE
cdef int _HIGHEST_VERSION


@cython.final
cdef class PartitionProduceResponse:
    cdef readonly object topic
    cdef readonly bytes topic_id
    cdef readonly int partition
    cdef readonly int error_code
    cdef readonly long long base_offset
    cdef readonly long long log_append_time_ms
    cdef readonly long long log_start_offset
    cdef readonly tuple record_errors
    cdef readonly object error_message
    cdef readonly object current_leader


@cython.final
cdef class ProduceResponse:
    cdef readonly long long correlation_id
    cdef readonly long long throttle_time_ms
    cdef readonly list partitions
    cdef readonly tuple node_endpoints


@cython.locals(answer=PartitionProduceResponse)
cdef PartitionProduceResponse _plain_answer(
    object topic, bytes topic_id, int partition, int error_code, long long base_offset, long long log_append_time_ms,
    long long log_start_offset,
)


@cython.locals(answer=PartitionProduceResponse, response=ProduceResponse)
cdef ProduceResponse _decode_lone_answer(bytes data, bytes topic_id)
@cython.locals(low="long long")
cdef long long _int64_at(bytes data, Py_ssize_t position) except? -1
@cython.locals(start=Py_ssize_t, most=Py_ssize_t, found=Py_ssize_t, plain=tuple)
cdef Py_ssize_t _read_plain_partitions(
    object cursor, Py_ssize_t count, object topic, bytes topic_id, list partitions
) except -1
cpdef ProduceResponse _decode_any_answer(int version, object frame)
@cython.locals(flexible=bint)
cdef _read_topic(object cursor, int version, list partitions)
cdef _skip_tags(object cursor)
cdef tuple _read(object cursor, object struct)
@cython.locals(position=Py_ssize_t, byte=int)
cdef long long _read_varint(object cursor) except -1
@cython.locals(count="long long")
cdef long long _read_count(object cursor, bint flexible) except -1
cpdef decode_produce_response(int version, object frame, bytes topic_id=*)
