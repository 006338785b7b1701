# Types of record_intake.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.deliveries.shortcuts cimport now_ms, running_loop
from aiokafkapy.producer.deliveries.delivery cimport Delivery
from aiokafkapy.producer.accumulator.record_appender cimport RecordAppender
from aiokafkapy.producer.arguments cimport check_data, headers_of, partition_of, time_of
from aiokafkapy.producer.intake.topic_state cimport TopicState
from aiokafkapy.record.builder cimport murmur2

cdef Py_ssize_t RECORD_COST
cdef int STICKY
cdef double NO_TIME


cdef class RecordIntake:
    cdef object _key_serializer
    cdef object _value_serializer
    cdef readonly object partitioner
    cdef bint _has_serializers
    cdef bint _is_sticky_without_key
    cdef bint _goes_by_key
    cdef object _why_unusable
    cdef object _runtime
    cdef object _loop
    cdef object _bound_loop
    cdef object _now
    cdef dict _topics
    cdef object _last_topic
    cdef TopicState _last_state
    cdef RecordAppender _appender
    cdef public Py_ssize_t unyielded
    cdef readonly Py_ssize_t opening

    @cython.locals(state=TopicState, chosen=int, time_ms="long long", delivery=Delivery, original=tuple)
    cpdef object accept(
        self, object topic, object value, object key, object partition, object timestamp_ms, object headers
    )
    @cython.locals(now=double)
    cdef Delivery _append_with_time(
        self, TopicState state, int partition, long long timestamp_ms, object key, object value, object headers
    )
    cdef object _pending(
        self, TopicState state, object partition, long long timestamp_ms, object key, object value, object headers,
        tuple original,
    )
    cdef tuple _serialize(self, object topic, object key, object value)
    cdef int _partition_for(self, TopicState state, object key, object value, tuple original) except? -2
    @cython.locals(state=TopicState)
    cdef TopicState _state_of(self, object topic)


cdef class IntakeHolder:
    cdef public RecordIntake _intake
