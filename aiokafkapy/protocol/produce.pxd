# Types of produce.py for its compiled form. See there for what they mean.

cimport cython


cpdef list encode_produce_request(
    int version, int correlation_id, object client_id, object transactional_id, int acks, int timeout_ms, object topics
)
@cython.locals(size=Py_ssize_t, encoded_id=bytes, records_size=bytes)
cdef list _encode_lone_request(
    int correlation_id, object client_id, int acks, int timeout_ms, object topic_id, int partition, object buffers
)
cpdef decode_produce_response(int version, object frame)
