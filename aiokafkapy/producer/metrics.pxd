# Types of metrics.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.observability.window cimport Window


@cython.final
cdef class SenderMetrics:
    cdef readonly Py_ssize_t records_sent
    cdef readonly Py_ssize_t records_retried
    cdef readonly Py_ssize_t batches_sent
    cdef readonly Py_ssize_t bytes_sent
    cdef readonly Py_ssize_t batch_splits
    cdef readonly Py_ssize_t requests_sent
    cdef public Py_ssize_t epoch_bumps
    cdef public Py_ssize_t log_truncations
    cdef public Py_ssize_t wake_ups
    cdef readonly object errors_by_code
    cdef public object last_success
    cdef readonly Window sends
    cdef readonly Window splits
    cdef readonly Window record_errors
    cdef readonly Window record_retries
    cdef readonly Window record_size
    cdef readonly Window batch_size
    cdef readonly Window compression_rate
    cdef readonly Window records_per_request
    cdef readonly Window queue_time
    cdef readonly Window request_latency
    cdef readonly Window throttle_time
    cdef readonly Window loop_lag
    cdef public object topics

    cpdef record_batch(
        self, Py_ssize_t record_count, Py_ssize_t size, Py_ssize_t uncompressed_size, double queued, double now
    )
    cpdef record_request(self, Py_ssize_t record_count, double now)
    cpdef record_response(self, double latency, int throttle_time_ms, double now)
    cpdef record_wake_up(self, double lag, double now)
