"""Binding: tensors fitted to a layout, as the table of pieces that weft.h takes."""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Iterator, List, Tuple, Union

import numpy as np

from . import _dtypes, _tensors
from ._layout import Layout, Named, TensorSpec, mapping_of
from ._library import ffi
from .errors import TensorError

# Tensors that could be given other memory: name, what asks for the address anew, and the address as it was read.
Watched = List[Tuple[str, Callable[[], int], int]]

# A row is a weft_piece.
PIECE = np.dtype([("tensor", "u8"), ("first", "u8"), ("count", "u8"), ("data", "u8")], align=True)


class Pieces:
    """A table of pieces, for who knows the addresses: numbers of tensors in the layout, first elements, counts and
    addresses, as arrays of one length or as single numbers. `keep` is held as long as the pieces are bound.
    """

    def __init__(self, tensor: Any, first: Any, count: Any, data: Any, keep: Any = None, device: str = "cpu") -> None:
        columns = np.broadcast_arrays(tensor, first, count, data)
        self.table = np.empty(columns[0].size, PIECE)
        for name, column in zip(PIECE.names or (), columns):
            self.table[name] = column.reshape(-1)
        self.keep = keep
        self.device = device

    def __len__(self) -> int:
        return len(self.table)


# Rows are a weft_slice, a weft_stride and a weft_block.
SLICE = np.dtype([(name, "u8") for name in ("tensor", "row", "rows", "column", "columns")], align=True)
STRIDE = np.dtype([("extent", "u8"), ("stride", "u8")], align=True)
BLOCK = np.dtype(
    [("slice", SLICE), ("data", "u8"), ("row", STRIDE, 3), ("column", STRIDE, 3), ("memory", "i4"), ("flags", "u4")],
    align=True,
)


def _memory(dtypes: Any) -> Any:
    """Numbers of dtypes in memory; 0: the layout's."""
    if isinstance(dtypes, (list, tuple)):
        return [_memory(dtype) for dtype in dtypes]
    return 0 if dtypes is None else _dtypes.NUMBERS[_dtypes.required(dtypes)]


class Blocks:
    """A table of blocks: boxes of tensors seen as matrices (the last dimension is the columns), and where they lie, as
    arrays of one length or as single numbers. Strides are rows of up to three pairs (extent, bytes), the outermost
    first; without them the rows of a box follow each other. `memory` is "F32" where a layout of BF16 or F16 lies as
    float32, which a trainer rounds while it reads; one for all boxes, or one for each. `keep` is held as long as the
    blocks are bound.
    """

    def __init__(
        self,
        tensor: Any,
        row: Any,
        rows: Any,
        column: Any,
        columns: Any,
        data: Any,
        *,
        row_strides: Any = None,
        column_strides: Any = None,
        memory: Any = None,
        keep: Any = None,
        device: str = "cpu",
    ) -> None:
        given = np.broadcast_arrays(tensor, row, rows, column, columns, data)
        self.table = np.zeros(given[0].size, BLOCK)
        for name, values in zip(SLICE.names or (), given):
            self.table["slice"][name] = values.reshape(-1)
        self.table["data"] = given[5].reshape(-1)
        self.table["memory"] = _memory(memory)
        for name, strides in (("row", row_strides), ("column", column_strides)):
            if strides is not None:
                pairs = np.asarray(strides, np.uint64)
                if pairs.ndim < 2 or pairs.shape[-1] != 2 or pairs.shape[-2] > 3:
                    raise ValueError(f"{name}_strides of shape {pairs.shape}: give rows of up to three (extent, bytes)")
                pairs = np.broadcast_to(pairs, (len(self.table), *pairs.shape[-2:]))
                self.table[name]["extent"][:, : pairs.shape[1]] = pairs[..., 0]
                self.table[name]["stride"][:, : pairs.shape[1]] = pairs[..., 1]
        self.keep = keep
        self.device = device
        self._watched: Watched = []  # for weft's own: tensors that these boxes were read from

    def __len__(self) -> int:
        return len(self.table)

    @property
    def slices(self) -> np.ndarray:
        """The boxes alone."""
        return np.ascontiguousarray(self.table["slice"])


