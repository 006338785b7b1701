# Types of metadata_topic.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.protocol.framing cimport int32_at

cdef Py_ssize_t _NUMBER, _LEADER, _LEADER_EPOCH, _LISTS, _INT32_SIZE, _PARTITIONS_PER_SLICE
cdef int _LONG_VARINT


@cython.locals(
    end=Py_ssize_t, stop=Py_ssize_t, row=Py_ssize_t, numbers=list, leaders=list, leader_epochs=list, columns=list,
    column=list, raw=bytes, found=tuple
)
cdef _read_partitions(bytes data, Py_ssize_t position, Py_ssize_t count, object cursor, dict lists, object on_slice)
@cython.locals(size=Py_ssize_t, stop=Py_ssize_t)
cdef Py_ssize_t _end_of_list(bytes data, Py_ssize_t position, Py_ssize_t end) except -1
@cython.locals(place=Py_ssize_t)
cdef tuple _int32s(bytes raw)
