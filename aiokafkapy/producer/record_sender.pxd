# Types of record_sender.py for its compiled form. See there for what they mean.

from aiokafkapy.producer.delivery cimport Delivery
from aiokafkapy.producer.record_intake cimport RecordIntake

cdef Py_ssize_t YIELD_AFTER
