"""Calls with only a topic and a value, in the shortest way, compiled: the twin of ``short_calls.py``.

Owns the way of a call from the interpreter to the intake, when it is of the plainest form: ``enqueue(topic, value)``
and ``send_nowait(topic, value)``, both arguments by position, outside ``deadline()``. It decides nothing: every other
call, and every call that waits, goes on to the function as it was compiled.

Rules:

- Cython looks for nine arguments, takes a reference to each and lets go of it. Here the two are read where the
  interpreter has them. A compiled function's entry is a pointer in its method table; ``shorten`` puts another pointer
  there, so that the function keeps its name, signature and documentation, and remains a coroutine function. A function
  of another form than expected stays as it is.
- A compiled coroutine is three objects, two of which the cyclic collector tracks: its arguments, itself, and its
  awaiter. ``EnqueueCall`` is all three in one. It keeps a coroutine's rules (PEP 492): nothing happens before it is
  awaited; it may be awaited only once; a call that is never awaited causes a warning.
- A call that has to wait delegates to a full coroutine.
"""

cimport cython
from cpython.exc cimport PyErr_Fetch, PyErr_Restore, PyErr_WriteUnraisable
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from aiokafkapy.producer.deliveries.delivery cimport Delivery
from aiokafkapy.producer.deliveries.returned cimport FAILED, RETURNED, YIELDED, Sent, set_send
from aiokafkapy.producer.intake.record_intake cimport IntakeHolder, RecordIntake

from aiokafkapy.producer.intake.record_deadlines import open_deadlines

__all__ = ["shorten"]

cdef enum:
    METH_FASTCALL_WITH_KEYWORDS = 0x0082
    BY_POSITION = 3  # the producer, the topic, the value
    ALL_BY_POSITION = 9

cdef enum Stage:
    NEW
    WAITING
    ENDED

ctypedef object (*Entry)(PyObject *function, PyObject **arguments, Py_ssize_t count, PyObject *names)
ctypedef void (*Destructor)(PyObject *call) noexcept

cdef extern from *:
    """
    #define AIOKAFKAPY_METHOD(function) (((PyCFunctionObject *)(function))->m_ml)
    #define AIOKAFKAPY_FLAGS(function) (AIOKAFKAPY_METHOD(function)->ml_flags)
    #define AIOKAFKAPY_ENTRY(function) ((void *)AIOKAFKAPY_METHOD(function)->ml_meth)
    #define AIOKAFKAPY_SET_ENTRY(function, entry) (AIOKAFKAPY_METHOD(function)->ml_meth = (PyCFunction)(entry))
    #define AIOKAFKAPY_DEALLOC(type) (((PyTypeObject *)(type))->tp_dealloc)
    #define AIOKAFKAPY_SET_DEALLOC(type, function) (AIOKAFKAPY_DEALLOC(type) = (destructor)(function))
    """
    int flags_of "AIOKAFKAPY_FLAGS"(object function)
    void *entry_of "AIOKAFKAPY_ENTRY"(object function)
    void set_entry "AIOKAFKAPY_SET_ENTRY"(object function, void *entry)
    Destructor dealloc_of "AIOKAFKAPY_DEALLOC"(object type)
    void set_dealloc "AIOKAFKAPY_SET_DEALLOC"(object type, void *function)

cdef extern from "Python.h":
    Sent PyIter_Send(object iterator, object value, PyObject **result) except FAILED
    void PyObject_GC_UnTrack(PyObject *object)
    int PyErr_WarnEx(object category, const char *message, Py_ssize_t stack_level) except -1

cdef set deadlines = open_deadlines

# The functions as they were compiled, and the parts of them that are used here.
cdef object enqueue_function = None
cdef Entry enqueue_in_full = NULL
cdef Entry send_nowait_in_full = NULL
cdef Entry accept_in_full = NULL
cdef Destructor let_go = NULL
cdef object finish_enqueue = None
cdef object admit_at_once = None
cdef Py_ssize_t most_unyielded = 0


