"""DLPack: reads the tensor in a capsule, and leaves the capsule as it is, so that its maker frees it."""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple


class _Device(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int32), ("id", ctypes.c_int32)]


class _DataType(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16)]


class _Tensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", _Device),
        ("rank", ctypes.c_int32),
        ("dtype", _DataType),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("offset", ctypes.c_uint64),
    ]


class Tensor(NamedTuple):
    """A tensor as its maker describes it. `strides` are in elements, None for rows; `keep` holds the memory."""

    dtype: tuple[int, int, int]
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None
    address: int
    device_type: int
    device: str | None
    keep: Any


_HOST = (1, 3, 11)  # CPU, and memory that CUDA or ROCm pinned
_DEVICES = {2: "cuda", 10: "cuda", 13: "cuda"}  # torch calls ROCm's devices cuda too


def _device(kind: int, number: int) -> str | None:
    if kind in _HOST:
        return "cpu"
    return f"{_DEVICES[kind]}:{number}" if kind in _DEVICES else None


def _capsule(x: Any) -> Any:
    """The capsule; a device is not waited for, because weft orders its work by the stream of each call."""
    kind = x.__dlpack_device__()[0]
    return x.__dlpack__() if int(kind) in _HOST else x.__dlpack__(stream=-1)


def read(x: Any) -> Tensor:
    capsule = _capsule(x)
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    t = _Tensor.from_address(pointer(capsule, b"dltensor"))
    strides = tuple(t.strides[: t.rank]) if t.strides else None
    return Tensor(
        (t.dtype.code, t.dtype.bits, t.dtype.lanes),
        tuple(t.shape[: t.rank]),
        strides,
        (t.data or 0) + t.offset,
        t.device.type,
        _device(t.device.type, t.device.id),
        capsule,
    )
