# Types of topic_state.py for its compiled form. They are documented there.

cimport cython


@cython.final
cdef class TopicState:
    cdef readonly str topic
    cdef public object cluster
    cdef public int partition_count
    cdef public double renew_at
    cdef public long long wait_beyond
    cdef public object waiting
    cdef public int askers
    cdef public object check_time
