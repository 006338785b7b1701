# Types of serialized_record.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class SerializedRecord:
    cdef readonly str topic
    cdef readonly int partition
    cdef readonly long long timestamp_ms
    cdef readonly object key
    cdef readonly object value
    cdef readonly object headers


@cython.locals(record=SerializedRecord)
cpdef SerializedRecord serialized_record(
    str topic, int partition, long long timestamp_ms, object key, object value, object headers
)
