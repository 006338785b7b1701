"""The object that a task awaits while its record has no answer yet, compiled: the twin of ``waiter.py``.

A ``Waiter`` has the interface that asyncio's tasks need of an awaited future, and no more (``Task.__step`` and
``Task.__wakeup`` of asyncio/tasks.py): it yields itself, the task leaves its wake-up call, and goes on when that is made.

Rules:

- It is for one task, awaited once. With an outcome to read it is the whole wait for that: the task gets what
  ``outcome.result()`` returns, or raises, when it goes on, without an iterator around the waiter.
- It is not tracked by the cyclic collector, and holds the task's call, which holds the task, which holds the waiter.
  So it releases the call, and the outcome, in any case: woken, or cancelled or closed with its task. It is woken in the
  end, also when there is no outcome.
- A task calls only ``result()`` of the future that wakes it. So one future that is done wakes them all: asyncio reads
  its own futures in a few instructions, and others in more than a thousand.
- Tasks that are woken together are one callback of the loop, for a handle of its own costs each 1,500 instructions.
  They run in the turn and in the order in which their handles would, each in its context, and nothing can come between
  them. This is for asyncio's own tasks in C only: none of them runs within a step of another, while tasks in Python
  can be made to run a loop within a step (nest_asyncio), which would wait for the rest of its bundle for ever. It is
  off in debug mode, which tells which callback was slow.
- Each time, a task reads three attributes of the object that it awaits (whether it blocks, its loop, and
  ``add_done_callback``) and sets the first. It gets them without a look-up, by the names' identity, for asyncio's are
  interned; all else goes the usual way. Both methods that it gets are the waiter itself, for a bound one would be an
  object more: called without an argument it is ``get_loop``, if it was last asked for that, which would ask the system
  for the process each time; else ``add_done_callback``, whose arguments it reads where the interpreter has them
  (PEP 590).
"""

cimport cython

from asyncio import CancelledError, Future, get_running_loop

from cpython.contextvars cimport PyContext_CopyCurrent, PyContext_Enter, PyContext_Exit
from cpython.object cimport PyObject, PyObject_GenericGetAttr, PyObject_GenericSetAttr
from cpython.ref cimport Py_INCREF

from aiokafkapy.producer.deliveries.delivery cimport Delivery
from aiokafkapy.producer.deliveries.returned cimport RETURNED, YIELDED, set_outcome_after, set_send

cdef enum:
    PENDING
    WOKEN
    CANCELLED

cdef extern from *:
    """
    /* Cython has no names for these slots. */
    static void aiokafkapy_set_vectorcall(PyObject *type, size_t offset) {
        ((PyTypeObject *)type)->tp_vectorcall_offset = (Py_ssize_t)offset;
        ((PyTypeObject *)type)->tp_call = PyVectorcall_Call;
        ((PyTypeObject *)type)->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
    }
    """
    void set_vectorcall "aiokafkapy_set_vectorcall"(object type, size_t offset)

cdef extern from "Python.h":
    bint PyCFunction_Check(object value)
    Py_ssize_t PyVectorcall_NARGS(size_t count)
    object PyObject_VectorcallMethod(object name, PyObject **arguments, size_t count, object names)


class NoLoop:
    """The loop of a future that is done from the beginning: a task asks it for this, and nothing else."""

    def get_debug(self):
        return False


cdef object DONE = Future(loop=NoLoop())
DONE.set_result(None)

cdef str BLOCKING = "_asyncio_future_blocking"
cdef str GET_LOOP = "get_loop"
cdef str ADD_DONE_CALLBACK = "add_done_callback"
cdef str CALL_SOON = "call_soon"
cdef tuple CONTEXT = ("context",)
cdef PyObject *tasks_names = NULL  # the same, in the one tuple that asyncio's tasks have
cdef object add_done_callback = None  # the method, as it stands in the class


@cython.freelist(4096)
@cython.no_gc
@cython.final
cdef class Waiter:
    """A future for one task, which only wakes it."""

    cdef void *_call  # what makes it callable
    cdef bint _is_get_loop  # which of its methods it was last asked for
    cdef public bint _asyncio_future_blocking
    cdef int _state
    cdef object _loop
    cdef object _wake_up
    cdef object _context
    cdef object _message
    cdef object _outcome

    def __getattribute__(self, name):
        if name is BLOCKING:
            return self._asyncio_future_blocking
        if name is GET_LOOP or name is ADD_DONE_CALLBACK:
            self._is_get_loop = name is GET_LOOP
            return self
        return PyObject_GenericGetAttr(self, name)

    def __setattr__(self, name, value):
        if name is BLOCKING:
            self._asyncio_future_blocking = value
        else:
            PyObject_GenericSetAttr(self, name, value)

    def __await__(self):
        return self

    def __next__(self):
        if self._state == PENDING:
            self._asyncio_future_blocking = True
            return self
        self.result()
        if self._outcome is None:
            raise StopIteration
        raise StopIteration(_result_of_outcome(self))

    def __iter__(self):
        return self

    def add_done_callback(self, wake_up, *, context=None):
        _add(self, wake_up, context)

    def cancel(self, msg=None):
        if self._state != PENDING:
            return False
        self._state = CANCELLED
        self._message = msg
        self._outcome = None
        _tell(self)
        return True

    def close(self):
        """As a generator's: the coroutine that awaits it ends here, and it will never go on."""
        if self._state == PENDING:
            self._state = CANCELLED
        self._wake_up = self._context = self._outcome = None

    cpdef result(self):
        if self._state == CANCELLED:
            raise CancelledError() if self._message is None else CancelledError(self._message)

    def get_loop(self):
        """The task's loop."""
        return self._loop

    def done(self):
        """True when it was woken or cancelled."""
        return self._state != PENDING

    def __repr__(self):
        return f"<Waiter {'pending' if self._state == PENDING else 'done'}>"


