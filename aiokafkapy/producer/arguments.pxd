# Types of arguments.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.record.builder cimport plain_headers, plain_number

cdef long long MAX_PARTITION
cdef long long MAX_TIMESTAMP

@cython.locals(number="long long")
cpdef int partition_of(object topic, object partition) except? -1
@cython.locals(number="long long")
cpdef long long time_of(object topic, object timestamp_ms) except? -1
@cython.locals(plain=tuple)
cpdef object headers_of(object topic, object headers)
cpdef check_data(object topic, object key, object value)
