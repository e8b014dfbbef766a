"""The placement: which boxes of the model a process of an engine has, and where they lie."""

from __future__ import annotations

from fnmatch import fnmatchcase
from math import prod
from typing import Any, Iterable, Sequence

import numpy as np

from .._binding import Blocks
from .._layout import Layout
from ..errors import TensorError
from ._boxes import MAX_BOXES, Box, Copy, boxes


def _row_of(strides: tuple[tuple[int, int], ...]) -> list[tuple[int, int]]:
    return [*strides, *[(0, 0)] * (3 - len(strides))]


def place(layout: Layout, copies: Iterable[Copy], device: str, keep: Any = None) -> Blocks:
    """The boxes of copies."""
    numbers: list[int] = []
    found: list[Box] = []
    for copy in copies:
        number = layout.index[copy.tensor]
        of_copy = list(boxes(copy, layout.tensors[number].shape))
        numbers += [number] * len(of_copy)
        found += of_copy
        if len(found) > MAX_BOXES:
            raise TensorError(copy.tensor, f"the model lies in more than {MAX_BOXES} parts")
    columns: Sequence[Any] = list(zip(*(box[:5] for box in found))) if found else [()] * 5
    return Blocks(
        numbers,
        *(np.array(column, np.uint64) for column in columns),
        row_strides=np.array([_row_of(box.row_strides) for box in found], np.uint64).reshape(-1, 3, 2),
        column_strides=np.array([_row_of(box.column_strides) for box in found], np.uint64).reshape(-1, 3, 2),
        keep=keep,
        device=device,
    )


def _matrix(shape: tuple[int, ...]) -> tuple[int, int]:
    """Rows and columns of a tensor seen as a matrix."""
    return (prod(shape[:-1]), shape[-1]) if len(shape) > 1 else (1, prod(shape))


def _is_covered(rows: int, columns: int, slices: np.ndarray) -> bool:
    """Whether boxes have every element of a matrix."""
    if int((slices["rows"] * slices["columns"]).sum()) < rows * columns:
        return False
    if len(slices) == 1:
        return True  # a box that large is the matrix
    mask = np.zeros((rows, columns), bool)
    for row, height, column, width in slices[["row", "rows", "column", "columns"]].tolist():
        mask[row : row + height, column : column + width] = True
    return bool(mask.all())


def is_whole(layout: Layout, blocks: Blocks) -> bool:
    """Whether a process has all of the model."""
    slices = blocks.slices
    return int((slices["rows"] * slices["columns"]).sum()) == sum(prod(spec.shape) for spec in layout.tensors)


def check_cover(layout: Layout, every: Sequence[np.ndarray], ignore: Iterable[str]) -> None:
    """Each element of the layout lies in some process of the engine. `every` has the slices of each.

    Raises TensorError for the first tensor that does not, and is not ignored: the engine would serve without it.
    """
    slices = np.unique(np.concatenate(every))
    begin = np.searchsorted(slices["tensor"], np.arange(len(layout.tensors) + 1, dtype=np.uint64))
    for number, spec in enumerate(layout.tensors):
        rows, columns = _matrix(spec.shape)
        own = slices[begin[number] : begin[number + 1]]
        if rows * columns == 0 or any(fnmatchcase(spec.name, pattern) for pattern in ignore):
            continue
        if not len(own):
            raise TensorError(spec.name, "the trainer publishes it, and the engine's loader puts it nowhere: leave "
                                         "it out of the layout, or name it in `ignore`")  # fmt: skip
        if not _is_covered(rows, columns, own):
            raise TensorError(spec.name, "no process of the engine has some of its elements")
