"""Iterators of awaited objects, compiled: the twin of ``returned.py``.

A waiter is an iterator itself, and reads the outcome: see ``waiter.pyx``. Rules of ``Returned``:

- It ends with its first step, so it has no ``throw`` and no ``close``: nothing can be suspended in it. A second step
  returns None, as a generator's does.
- A task steps it by ``am_send`` where the interpreter asks for that (until 3.11), which saves the StopIteration.
- It is not tracked by the cyclic collector: a record's metadata, its value, refer to nothing else.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF


@cython.freelist(64)
@cython.no_gc
@cython.final
cdef class Returned:
    """The iterator of one awaited object."""

    cdef object _value

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        raise StopIteration(_taken(self))

    def send(self, value):
        """As a generator's."""
        raise StopIteration(_taken(self))


cpdef object returned(object value):
    cdef Returned iterator = Returned.__new__(Returned)
    iterator._value = value
    return iterator


cdef OutcomeAfter installed = NULL


cpdef object outcome_after(object waiter, object outcome):
    if installed == NULL:
        raise RuntimeError("no running event loop")
    return installed(waiter, outcome)


cdef void set_outcome_after(OutcomeAfter function) noexcept:
    global installed
    installed = function


# internals

cdef object _taken(Returned iterator):
    value, iterator._value = iterator._value, None
    return value


cdef int _send(Returned iterator, object value, PyObject **result) except -1:
    """One step; the value is left in ``result``."""
    cdef object taken = _taken(iterator)
    Py_INCREF(taken)
    result[0] = <PyObject *>taken
    return RETURNED


set_send(Returned, <void *>_send)
