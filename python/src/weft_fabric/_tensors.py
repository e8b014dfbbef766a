"""Reading tensors: where their elements lie, without a copy. Each maker's tensors have a reader of their own."""

from __future__ import annotations

import mmap
import sys
import weakref
from math import prod
from typing import Any, Callable

import numpy as np

from . import _dlpack, _dtypes
from ._library import ffi
from .errors import TensorError


class Typed:
    """An array with the dtype that its elements are, for arrays that cannot say so themselves.

    numpy has no bfloat16 and no float8: their bits lie in arrays of unsigned integers, for instance
    `Typed(numpy.zeros((4, 8), numpy.uint16), "BF16")`. Packed types (F4, F6) need the shape in elements.
    """

    __slots__ = ("array", "dtype", "shape")

    def __init__(self, array: Any, dtype: Any, shape: tuple[int, ...] | None = None) -> None:
        self.array = array
        self.dtype = _dtypes.required(dtype)
        self.shape = None if shape is None else tuple(shape)

    def __repr__(self) -> str:
        return f"Typed({self.array!r}, {self.dtype!r})"


class View:
    """Memory of one tensor or a part of one. `pointer` holds the tensor and asks it for its address anew; None: it
    cannot move. `keep` holds the memory."""

    __slots__ = ("address", "bytes", "device", "dtype", "keep", "pointer", "readonly", "shape")

    def __init__(self, dtype: str, shape: tuple[int, ...], address: int, keep: Any, device: str = "cpu",
                 readonly: bool = False, pointer: Callable[[], int] | None = None) -> None:  # fmt: skip
        self.dtype = dtype
        self.shape = shape
        self.address = address
        self.bytes = _dtypes.bytes_of(dtype, prod(shape))
        self.device = device
        self.readonly = readonly
        self.keep = keep
        self.pointer = pointer


def _dtype(name: str, dtype: Any) -> str:
    found = _dtypes.name_of(dtype)
    if found is None:
        raise TensorError(name, f"weft has no dtype for {dtype}; bind its bits as unsigned integers by weft.Typed")
    if isinstance(dtype, np.dtype) and not dtype.isnative:
        raise TensorError(name, f"its bytes are in another order than this host's ({dtype.str})")
    return found


def _not_contiguous(name: str, shape: Any, strides: Any) -> TensorError:
    return TensorError(
        name,
        f"not contiguous: shape {tuple(shape)}, strides {tuple(strides)}; bind memory with its elements in a row",
    )


# ---- torch


FLAT = (
    "of FullyShardedDataParallel (FSDP1), which has it as a part of a flat tensor: use fully_shard (FSDP2), or copy "
    "full tensors (summon_full_params) into memory of your own and publish that on rank 0 by weft.Trainer"
)
_ZERO3 = (
    "of DeepSpeed ZeRO-3, which has parts of flat tensors in its place: use stage 1 or 2, or copy full tensors "
    "(deepspeed.zero.GatheredParameters) into memory of your own and publish that on rank 0 by weft.Trainer"
)


def _torch_refusal(x: Any) -> str | None:
    if hasattr(x, "ds_shape"):
        return _ZERO3
    if getattr(x, "_fsdp_flattened", False):
        return FLAT
    if hasattr(x, "placements"):
        return "a DTensor, a part of a tensor: bind what weft.torch.holding() or view() gives, or full tensors"
    if x.device.type == "meta":
        return "on the device meta: it has no memory yet"
    if str(x.layout) != "torch.strided":
        return f"of layout {x.layout}: only dense tensors have elements in a row"
    if x.is_conj() or x.is_neg():
        return "a view that conjugates or negates: its memory holds other bits than it shows"
    return given_away(x)


def given_away(x: Any) -> str | None:
    """Why a tensor of torch has no memory to read."""
    storage = x.untyped_storage if hasattr(x, "untyped_storage") else x.storage  # torch before 2.0
    if x.numel() and int(storage().nbytes()) == 0:
        return "its memory was given away (its storage has 0 bytes): bring it back before weft is to read it"
    return None