# What bind() takes.
Bindable = Union[Named, Pieces, Blocks]


class Binding:
    """Bound memory: the table, what keeps it alive, and the tensors that could be given other memory."""

    def __init__(self, pieces: Pieces | Blocks, watched: Watched) -> None:
        self.pieces = pieces
        self.by_blocks = isinstance(pieces, Blocks)
        self.c = ffi.from_buffer("weft_block[]" if self.by_blocks else "weft_piece[]", pieces.table)
        self.count = len(pieces)
        self.device = pieces.device
        self._names = [name for name, _, _ in watched]
        self._pointers = [pointer for _, pointer, _ in watched]
        self._addresses = [address for _, _, address in watched]

    def is_still_there(self) -> bool:
        """Whether each tensor has the memory in which it was bound."""
        return [pointer() for pointer in self._pointers] == self._addresses

    def check_still_there(self) -> None:
        """Raises TensorError for the first tensor that was given other memory since it was bound."""
        if self.is_still_there():
            return
        for name, pointer, was in zip(self._names, self._pointers, self._addresses):
            now = pointer()
            if now != was:
                moved = f"moved since bind: from {was:#x} to {now:#x}" if now else "its memory is gone since bind"
                raise TensorError(name, f"{moved}; bind the tensors again")


class _Part:
    """One piece to be: where of which tensor it lies. `cast`: its memory is F32 and is rounded while it is read."""

    __slots__ = ("cast", "count", "first", "name", "number", "spec", "view")

    def __init__(self, spec: TensorSpec, number: int, first: int, view: _tensors.View) -> None:
        self.name = spec.name
        self.spec = spec
        self.number = number
        self.first = first
        self.count = prod(view.shape)
        self.view = view
        self.cast = view.dtype != spec.dtype

    def boxes(self) -> Iterator[tuple[Any, ...]]:
        """The end of a row, whole rows and the begin of a row, as arguments of Blocks."""
        width = self.spec.shape[-1] if self.spec.shape else 1
        memory, end = ("F32" if self.cast else None), self.first + self.count
        at = self.first
        while at < end:
            row, column = divmod(at, width)
            rows = (end - at) // width if column == 0 and end - at >= width else 1
            columns = width if column == 0 and end - at >= width else min(width - column, end - at)
            data = self.view.address + _dtypes.bytes_of(self.view.dtype, at - self.first)
            yield self.number, row, rows, column, columns, data, memory
            at += rows * columns


def check_dtype(spec: TensorSpec, dtype: str, cast: Any, written: bool) -> None:
    """A tensor's elements are the layout's, or are cast to them."""
    masters = dtype == "F32" and spec.dtype in _dtypes.CASTS
    if dtype == spec.dtype or (masters and _dtypes.of_cast(cast) == spec.dtype):
        return
    hint = f'; a trainer reads F32 so with cast="{_dtypes.CASTS[spec.dtype]}"' if masters and not written else ""
    raise TensorError(spec.name, f"its elements are {dtype}, the layout has {spec.dtype}{hint}")


def _fits(spec: TensorSpec, view: _tensors.View, whole: bool) -> None:
    if whole and tuple(view.shape) != spec.shape:
        raise TensorError(spec.name, f"its shape is {tuple(view.shape)}, the layout has {spec.shape}")