add_done_callback = Waiter.__dict__[ADD_DONE_CALLBACK]


cpdef object new_waiter(object loop):
    cdef Waiter waiter = Waiter.__new__(Waiter)
    waiter._call = <void *>_called
    waiter._loop = loop
    return waiter


cpdef object wake(object waiter):
    cdef Waiter found = <Waiter?>waiter
    if found._state == PENDING:
        found._state = WOKEN
        _tell(found)


cpdef object wake_all(list waiters):
    cdef Waiter waiter
    cdef bint is_bundled
    cdef object found, loop = None
    cdef list calls = []
    if len(waiters) == 1:  # a lone awaited record's
        wake(waiters[0])
        return
    for found in waiters:
        waiter = <Waiter?>found
        is_bundled = waiter._state == PENDING and PyCFunction_Check(waiter._wake_up)
        if not is_bundled or waiter._loop is not loop:
            _call_in_turn(loop, calls)
            loop, calls = waiter._loop, []
        if not is_bundled:
            wake(waiter)
            continue
        calls.append(waiter._wake_up)
        calls.append(PyContext_CopyCurrent() if waiter._context is None else waiter._context)
        waiter._wake_up = waiter._context = None
        waiter._state = WOKEN
    _call_in_turn(loop, calls)


def run_in_turn(list calls):
    """The loop's callback: make these calls, from the last to the first, each behind its context, letting go of each."""
    cdef object context, wake_up
    while calls:
        wake_up = calls.pop()
        context = calls.pop()
        PyContext_Enter(context)
        try:
            wake_up(DONE)
        except BaseException:
            # The loop is told of the error, as of any callback's; the other tasks still have their turn.
            _call_soon(get_running_loop(), run_in_turn, calls, None)
            raise
        finally:
            PyContext_Exit(context)


# internals

cdef object _called(PyObject *waiter, PyObject **arguments, size_t flags, PyObject *names):
    """``get_loop()``, or ``add_done_callback(wake_up, context=context)``, as a task calls them."""
    global tasks_names
    cdef Py_ssize_t count = PyVectorcall_NARGS(flags)
    if count == 0 and names == NULL and (<Waiter>waiter)._is_get_loop:
        return (<Waiter>waiter)._loop
    if count == 1 and names != NULL and (names == tasks_names or <tuple>names == CONTEXT):
        if tasks_names == NULL:
            Py_INCREF(<object>names)  # kept for good, as asyncio keeps it
            tasks_names = names
        _add(<Waiter>waiter, <object>arguments[0], <object>arguments[1])
        return None
    named = {} if names == NULL else {
        name: <object>arguments[count + place] for place, name in enumerate(<tuple>names)
    }
    return add_done_callback(<object>waiter, *[<object>arguments[place] for place in range(count)], **named)


cdef int _send(Waiter waiter, object value, PyObject **result) except -1:
    """One step, without a StopIteration; the object that is yielded or returned is left in ``result``."""
    cdef object found
    result[0] = NULL
    if waiter._state == PENDING:
        waiter._asyncio_future_blocking = True
        Py_INCREF(waiter)
        result[0] = <PyObject *>waiter
        return YIELDED
    waiter.result()
    found = None if waiter._outcome is None else _result_of_outcome(waiter)
    Py_INCREF(found)
    result[0] = <PyObject *>found
    return RETURNED


cdef object _outcome_after(object waiter, object outcome):
    (<Waiter?>waiter)._outcome = outcome
    return waiter


cdef object _result_of_outcome(Waiter waiter):
    outcome, waiter._outcome = waiter._outcome, None
    return (<Delivery>outcome).result() if type(outcome) is Delivery else outcome.result()


cdef int _add(Waiter waiter, wake_up, context) except -1:
    waiter._wake_up = wake_up
    waiter._context = context
    if waiter._state != PENDING:
        _tell(waiter)
    return 0


cdef int _call_in_turn(loop, list calls) except -1:
    """Have the loop make these calls, each with its context behind it, one after the other."""
    cdef Py_ssize_t place
    if len(calls) > 2 and not loop.get_debug():
        calls.reverse()
        _call_soon(loop, run_in_turn, calls, None)
        return 0
    for place in range(0, len(calls), 2):
        _call_soon(loop, calls[place], DONE, calls[place + 1])
    return 0


cdef int _tell(Waiter waiter) except -1:
    loop, wake_up, context = waiter._loop, waiter._wake_up, waiter._context
    if wake_up is None:
        return 0
    told = waiter if waiter._state == CANCELLED else DONE
    waiter._wake_up = waiter._context = None
    _call_soon(loop, wake_up, told, context)
    return 0


cdef int _call_soon(loop, function, argument, context) except -1:
    cdef PyObject *arguments[4]
    arguments[0], arguments[1], arguments[2], arguments[3] = (
        <PyObject *>loop, <PyObject *>function, <PyObject *>argument, <PyObject *>context
    )
    try:
        PyObject_VectorcallMethod(CALL_SOON, arguments, 3, CONTEXT)
    except RuntimeError:  # the loop is closed
        pass
    return 0


cdef int _set_slots() except -1:
    cdef Waiter waiter = Waiter.__new__(Waiter)
    set_outcome_after(_outcome_after)
    set_send(Waiter, <void *>_send)
    set_vectorcall(Waiter, <size_t>&waiter._call - <size_t><void *>waiter)
    return 0


_set_slots()