def _of_torch(name: str, x: Any) -> View:
    refusal = _torch_refusal(x)
    if refusal:
        raise TensorError(name, refusal)
    if not x.is_contiguous():
        raise _not_contiguous(name, x.shape, x.stride())
    device = x.device.type if x.device.index is None else f"{x.device.type}:{x.device.index}"
    # The alias keeps the memory alive where the owner gives the tensor other memory.
    return View(_dtype(name, x.dtype), tuple(x.shape), x.data_ptr(), x.detach(), device, pointer=x.data_ptr)


# ---- numpy, CUDA arrays, DLPack, buffers


_CUT = "its file is shorter than the array that is mapped from it: a read past the file's end would end the process"


def _file_end(x: Any) -> tuple[mmap.mmap, int] | None:
    """The file that an array or buffer is mapped from, and the offset in it at which the elements end, at least."""
    end = 0
    while x is not None and not isinstance(x, mmap.mmap):
        if isinstance(x, np.memmap):  # the array, or what it is a view of
            end = x.offset + x.nbytes
        x = x.obj if isinstance(x, memoryview) else getattr(x, "base", None)
    return None if x is None or _size(x) is None else (x, end or len(x))


def _size(mapped: mmap.mmap) -> int | None:
    """The size of a file that is mapped; None: it is memory without a file."""
    try:
        return mapped.size()
    except OSError:
        return None


def _is_cut(mapped: mmap.mmap, end: int) -> bool:
    return (_size(mapped) or 0) < end


def _check_file(name: str, x: Any) -> tuple[mmap.mmap, int] | None:
    mapped = _file_end(x)
    if mapped and _is_cut(*mapped):
        raise TensorError(name, _CUT)
    return mapped


def _owner(x: Any) -> Any:
    """What has an array's memory: the array, the one that it is a view of, or another maker's object."""
    while isinstance(x, memoryview) or (isinstance(x, np.ndarray) and x.base is not None):
        x = x.obj if isinstance(x, memoryview) else x.base
    return x


def _address(x: Any) -> int:
    """Where an owner's memory lies; 0: nobody tells."""
    if isinstance(x, np.ndarray):
        return int(x.__array_interface__["data"][0])
    return int(x.data_ptr()) if hasattr(x, "data_ptr") else 0


class _Array:
    """Asks an array of numpy for its address; 0: its memory is gone, by resize(refcheck=False) of the array or of what it
    is a view of, or by the end of its file."""

    __slots__ = ("_bytes", "_file", "_owner", "_owned", "_x")

    def __init__(self, name: str, x: np.ndarray) -> None:
        self._x = x
        self._bytes = x.nbytes
        self._file = _check_file(name, x)
        owner = _owner(x)
        self._owner = None if owner is x else owner
        self._owned = self._place()

    def _place(self) -> tuple[int, int]:
        return _address(self._owner), getattr(self._owner, "nbytes", 0)

    def __call__(self) -> int:
        gone = self._x.nbytes != self._bytes or (self._owner is not None and self._place() != self._owned)
        return 0 if gone or (self._file and _is_cut(*self._file)) else _address(self._x)


def _of_numpy(name: str, x: np.ndarray) -> View:
    if not x.flags.c_contiguous:
        raise _not_contiguous(name, x.shape, x.strides)
    address, readonly = x.__array_interface__["data"]
    owner = _owner(x)
    # numpy resizes no array that has a weak reference. Of what a rollout writes the memory stays so.
    keep = x, weakref.ref(owner if isinstance(owner, np.ndarray) else x)
    return View(_dtype(name, x.dtype), x.shape, address, keep, readonly=readonly, pointer=_Array(name, x))


