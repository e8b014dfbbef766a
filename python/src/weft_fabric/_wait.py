"""Waiting so that Ctrl-C ends it: Python's handlers run between calls of C, and never inside one."""

from __future__ import annotations

import math
import threading
import time
from typing import Any, Callable

SLICE_MS = 50  # the longest that one call of C waits: Ctrl-C is late by that much at most


def ms_of(seconds: float) -> int:
    """Milliseconds, rounded up; at most what weft.h takes."""
    return math.ceil(min(max(0.0, seconds * 1000), 0xFFFFFFFF))


class Deadline:
    """A time to wait, taken in slices. None waits for ever."""

    def __init__(self, seconds: float | None) -> None:
        self._end = None if seconds is None else time.monotonic() + seconds

    def slice(self, most: int = SLICE_MS) -> int:
        """Milliseconds of the next slice."""
        return most if self._end is None else min(ms_of(self._end - time.monotonic()), most)

    def left(self) -> float | None:
        """Seconds left, from 0; None: it waits for ever."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def passed(self) -> bool:
        return self._end is not None and time.monotonic() >= self._end


class _Work:
    """A call on a thread of its own. What it brings after it was given up is dropped."""

    def __init__(self, call: Callable[[], Any], drop: Callable[[Any], None] | None) -> None:
        self._call = call
        self._drop = drop
        self._lock = threading.Lock()
        self._begun = False
        self._given_up = False
        self.done = threading.Event()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        with self._lock:
            if self._given_up:
                return
            self._begun = True
        try:
            self.result = self._call()
        except BaseException as error:  # carried to the caller's thread
            self.error = error
        with self._lock:
            self.done.set()
            if self._given_up and self._drop and self.error is None:
                self._drop(self.result)

    def give_up(self) -> None:
        """Drops the result, now or when it comes. A call that has not begun never begins."""
        with self._lock:
            if self._given_up:
                return
            self._given_up = True
            if not self._begun:
                self.done.set()
            elif self.done.is_set() and self._drop and self.error is None:
                self._drop(self.result)


def _surely(step: Callable[[], Any]) -> None:
    """Makes a step that bears repetition until it was made whole, because each Ctrl-C may cut it short."""
    while True:
        try:
            step()
            return
        except KeyboardInterrupt:
            continue


def _end(work: _Work, interrupt: Callable[[], None] | None) -> None:
    """Gives the work up. With an `interrupt` the call is over afterwards, because C uses what the caller then frees."""
    _surely(work.give_up)
    if interrupt:
        _surely(interrupt)
        _surely(work.done.wait)


def interruptible(call: Callable[[], Any], interrupt: Callable[[], None] | None = None,
                  drop: Callable[[Any], None] | None = None) -> Any:  # fmt: skip
    """Makes a call of C that has no slices, on a thread of its own if this is the thread that gets Ctrl-C.

    On Ctrl-C `interrupt` ends the call, which is then awaited whatever else comes. Without it the call is left to end
    by itself, and `drop` gives back what it brings: `call` must then own all that C uses.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    work = _Work(call, drop)
    try:
        threading.Thread(target=work.run, daemon=True, name="weft").start()  # Ctrl-C may come before it returns
        work.done.wait()
    except BaseException:
        _end(work, interrupt)
        raise
    if work.error is not None:
        raise work.error
    return work.result


def sleep(ms: int) -> None:
    """Python's own sleep, which Ctrl-C ends."""
    time.sleep(ms / 1000)
