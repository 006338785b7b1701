# cython: language_level=3
"""What every record asks for, compiled: the twin of ``shortcuts.py``.

Rule: ``running_loop()`` is asyncio's own answer, always. What asyncio keeps for each thread (an object of its own for
each time that a loop runs, in Python 3.11; the loop itself, later) is compared with what was found there the last time;
only when that is another is asyncio asked. Where it is kept in another place asyncio is asked each time.
"""

import os
from asyncio import _get_running_loop

from cpython.object cimport PyObject
from cpython.ref cimport Py_INCREF

from .records import RecordMetadata

cdef extern from "Python.h":
    object PyType_GenericAlloc(type type, Py_ssize_t items)
    void PyTuple_SET_ITEM(object tuple, Py_ssize_t place, object stolen)
    PyObject *PyThreadState_GetDict()
    PyObject *PyDict_GetItem(PyObject *mapping, object key)

cdef str KEPT_AS = "__asyncio_running_event_loop__"

# What was found last, and the loop that it stood for.
cdef object last_found = None
cdef object last_loop = None


cpdef object running_loop():
    """The event loop that runs in this thread, or None."""
    global last_found, last_loop
    cdef PyObject *found = PyThreadState_GetDict()
    if found != NULL:
        found = PyDict_GetItem(found, KEPT_AS)
    if found == NULL:
        return _get_running_loop()
    if found == <PyObject *>last_found:
        return last_loop
    loop = _get_running_loop()
    last_found = None  # in this order, for letting go of the last loop may run anything
    last_loop = loop
    last_found = <object>found
    return loop


cpdef object record_metadata(
    object topic, object partition, long long offset, long long timestamp_ms, long long key_size, long long value_size
):
    """A ``RecordMetadata``, without its constructor, which makes another tuple first."""
    metadata = PyType_GenericAlloc(RecordMetadata, 6)
    _put(metadata, 0, topic)
    _put(metadata, 1, partition)
    _put(metadata, 2, offset)
    _put(metadata, 3, timestamp_ms)
    _put(metadata, 4, key_size)
    _put(metadata, 5, value_size)
    return metadata


cdef inline void _put(object metadata, Py_ssize_t place, object item):
    Py_INCREF(item)
    PyTuple_SET_ITEM(metadata, place, item)


def forget():
    """Ask asyncio the next time: a forked child has the memory of a loop, but runs none."""
    global last_found, last_loop
    last_found = last_loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