def shorten(enqueue, finish, yield_after, send_nowait, admitted_at_once, accept):
    """Let these functions of compiled code take the short way: ``accept`` is that of ``send``. ``finish(intake,
    accepted)`` is the coroutine of an ``enqueue`` that has to wait, for its record or after ``yield_after`` bytes.
    """
    global enqueue_function, enqueue_in_full, send_nowait_in_full, accept_in_full
    global finish_enqueue, admit_at_once, most_unyielded, let_go
    for function in (enqueue, send_nowait, accept):
        if type(function).__name__ != "cython_function_or_method" or flags_of(function) != METH_FASTCALL_WITH_KEYWORDS:
            return
    if entry_of(enqueue) == <void *>begin_enqueue:
        return  # a method table outlives its module, which may be imported again
    enqueue_function, finish_enqueue, admit_at_once = enqueue, finish, admitted_at_once
    most_unyielded = yield_after
    enqueue_in_full = <Entry>entry_of(enqueue)
    send_nowait_in_full = <Entry>entry_of(send_nowait)
    accept_in_full = <Entry>entry_of(accept)
    set_send(EnqueueCall, <void *>send_into)
    let_go = dealloc_of(EnqueueCall)
    set_dealloc(EnqueueCall, <void *>warn_and_let_go)
    set_entry(enqueue, <void *>begin_enqueue)
    set_entry(send_nowait, <void *>run_send_nowait)
    set_entry(accept, <void *>run_accept)


@cython.freelist(64)
@cython.final
cdef class EnqueueCall:
    """The coroutine of one ``enqueue(topic, value)``."""

    cdef IntakeHolder _holder
    cdef object _topic
    cdef object _value
    cdef object _rest  # the awaited object, as an iterator
    cdef Stage _stage

    def __await__(self):
        return self

    def __iter__(self):
        return self

    def __next__(self):
        return self.send(None)

    cpdef object send(self, value):
        """As a coroutine's."""
        cdef PyObject *result = NULL
        cdef int sent = send_into(self, value, &result)
        cdef object found = <object>result
        Py_DECREF(found)  # it is the caller's reference
        if sent == RETURNED:
            raise StopIteration(found)
        return found

    def throw(self, typ, val=None, tb=None):
        """As a coroutine's."""
        if self._stage != WAITING:
            was_new = self._stage == NEW
            self._stage = ENDED
            if not was_new:
                raise RuntimeError("cannot reuse already awaited coroutine")
            error = typ if isinstance(typ, BaseException) else val if isinstance(val, BaseException) else (
                typ() if val is None else typ(val)
            )
            raise error if tb is None else error.with_traceback(tb)
        try:
            return self._rest.throw(typ) if val is None and tb is None else self._rest.throw(typ, val, tb)
        except BaseException:
            self._stage, self._rest = ENDED, None
            raise

    def close(self):
        """As a coroutine's."""
        rest, self._rest = self._rest, None
        self._stage = ENDED
        if rest is not None:
            rest.close()

    @property
    def __name__(self):
        return enqueue_function.__name__

    @property
    def __qualname__(self):
        return enqueue_function.__qualname__

    @property
    def cr_await(self):
        """The object that it awaits."""
        return self._rest

    def __repr__(self):
        return f"<coroutine object {self.__qualname__} at {id(self):#x}>"


# internals

cdef object begin_enqueue(PyObject *function, PyObject **arguments, Py_ssize_t count, PyObject *names):
    """The entry of ``enqueue``."""
    if names != NULL or count != BY_POSITION or not isinstance(<object>arguments[0], IntakeHolder):
        return enqueue_in_full(function, arguments, count, names)
    cdef EnqueueCall call = EnqueueCall.__new__(EnqueueCall)
    call._holder = <IntakeHolder>arguments[0]
    call._topic = <object>arguments[1]
    call._value = <object>arguments[2]
    return call


