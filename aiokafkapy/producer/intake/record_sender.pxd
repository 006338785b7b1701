# Types of record_sender.py for its compiled form. They are documented there.

from aiokafkapy.producer.deliveries.delivery cimport Delivery
from aiokafkapy.producer.intake.record_intake cimport IntakeHolder, RecordIntake

cdef Py_ssize_t YIELD_AFTER
cdef set _open_deadlines
