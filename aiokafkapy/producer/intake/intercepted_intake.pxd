# Types of intercepted_intake.py for its compiled form. They are documented there.

from aiokafkapy.producer.intake.record_intake cimport RecordIntake


cdef class InterceptedIntake(RecordIntake):
    cdef object _interceptors

    cpdef object accept(
        self, object topic, object value, object key, object partition, object timestamp_ms, object headers
    )
    cpdef object accept_intercepted(self, object record, object headers)
