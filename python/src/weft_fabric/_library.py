"""libweft: found, checked and opened once a process."""

from __future__ import annotations

import os
import re
import threading
from pathlib import Path
from typing import Any

import cffi

from . import _declarations, errors

ffi: Any = cffi.FFI()
ffi.cdef(_declarations.DECLARATIONS)


class _Fork:
    """Has a forked child find cffi's lock free: a thread that asks for a name of C for the first time holds the lock,
    and in the child nobody would ever release it."""

    def __init__(self, lock: Any) -> None:
        self._lock = lock
        self._mine = threading.local()
        os.register_at_fork(before=self._take, after_in_parent=self._give, after_in_child=self._give)

    def _take(self) -> None:
        # A handler of a signal that forks may have cut into this thread's own asking.
        self._mine.held = self._lock.acquire(timeout=1)

    def _give(self) -> None:
        if self._mine.held:
            self._lock.release()


_fork = _Fork(ffi._lock) if hasattr(ffi, "_lock") else None


def _loader_name() -> str:
    """The name for the system's loader. Before 1.0 it has the minor version, because that changes the interface."""
    major, minor = _declarations.VERSION.split(".")[:2]
    return f"libweft.so.{major}.{minor}" if major == "0" else f"libweft.so.{major}"


def _paths() -> list[str]:
    """Places of the library: the one that WEFT_LIBRARY names, else the package's own, else the loader's."""
    named = os.environ.get("WEFT_LIBRARY")
    if named:
        return [named]
    own = Path(__file__).with_name("libweft.so")
    return [str(own)] if own.exists() else [_loader_name()]


def _open(path: str) -> Any:
    try:
        return ffi.dlopen(path)
    except OSError as error:
        raise errors.LibraryError(
            f"libweft cannot be opened: {error}; install weft's wheel, or set WEFT_LIBRARY to the path of libweft.so"
        ) from None


def _functions() -> list[str]:
    lines = re.sub(r"\{[^}]*\}", "", _declarations.DECLARATIONS)
    return re.findall(r"^(?!typedef)\w.*?\b(weft_\w+)\(", lines, re.M)


def _check(library: Any, path: str) -> None:
    """Refuses a library that is not of this package's version, or lacks a function of that version's header."""
    wanted = _declarations.VERSION
    try:
        found = ffi.string(library.weft_version_string()).decode()
    except AttributeError:
        raise errors.LibraryError(f"{path} is no libweft: it lacks weft_version_string") from None
    if found.split(".")[:2] != wanted.split(".")[:2]:
        raise errors.LibraryError(
            f"{path} is weft {found}, and this package is for weft {wanted}: install both of one version"
        )
    for name in _functions():
        if not hasattr(library, name):
            raise errors.LibraryError(
                f"{path} (weft {found}) lacks {name}: it is older than this package, install a newer one"
            )


def _load() -> tuple[Any, str]:
    (path,) = _paths()
    library = _open(path)
    _check(library, path)
    return library, path


lib, library_path = _load()
NULL = ffi.NULL

_SCOPES = {
    lib.WEFT_SCOPE_CALL: errors.CallError,
    lib.WEFT_SCOPE_PEER: errors.PeerError,
    lib.WEFT_SCOPE_VERSION: errors.VersionError,
    lib.WEFT_SCOPE_SESSION: errors.SessionError,
}


def text_of(pointer: Any) -> str:
    """A C string as str; NULL is ""."""
    return ffi.string(pointer).decode("utf-8", "replace") if pointer != NULL else ""


_CALLS = {"bind_blocks": "bind", "trainer_open": "Trainer", "rollout_open": "Rollout", "layout_fetch": "Layout.fetch",
          "layout_create": "Layout", "site_load": "Site", "site_get": "Site.get", "store_open": "Store"}  # fmt: skip


def in_python(text: str) -> str:
    """A text of libweft by the names that Python has: weft_commit is commit(), weft_options.wants is wants=."""
    text = re.sub(r"(?<![\w/'.-])weft_options\.wants\b", "wants=True", text)
    return re.sub(r"(?<![\w/'.-])weft_([a-z_]+)\b(\(\))?", _call_in_python, text)


def _call_in_python(found: re.Match[str]) -> str:
    """Names of files, tensors and keys may begin so, too, and stay."""
    known = f"weft_{found[1]}" in _functions()
    return _CALLS.get(found[1], found[1]) + "()" if known else found[0]


def failure(status: int, text: str | None = None) -> errors.Error:
    """The exception for a status, with the text of this thread's last error."""
    kind = errors.TimeoutExpired if status == lib.WEFT_E_TIMEOUT else _SCOPES[lib.weft_status_scope(status)]
    name = text_of(lib.weft_status_name(status))
    return kind(text or in_python(text_of(lib.weft_last_error())) or name, status, name)


def check(status: int) -> int:
    """Raises what a negative status says. Call on the thread that made the call."""
    if status < 0:
        raise failure(status)
    return status


def sized(struct: str) -> Any:
    """A new struct that begins with `size`, with its size set."""
    new = ffi.new(f"{struct} *")
    new.size = ffi.sizeof(struct)
    return new
