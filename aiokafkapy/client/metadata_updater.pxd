# Types of metadata_updater.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.cluster.update_times cimport UpdateTimes


@cython.final
cdef class MetadataUpdater:
    cdef object _metadata
    cdef UpdateTimes _times
    cdef object _nodes
    cdef object _client
    cdef bint _rebootstraps
    cdef double _rebootstrap_trigger
    cdef object _timeouts
    cdef object _log
    cdef object _in_progress
    cdef Py_ssize_t _failed_requests
    cdef object _attempt_started
    cdef readonly bint is_waiting_for_node
    cdef readonly double silence_at

    cpdef bint is_update_due(self, double now) except -1
