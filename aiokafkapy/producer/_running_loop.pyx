# cython: language_level=3
"""``running_loop()``, compiled: the twin of ``running_loop.py``.

Rule: the answer is asyncio's own, always. What asyncio keeps for each thread (an object of its own for each time that
a loop runs, in Python 3.11; the loop itself, later) is compared with what was found there the last time; only when
that is another is asyncio asked. Where it is kept in another place asyncio is asked each time.
"""

import os
from asyncio import _get_running_loop

from cpython.object cimport PyObject

cdef extern from "Python.h":
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


def forget():
    """Ask asyncio the next time: a forked child has the memory of a loop, but runs none."""
    global last_found, last_loop
    last_found = last_loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=forget)
