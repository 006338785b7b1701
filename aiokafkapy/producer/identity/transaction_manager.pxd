# Types of transaction_manager.py for its compiled form. They are documented there.

cimport cython

from aiokafkapy.producer.identity.sequenced_batch cimport SequencedBatch, increment_sequence

cdef int NO_SEQUENCE
cdef long long MAX_SEQUENCE
cdef long long NO_LAST_ACKED_SEQUENCE
cdef Py_ssize_t BATCHES_REMEMBERED

cpdef long long last_sequence_of(SequencedBatch batch) except -1
cpdef bint is_before(long long first, long long second) except -1


@cython.final
cdef class ProducerIdAndEpoch:
    cdef readonly long long producer_id
    cdef readonly int epoch

    cpdef bint is_that_of(self, long long producer_id, int epoch) except -1


@cython.final
cdef class TxnPartitionEntry:
    cdef public ProducerIdAndEpoch identity
    cdef public long long next_sequence
    cdef public long long last_acked_sequence
    cdef public long long last_acked_offset
    cdef public list in_flight

    @cython.locals(position=Py_ssize_t, before=SequencedBatch)
    cpdef add(self, SequencedBatch batch)
    cpdef remove(self, SequencedBatch batch)
    cpdef bint is_next_sequence(self, long long sequence) except -1


@cython.final
cdef class TransactionManager:
    cdef object _state
    cdef ProducerIdAndEpoch _identity
    cdef object _backoff
    cdef Py_ssize_t _attempts
    cdef double _retry_at
    cdef object _last_error
    cdef dict _partitions
    cdef set _partitions_to_rewrite
    cdef dict _unresolved
    cdef bint _is_foreign
    cdef readonly object transaction

    @cython.locals(entry=TxnPartitionEntry, oldest=SequencedBatch)
    cpdef bint should_stop_drain_batches_for_partition(self, object topic_partition, SequencedBatch first) except -1
    @cython.locals(entry=TxnPartitionEntry, identity=ProducerIdAndEpoch, is_transactional=bint)
    cpdef stamp(self, SequencedBatch batch)
    cpdef add_in_flight_batch(self, SequencedBatch batch)
    @cython.locals(entry=TxnPartitionEntry)
    cpdef remove_in_flight_batch(self, SequencedBatch batch)
    @cython.locals(entry=TxnPartitionEntry, last=cython.longlong, lost_from=cython.longlong)
    cpdef long long handle_completed_batch(self, SequencedBatch batch, long long base_offset) except *
    cpdef bint wants_attention(self) except -1
    cdef TxnPartitionEntry _entry(self, object topic_partition)
    cdef bint _is_current(self, TxnPartitionEntry entry) except -1
    cdef _rewrite_partitions(self)
    cdef _transition(self, object new)