def _parts_of(spec: TensorSpec, number: int, tensor: Any, written: bool, cast: Any) -> list[_Part]:
    """A tensor, or a list of tensors that hold its elements one after the other."""
    several = isinstance(tensor, (list, tuple))
    parts: list[_Part] = []
    first = 0
    for one in tensor if several else [tensor]:
        view = _tensors.read(spec.name, one)
        check_dtype(spec, view.dtype, cast, written)
        _fits(spec, view, not several)
        parts.append(_Part(spec, number, first, view))
        first += parts[-1].count
    if first != prod(spec.shape):
        raise TensorError(spec.name, f"its parts hold {first} elements, the layout has {prod(spec.shape)}")
    return parts


def _ordered(layout: Layout, named: Named, written: bool, cast: Any) -> list[_Part]:
    given = mapping_of(named)
    for name in given:
        if name not in layout.index:
            raise TensorError(name, "the layout does not have it")
    parts: list[_Part] = []
    for number, spec in enumerate(layout.tensors):
        if spec.name not in given:
            raise TensorError(spec.name, "the layout has it, and it was not given")
        parts += _parts_of(spec, number, given[spec.name], written, cast)
    return [part for part in parts if part.count]


def _one_device(parts: list[_Part]) -> str:
    for part in parts:
        if part.view.device != parts[0].view.device:
            raise TensorError(
                part.name,
                f"on {part.view.device}, and tensor '{parts[0].name}' on {parts[0].view.device}: bind one device's",
            )
    return parts[0].view.device if parts else "cpu"


def _check_written(parts: list[_Part], begin: np.ndarray, size: np.ndarray) -> None:
    """What weft writes must be writable, and no element may be two tensors'."""
    for part in parts:
        if part.view.readonly:
            raise TensorError(part.name, "read-only: a rollout writes its weights")
    order = np.argsort(begin, kind="stable")
    ends = np.maximum.accumulate((begin + size)[order])
    shared = np.flatnonzero(begin[order][1:] < ends[:-1])
    if len(shared):
        one, other = parts[order[shared[0]]].name, parts[order[shared[0] + 1]].name
        raise TensorError(
            other, f"shares memory with tensor '{one}': of tied tensors leave all but one out of the layout"
        )


def held(named: Any) -> Any:
    """Tensors that can be gone through twice: pairs may come from a generator."""
    return named if named is None or isinstance(named, (Pieces, Blocks)) else mapping_of(named)


def _kept(parts: list[_Part], written: bool) -> list[Any]:
    """What holds the memory. Of a tensor that tells its address a trainer holds no memory, so that the tensor can give
    it away: weft reads it in calls alone that ask for the address first. A rollout's is read beside them."""
    return [part.view.keep for part in parts if written or part.view.pointer is None]


def _by_blocks(parts: list[_Part], device: str) -> Blocks:
    *columns, memory = zip(*(box for part in parts for box in part.boxes())) if parts else [()] * 7
    blocks = Blocks(*columns, memory=memory, keep=_kept(parts, False), device=device)
    blocks._watched = _watched(parts)
    return blocks


def _watched(parts: list[_Part]) -> Watched:
    return [(part.name, part.view.pointer, part.view.address) for part in parts if part.view.pointer]


def bind(layout: Layout, named: Bindable, written: bool, cast: Any = None) -> Binding:
    """Fits tensors to a layout. Raises TensorError, which names the tensor."""
    if isinstance(named, (Pieces, Blocks)):
        binding = Binding(named, named._watched if isinstance(named, Blocks) else [])
        binding.check_still_there()
        return binding
    parts = _ordered(layout, named, written, cast)
    device = _one_device(parts)
    begin = np.array([part.view.address for part in parts], np.uint64)
    size = np.array([part.view.bytes for part in parts], np.uint64)
    if written:
        _check_written(parts, begin, size)
    if any(part.cast for part in parts):
        return Binding(_by_blocks(parts, device), _watched(parts))
    pieces = Pieces(
        np.array([part.number for part in parts], np.uint64),
        np.array([part.first for part in parts], np.uint64),
        np.array([part.count for part in parts], np.uint64),
        begin,
        _kept(parts, written),
        device,
    )
    return Binding(pieces, _watched(parts))