cdef object run_send_nowait(PyObject *function, PyObject **arguments, Py_ssize_t count, PyObject *names):
    """The entry of ``send_nowait``."""
    if names != NULL or count != BY_POSITION or deadlines or not isinstance(<object>arguments[0], IntakeHolder):
        return send_nowait_in_full(function, arguments, count, names)
    accepted = (<IntakeHolder>arguments[0])._intake.accept(
        <object>arguments[1], <object>arguments[2], None, None, None, None
    )
    return accepted if type(accepted) is Delivery else admit_at_once(accepted)


cdef object run_accept(PyObject *function, PyObject **arguments, Py_ssize_t count, PyObject *names):
    """The entry of ``send``'s way in."""
    cdef PyObject *none = <PyObject *>None
    if (
        count != ALL_BY_POSITION or names != NULL or deadlines or not isinstance(<object>arguments[0], IntakeHolder)
        or arguments[7] != none or arguments[8] != none  # the call's own time, and policy
    ):
        return accept_in_full(function, arguments, count, names)
    return (<IntakeHolder>arguments[0])._intake.accept(
        <object>arguments[1], <object>arguments[2], <object>arguments[3], <object>arguments[4], <object>arguments[5],
        <object>arguments[6],
    )


cdef void warn_and_let_go(PyObject *call) noexcept:
    """Replaces ``__dealloc__``, around which Cython saves and restores a pending error each time."""
    if (<EnqueueCall>call)._stage == NEW:
        PyObject_GC_UnTrack(call)  # it has no reference left, which the cyclic collector must not see
        warn_unawaited()
    let_go(call)


cdef void warn_unawaited() noexcept:
    cdef PyObject *error = NULL
    cdef PyObject *value = NULL
    cdef PyObject *traceback = NULL
    PyErr_Fetch(&error, &value, &traceback)
    try:
        PyErr_WarnEx(RuntimeWarning, b"coroutine 'RecordSender.enqueue' was never awaited", 1)
    except BaseException as unraisable:  # warnings are errors here
        PyErr_WriteUnraisable(unraisable)
    PyErr_Restore(error, value, traceback)


cdef int send_into(EnqueueCall call, object value, PyObject **result) except -1:
    """Go on with the call; its returned or yielded object is left in ``result``."""
    cdef RecordIntake intake
    cdef object accepted, given
    result[0] = NULL
    if call._stage == NEW:
        if value is not None:
            raise TypeError("can't send non-None value to a just-started coroutine")
        call._stage = ENDED
        if deadlines:
            call._rest = _in_full(call)
            call._value = None
        else:
            intake = call._holder._intake
            given = call._value
            call._value = None  # a task that is done keeps its coroutine
            accepted = intake.accept(call._topic, given, None, None, None, None)
            if type(accepted) is Delivery and intake.unyielded <= most_unyielded:
                Py_INCREF(accepted)
                result[0] = <PyObject *>accepted
                return RETURNED
            given = None  # its bytes are in the batch, or with the waiting record: they are not held twice
            call._rest = finish_enqueue(intake, accepted).__await__()
        call._stage = WAITING
    elif call._stage == ENDED:
        raise RuntimeError("cannot reuse already awaited coroutine")
    return _send_on(call, value, result)


cdef int _send_on(EnqueueCall call, object value, PyObject **result) except -1:
    cdef int sent = FAILED
    try:
        sent = PyIter_Send(call._rest, value, result)
    finally:
        if sent != YIELDED:
            call._stage, call._rest = ENDED, None
    return sent


cdef object _in_full(EnqueueCall call):
    cdef PyObject *arguments[BY_POSITION]
    arguments[0], arguments[1], arguments[2] = (
        <PyObject *>call._holder, <PyObject *>call._topic, <PyObject *>call._value
    )
    return enqueue_in_full(<PyObject *>enqueue_function, arguments, BY_POSITION, NULL).__await__()
