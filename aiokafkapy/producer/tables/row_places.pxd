# Types of row_places.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.produce_request_result cimport ProduceRequestResult


@cython.final
cdef class RowPlaces:
    cdef list _results
    cdef object _firsts
    cdef object _starts
    cdef readonly long long count
    cdef object _window_rows
    cdef list _window_lanes
    cdef readonly long long row_count
    cdef object _outstanding
    cdef readonly object failed
    cdef Py_ssize_t _kept_window
    cdef tuple _kept_order
    cdef ProduceRequestResult _last
    cdef long long _next_index

    cpdef add_span(self, ProduceRequestResult result, long long first_index, long long count)
    cdef _begin_run(self, ProduceRequestResult result, long long first_index)
    cdef long long _end_of(self, Py_ssize_t run)
