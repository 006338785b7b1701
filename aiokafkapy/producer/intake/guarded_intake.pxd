# Types of guarded_intake.py for its compiled form. They are documented there.

from aiokafkapy.producer.intake.intercepted_intake cimport InterceptedIntake
from aiokafkapy.producer.intake.record_intake cimport RecordIntake


cdef class GuardedIntake(RecordIntake):
    cdef object _circuits

    cpdef object accept(
        self, object topic, object value, object key, object partition, object timestamp_ms, object headers
    )


cdef class GuardedInterceptedIntake(InterceptedIntake):
    cdef object _circuits

    cpdef object accept_intercepted(self, object record, object headers)


cdef object _accept(
    RecordIntake intake, object circuits, object topic, object value, object key, object partition,
    object timestamp_ms, object headers,
)
