# Types of sequenced_batch.py for its compiled form. They are documented there.

cdef int _NOTHING
cdef long long _MASK

cpdef long long increment_sequence(long long sequence, long long by) except -1


cdef class SequencedBatch:
    cdef readonly long long order
    cdef readonly long long producer_id
    cdef readonly int producer_epoch
    cdef readonly int base_sequence
    cdef public bint is_done
    cdef readonly bint is_transactional
    cdef public bint sequence_has_been_reset
    cdef public bint may_be_renumbered
    # Last, beside the fields of ProducerBatch that each append touches.
    cdef readonly Py_ssize_t record_count

    cpdef object destination(self)
    cpdef set_producer_state(
        self, long long producer_id, int producer_epoch, int base_sequence, bint is_transactional=*
    )
    cpdef stamp(self)
    cdef _without_sequence(self, long long order, Py_ssize_t record_count)
