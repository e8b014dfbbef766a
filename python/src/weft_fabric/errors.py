"""Exceptions, by who is hurt: the call, a peer, a version or the session."""

from __future__ import annotations

from typing import Any


class Error(Exception):
    """Base of all errors of weft. `status` is the number of weft.h, `name` its name ("peer_lost")."""

    status: int
    name: str

    def __init__(self, text: str, status: int = -10, name: str = "argument") -> None:
        super().__init__(text)
        self.status = status
        self.name = name


class CallError(Error):
    """The call is wrong or came at the wrong time: mend the call. The session is well."""


class PeerError(Error):
    """A peer, or the trainer, is lost or refuses: give the peer up, or wait for the peer to return."""


class VersionError(Error):
    """A version is bad: give the version up. The weights have the bits that they had."""


class SessionError(Error):
    """The session is bad: close the session."""


class TimeoutExpired(CallError, TimeoutError):
    """The time passed, or the wait was interrupted. The session is well."""


class ClosedError(CallError):
    """The session or file was closed, or belongs to the process that this process was forked from."""


class TensorError(CallError, ValueError):
    """A tensor cannot be bound. `tensor` is its name."""

    tensor: str

    def __init__(self, tensor: str, text: str) -> None:
        super().__init__(f"tensor '{tensor}': {text}", -12, "layout")
        self.tensor = tensor

    def __reduce__(self) -> Any:
        return _rebuild_tensor_error, (self.tensor, str(self))


def _rebuild_tensor_error(tensor: str, text: str) -> TensorError:
    error = TensorError(tensor, "")
    error.args = (text,)
    return error


class LibraryError(Error, ImportError):  # type: ignore[misc]
    """libweft is missing, or is of another version than this package."""

    def __init__(self, text: str) -> None:
        super().__init__(text, -16, "missing")
