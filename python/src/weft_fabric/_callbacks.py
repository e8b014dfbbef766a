"""Callbacks from C: what they raise is carried to the caller, because C knows no exceptions."""

from __future__ import annotations

from typing import Any, BinaryIO, Callable

from ._library import NULL, check, ffi, lib, sized, text_of

_LEVELS = {0: "error", 1: "warn", 2: "info", 3: "debug"}


class Carrier:
    """The first exception of callbacks during one call. `stop` has the next progress callback end the work."""

    def __init__(self) -> None:
        self._error: BaseException | None = None
        self._stopped = False

    def stop(self) -> None:
        self._stopped = True

    def run(self, call: Callable[..., Any], *arguments: Any) -> int:
        """The status for C of a callback."""
        if self._error is not None:
            return int(lib.WEFT_E_STATE)
        try:
            call(*arguments)
        except BaseException as error:  # raised again in finish()
            self._error = error
            return int(lib.WEFT_E_STATE)
        return int(lib.WEFT_E_TIMEOUT if self._stopped else lib.WEFT_OK)

    def finish(self, status: int) -> None:
        """Raises what a callback raised, else what the call said."""
        error, self._error = self._error, None
        if error is not None:
            raise error
        check(status)


def log_callback(carrier: Carrier, log: Callable[[str, str], Any]) -> Any:
    """A weft_log_fn that calls `log(level, line)`."""

    @ffi.callback("void(void *, weft_log_level, const char *)")
    def on_line(user: Any, level: int, line: Any) -> None:
        carrier.run(log, _LEVELS[level], text_of(line))

    return on_line


def free_callback(carrier: Carrier, weights_free: Callable[[], Any]) -> Any:
    """What weft_publish calls when the weights are free: `weights_free()`."""

    @ffi.callback("void(void *)")
    def on_free(user: Any) -> None:
        carrier.run(weights_free)

    return on_free


def fault_callback(carrier: Carrier, report: Callable[[Any], Any]) -> Any:
    """What weft_store_check reports by: `report(fault)`."""

    @ffi.callback("weft_status(void *, const weft_store_fault *)")
    def on_fault(user: Any, fault: Any) -> int:
        return carrier.run(report, fault)

    return on_fault


def sink_of(carrier: Carrier, file: BinaryIO) -> tuple[Any, Any]:
    """A weft_sink into a file, and what must live as long as it is used."""

    def write(data: Any, count: int) -> None:
        left = memoryview(ffi.buffer(data, count))
        while left:
            written = file.write(left)
            left = left[len(left) if written is None else written :]

    @ffi.callback("weft_status(void *, const void *, uint64_t)")
    def on_write(user: Any, data: Any, count: int) -> int:
        return carrier.run(write, data, count)

    return ffi.new("weft_sink *", {"user": NULL, "write": on_write}), on_write


def work_of(
    carrier: Carrier, threads: int, progress: Callable[[int, int], Any] | None, memory: int = 0
) -> tuple[Any, Any]:
    """A weft_work, and what must live as long as it is used."""

    @ffi.callback("weft_status(void *, uint64_t, uint64_t)")
    def on_progress(user: Any, done: int, total: int) -> int:
        return carrier.run(progress or (lambda *now: None), done, total)

    work = sized("weft_work")
    work.threads, work.memory_bytes, work.progress = threads, memory, on_progress
    return work, on_progress
