"""Handle: what C gave, and who may use it now. No call reaches what is closed or another process's."""

from __future__ import annotations

import atexit
import contextlib
import os
import sys
import threading
import weakref
from types import FrameType
from typing import Any, Callable

from ._library import check, failure, lib
from .errors import ClosedError, Error

_live: weakref.WeakSet[SessionHandle] = weakref.WeakSet()
_PASSING = ("<listcomp>", "<genexpr>")
_ONE, _AFTER = "one thread at a time calls it", "close after it returns"
_ender: int | None = None  # the thread that ends the interpreter


def _stay() -> None:
    """Keeps a daemon thread here while the interpreter ends, because Python aborts where such a thread prints an error
    then."""
    if _ender is not None and threading.get_ident() != _ender:
        threading.Event().wait()


def _caller() -> FrameType:
    """The frame that has `with handle`, of its own or by an ExitStack, which a comprehension may fill: that one's frame
    ends before the call."""
    frame: FrameType | None = sys._getframe(2)
    while frame and (frame.f_code.co_filename == contextlib.__file__ or frame.f_code.co_name in _PASSING):
        frame = frame.f_back
    return frame or sys._getframe(1)


def _runs(frame: FrameType, newest: FrameType | None) -> bool:
    """Whether a frame is on the stack whose newest frame is given."""
    while newest is not None and newest is not frame:
        newest = newest.f_back
    return newest is frame


class Handle:
    """What C gave, in the one process that asked for it: `with handle as pointer:` keeps it open during a call. `end`
    gives it back. `alone`: one call at a time, of whatever thread."""

    def __init__(self, pointer: Any, what: str, end: Callable[[Any], Any], alone: bool = True) -> None:
        self._pointer = pointer
        self._what = what
        self._give_back = end
        self._alone = alone
        self._process = os.getpid()
        self._lock = threading.RLock()  # a handler of a signal may interrupt() on the thread that has it
        self._users: list[tuple[int, FrameType]] = []  # calls that run: the thread, and the frame that calls
        self._idle = threading.Condition(self._lock)
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    def foreign(self) -> bool:
        """Whether this is a forked child, where the handle is the parent's."""
        return os.getpid() != self._process

    def _check_open(self) -> None:
        if self._closed:
            raise ClosedError(f"{self._what} is closed", lib.WEFT_E_STATE, "state")

    def __enter__(self) -> Any:
        if self.foreign():  # before the lock, which another thread of the parent may have held at the fork
            raise ClosedError(
                f"{self._what} belongs to process {self._process}, from which this one was forked: open one here",
                lib.WEFT_E_STATE,
                "state",
            )
        _stay()
        with self._lock:
            self._check_open()
            if self._alone and not self._is_free():
                raise failure(lib.WEFT_E_STATE, f"{self._what}: a call on another thread is running; {_ONE}")
            self._users.append((threading.get_ident(), _caller()))
        return self._pointer

    def __exit__(self, *error: Any) -> None:
        with self._lock:
            for user in reversed(self._users):
                if user[0] == threading.get_ident():
                    self._users.remove(user)
                    break
            self._idle.notify_all()
        _stay()

    def _forget_cut(self) -> None:
        """Drops calls whose frame runs no more: Ctrl-C cut them before __exit__, and nothing else ends them."""
        if self._users:
            newest = sys._current_frames()
            self._users = [user for user in self._users if _runs(user[1], newest.get(user[0]))]

    def _is_free(self) -> bool:
        """Whether no other thread is in a call. One of this thread's runs where a callback closes the session, and is
        C's to refuse."""
        self._forget_cut()
        return all(thread == threading.get_ident() for thread, _ in self._users)

    def close(self, patience: float = 0.0) -> None:
        """Gives the handle back, once. Waits so long for calls on other threads to end, and raises if they do not."""
        if self._closed or self.foreign():
            return
        with self._lock:
            if self._closed:
                return
            if not self._idle.wait_for(self._is_free, patience):
                raise failure(lib.WEFT_E_STATE, f"{self._what}: a call on another thread is running; {_AFTER}")
            if self._alone and self._users:
                raise failure(lib.WEFT_E_STATE, f"{self._what}: the call that calls back is running; {_AFTER}")
            self._closed = True
        self._end()

    def _end(self) -> None:
        try:
            self._give_back(self._pointer)
        except Error:
            self._closed = False
            raise
        self._pointer = None

    def __del__(self) -> None:
        with contextlib.suppress(Error):
            self.close()


class SessionHandle(Handle):
    """A session's. Calls run beside each other, because C tells which of them may."""

    def __init__(self, pointer: Any, what: str) -> None:
        super().__init__(pointer, what, lambda session: check(lib.weft_close(session)), alone=False)
        self._interrupted = False
        _live.add(self)

    def interrupt(self) -> None:
        """Ends the wait that runs, or else the next one: C ends its slice, and the mark says that this is all."""
        with self as session:
            self._interrupted = True
            lib.weft_interrupt(session)

    def take_interrupt(self) -> bool:
        """Whether interrupt() was called, and no wait ended by that so far."""
        was, self._interrupted = self._interrupted, False
        return was


@atexit.register
def _close_all() -> None:
    """At the interpreter's end no session of C may be left: its threads would outlive what they read."""
    global _ender
    _ender = threading.get_ident()
    for handle in list(_live):
        if handle.closed or handle.foreign():
            continue
        try:
            handle.interrupt()
            handle.close(patience=1.0)
        except Error:
            pass
