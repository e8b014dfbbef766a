"""From numbers of elements to boxes: where the elements of a tensor lie in memory, when both are known one by one."""

from __future__ import annotations

from math import prod
from typing import NamedTuple

import numpy as np

from .errors import TensorError

_FEW = 4096  # boxes that nobody minds
_SPARSE = 16  # elements that a box must have on average where there are more


class Boxes(NamedTuple):
    """Boxes of one tensor as columns: weft.Blocks takes the first four. `first` is the element of the memory at which
    each begins, `pitch` the elements from one row to the next."""

    row: np.ndarray
    rows: np.ndarray
    column: np.ndarray
    columns: np.ndarray
    first: np.ndarray
    pitch: np.ndarray


def boxes(name: str, shape: tuple[int, ...], element: np.ndarray, memory: np.ndarray, strided: bool) -> Boxes:
    """The fewest boxes that a walk through the elements finds.

    shape    of the tensor
    element  numbers of elements of the tensor, in row-major order, as int64
    memory   for each, the element of a memory that holds it
    strided  whether the rows of a box may have gaps between them
    Raises TensorError: an element is there twice, or elements lie one by one, as in transposed storage.
    """
    width = max(1, shape[-1] if len(shape) > 1 else prod(shape))
    order = np.argsort(element, kind="stable")
    element, memory = element[order], memory[order]
    step = np.diff(element)
    if not step.all():
        raise TensorError(name, f"element {element[int(np.argmin(step))]} lies in two places")
    if not len(element):
        return Boxes(*[element] * 6)
    begins = np.flatnonzero(np.r_[True, (step != 1) | (np.diff(memory) != 1) | (element[1:] % width == 0)])
    columns = np.diff(np.r_[begins, len(element)])
    found = _stacked(element[begins] // width, element[begins] % width, columns, memory[begins], strided)
    if len(found.row) > max(_FEW, len(element) // _SPARSE):
        raise TensorError(
            name, f"its {len(element)} elements lie in {len(found.row)} places: they are transposed or mixed"
        )
    return found


def _stacked(row: np.ndarray, column: np.ndarray, columns: np.ndarray, first: np.ndarray, strided: bool) -> Boxes:
    """Parts of rows, those below one another at one distance in memory as one box."""
    pitch = np.diff(first)
    joined = (np.diff(row) == 1) & (np.diff(column) == 0) & (np.diff(columns) == 0)
    joined &= pitch >= columns[:-1] if strided else pitch == columns[:-1]
    joined[1:] &= ~joined[:-1] | (pitch[1:] == pitch[:-1])
    begins = np.flatnonzero(np.r_[True, ~joined])[: len(row)]
    rows = np.diff(np.r_[begins, len(row)])
    apart = np.where(rows > 1, np.r_[pitch, 0][begins], columns[begins])
    return Boxes(row[begins], rows, column[begins], columns[begins], first[begins], apart)
