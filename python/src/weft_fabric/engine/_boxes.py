"""From copies to boxes: where the elements of a checkpoint tensor lie in an engine's memory. No torch."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Iterator, NamedTuple

from ..errors import TensorError

MAX_BOXES = 1 << 22  # of one copy: a table of more than half a gigabyte helps nobody


class Copy(NamedTuple):
    """One copy that a loader made: elements of a checkpoint tensor, and the memory that they landed in."""

    tensor: str  # name in the checkpoint
    first: int  # first element, of the row-major tensor
    sizes: tuple[int, ...]  # extents of the copy's dimensions
    source: tuple[int, ...]  # strides in the tensor, in elements
    data: int  # address of the first element
    target: tuple[int, ...]  # strides in memory, in elements
    item: int  # bytes of an element
    parameter: str  # name of the engine's parameter


class Box(NamedTuple):
    """A row of weft.Blocks but for the tensor's number. Strides are pairs (extent, bytes), the outermost first."""

    row: int
    rows: int
    column: int
    columns: int
    data: int
    row_strides: tuple[tuple[int, int], ...]
    column_strides: tuple[tuple[int, int], ...]


class _Dim(NamedTuple):
    extent: int
    source: int
    target: int


def _columns_of(shape: tuple[int, ...]) -> int:
    """Columns of a tensor seen as a matrix; one of rank 0 or 1 is one row."""
    return shape[-1] if len(shape) > 1 else prod(shape)


def _unboxed(copy: Copy, shape: tuple[int, ...]) -> TensorError:
    return TensorError(
        copy.tensor,
        f"its elements in {copy.parameter} are no boxes: first {copy.first}, sizes {copy.sizes}, strides {copy.source} "
        f"of shape {shape}",
    )


def _within_rows(dims: list[_Dim], columns: int) -> list[_Dim]:
    """Dimensions that go through whole rows, as a flat view does, each parted into rows and columns."""
    parted = []
    for extent, source, target in dims:
        if source < columns < extent * source and columns % source == 0 and extent * source % columns == 0:
            inner = columns // source
            parted.append(_Dim(extent // inner, columns, target * inner))
            parted.append(_Dim(inner, source, target))
        else:
            parted.append(_Dim(extent, source, target))
    return parted


def _dense(dims: list[_Dim], unit: int) -> tuple[list[_Dim], list[_Dim]]:
    """Of dimensions, the innermost first, those that together go through a range without a gap, and the others."""
    inside, outside, reach = [], [], unit
    for dim in sorted(dims, key=lambda dim: dim.source):
        if dim.source == reach:
            inside.append(dim)
            reach *= dim.extent
        else:
            outside.append(dim)
    return inside, outside


def _merged(dims: list[_Dim]) -> list[_Dim]:
    """Neighbours that memory has in one go as well, as one; the innermost first."""
    merged: list[_Dim] = []
    for dim in dims:
        last = merged[-1] if merged else None
        if last and dim.target == last.target * last.extent:
            merged[-1] = _Dim(last.extent * dim.extent, last.source, last.target)
        else:
            merged.append(dim)
    return merged


def _strides(dims: list[_Dim], item: int, plain: int) -> tuple[tuple[int, int], ...]:
    """Pairs for weft_block, none where one stride is `plain`, which is what absent strides say."""
    if not dims or (len(dims) == 1 and dims[0].target * item == plain):
        return ()
    return tuple((dim.extent, dim.target * item) for dim in reversed(dims))


def _flat(copy: Copy, shape: tuple[int, ...]) -> bool:
    """Whether the copy is a range of elements, which may begin and end within a row."""
    columns = _columns_of(shape)
    count = prod(copy.sizes)
    contiguous, reach = True, 1
    for extent, source in zip(reversed(copy.sizes), reversed(copy.source)):
        if extent != 1:
            contiguous = contiguous and source == reach
            reach *= extent
    return contiguous and count > columns and bool(copy.first % columns or count % columns)


def _ranges(copy: Copy, shape: tuple[int, ...]) -> Iterator[Copy]:
    """A range of elements as what it has of its first row, its whole rows, and what it has of its last."""
    target = _merged([_Dim(n, 0, d) for n, d in zip(reversed(copy.sizes), reversed(copy.target)) if n > 1])
    if len(target) != 1:
        raise _unboxed(copy, shape)
    columns, count, stride = _columns_of(shape), prod(copy.sizes), target[0].target
    at, end = copy.first, copy.first + count
    while at < end:
        whole = (end - at) // columns * columns
        length = whole if at % columns == 0 and whole else min(columns - at % columns, end - at)
        data = copy.data + (at - copy.first) * stride * copy.item
        yield copy._replace(first=at, sizes=(length,), source=(1,), data=data, target=(stride,))
        at += length


def boxes(copy: Copy, shape: tuple[int, ...]) -> Iterator[Box]:
    """The boxes of a copy.

    Raises TensorError where the elements are no boxes, or too many.
    """
    if 0 in copy.sizes:
        return
    if _flat(copy, shape):
        for part in _ranges(copy, shape):
            yield from boxes(part, shape)
        return
    columns = _columns_of(shape)
    dims = [_Dim(*dim) for dim in zip(copy.sizes, copy.source, copy.target) if dim[0] > 1]
    dims = _within_rows(dims, columns)
    across = [dim for dim in dims if dim.source < columns]
    down = [dim for dim in dims if dim.source >= columns]
    reach = copy.first % columns + sum(dim.source * (dim.extent - 1) for dim in across)
    if (
        reach >= columns
        or any(dim.source % columns or dim.source == 0 for dim in down)
        or 0 in (d.source for d in dims)
    ):
        raise _unboxed(copy, shape)
    yield from _boxes(copy, shape, *_dense(across, 1), *_dense(down, columns))


def _boxes(copy: Copy, shape: tuple[int, ...], across: list[_Dim], loops: list[_Dim], down: list[_Dim],
           outer: list[_Dim]) -> Iterator[Box]:  # fmt: skip
    item, columns = copy.item, _columns_of(shape)
    across, down, loops = _merged(across), _merged(down), [*outer, *loops]
    width = prod(dim.extent for dim in across)
    while len(down) > 3:
        loops.append(down.pop())
    while len(across) > 3:
        loops.append(across.pop())
        width = prod(dim.extent for dim in across)
    height = prod(dim.extent for dim in down)
    if prod(dim.extent for dim in loops) > MAX_BOXES:
        raise TensorError(copy.tensor, f"it lies in {copy.parameter} in more than {MAX_BOXES} parts")
    row_strides, column_strides = _strides(down, item, width * item), _strides(across, item, item)
    for index in product(*(range(dim.extent) for dim in loops)):
        at = copy.first + sum(i * dim.source for i, dim in zip(index, loops))
        data = copy.data + item * sum(i * dim.target for i, dim in zip(index, loops))
        yield Box(at // columns, height, at % columns, width, data, row_strides, column_strides)