def _rows(shape: Any, item: int) -> tuple[int, ...]:
    """Strides of a contiguous array, in the unit of `item`."""
    strides = [item]
    for size in reversed(tuple(shape)[1:]):
        strides.insert(0, strides[0] * size)
    return tuple(strides[: len(tuple(shape))])


def _is_row(shape: Any, strides: Any, item: int) -> bool:
    if strides is None or 0 in tuple(shape):
        return True
    wanted = _rows(shape, item)
    return all(size == 1 or stride == want for size, stride, want in zip(shape, strides, wanted))


def _of_cuda_array(name: str, x: Any) -> View:
    facts = x.__cuda_array_interface__
    dtype = np.dtype(facts["typestr"])
    if not _is_row(facts["shape"], facts.get("strides"), dtype.itemsize):
        raise _not_contiguous(name, facts["shape"], facts["strides"])
    address, readonly = facts["data"]
    return View(_dtype(name, dtype), tuple(facts["shape"]), address, x, "cuda", readonly)


def _of_dlpack(name: str, x: Any) -> View:
    try:
        tensor = _dlpack.read(x)
    except (BufferError, RuntimeError, TypeError, ValueError) as error:
        raise TensorError(name, f"its maker gives no DLPack tensor: {error}") from None
    dtype = _dtypes.of_dlpack(*tensor.dtype)
    if dtype is None:
        raise TensorError(name, "weft has no dtype for DLPack's (code {}, bits {}, lanes {})".format(*tensor.dtype))
    if tensor.device is None:
        raise TensorError(name, f"on a device that weft does not know (DLPack's type {tensor.device_type})")
    if not _is_row(tensor.shape, tensor.strides, 1):
        raise _not_contiguous(name, tensor.shape, tensor.strides)
    return View(dtype, tensor.shape, tensor.address, tensor.keep, tensor.device)


def _of_buffer(name: str, x: Any) -> View:
    view = memoryview(x)
    if not view.c_contiguous:
        raise _not_contiguous(name, view.shape, view.strides)
    try:
        array = np.asarray(view)
    except ValueError:
        raise TensorError(
            name, f"its buffer has elements of format '{view.format}', for which weft has no dtype"
        ) from None
    held = ffi.from_buffer(view)  # keeps the exporter from moving its memory, but for an array of numpy
    keep = held, weakref.ref(owner) if isinstance(owner := _owner(view), np.ndarray) else None
    address, pointer = int(ffi.cast("uintptr_t", held)), _Array(name, array)
    return View(_dtype(name, array.dtype), view.shape or (), address, keep, readonly=view.readonly, pointer=pointer)


# ---- any


def _plain(name: str, x: Any) -> View:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(name, x)
    if isinstance(x, np.ndarray):
        return _of_numpy(name, x)
    if hasattr(x, "__cuda_array_interface__"):
        return _of_cuda_array(name, x)
    if hasattr(x, "__dlpack__"):
        return _of_dlpack(name, x)
    try:
        return _of_buffer(name, x)
    except TypeError:
        raise TensorError(
            name,
            f"a {type(x).__name__} is no tensor of torch or numpy, and offers neither DLPack nor the buffer protocol",
        ) from None


def _retyped(name: str, x: Typed) -> View:
    view = _plain(name, x.array)
    shape = view.shape if x.shape is None else x.shape
    wanted = _dtypes.bytes_of(x.dtype, prod(shape))
    if wanted != view.bytes or (x.shape is None and _dtypes.BITS[x.dtype] != _dtypes.BITS[view.dtype]):
        raise TensorError(
            name, f"{x.dtype} of shape {shape} takes {wanted} bytes, and the array of {view.dtype} has {view.bytes}"
        )
    view.dtype, view.shape = x.dtype, shape
    return view


def read(name: str, x: Any) -> View:
    """Where the elements of a tensor lie. Raises TensorError with its name."""
    return _retyped(name, x) if isinstance(x, Typed) else _plain(name, x)
