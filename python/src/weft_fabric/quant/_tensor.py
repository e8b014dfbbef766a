"""One tensor that is cast: its bf16 bits where the trainer has them, and the codes and scales that follow them."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ._rules import Rule, Tables

STRIP = 1 << 16  # elements that are cast at a time
FEW = 16  # where more than one in so many elements changed, casting everything takes less than finding them


class Recast(NamedTuple):
    """What an update of a cast did: bf16 elements that had changed, and blocks that were cast whole, since their scale
    or more than a sixteenth of the tensor changed. All other elements were left alone."""

    elements: int
    blocks: int


class CastTensor:
    """A matrix, or a stack of matrices: (..., rows, columns). `kept` has the bits that codes and scales are of, so an
    update finds what changed, and the largest magnitude of each block says whether its scale stands."""

    def __init__(self, kit: Any, rule: Rule, tables: Tables, bits: Any) -> None:
        self._kit, self._rule, self._tables = kit, rule, tables
        stack, (rows, columns) = bits.shape[:-2], bits.shape[-2:]
        self._height, self._width = rule.block or rows, rule.block or columns
        self._bands, self._across = -(-rows // self._height), -(-columns // self._width)
        self._rows, self._columns = rows, columns
        self._bits = bits.reshape((prod(stack), rows, columns))
        self._kept = kit.empty(self._bits.shape, "bits", bits)
        self._codes = kit.empty(self._bits.shape, "code", bits)
        count = prod(stack) * self._bands * self._across
        self._scales = kit.empty((count,), "scale", bits)
        self._largest = kit.empty((count,), "bits", bits)
        self.codes = self._codes.reshape(bits.shape)
        # One number of a whole matrix is a vector, as engines have it.
        self.scales = self._scales.reshape((*stack, self._bands, self._across) if rule.block else (prod(stack),))
        self._cast_all()

    def text(self, words: str) -> Any:
        """ASCII text as a tensor of bytes, beside the codes."""
        text = self._kit.empty((len(words),), "code", self._bits)
        for at, byte in enumerate(words.encode("ascii")):
            text[at] = byte
        return text

    def _box(self, block: int, blocks: int = 1) -> tuple[int, slice, slice]:
        """Matrix, rows and columns of blocks beside each other."""
        band, first = divmod(block, self._across)
        matrix, band = divmod(band, self._bands)
        row, column = band * self._height, first * self._width
        return (
            matrix,
            slice(row, min(row + self._height, self._rows)),
            slice(column, min(column + blocks * self._width, self._columns)),
        )

    def _cast_all(self) -> None:
        self._sound = False
        for block in range(0, len(self._largest), self._across):
            box = self._box(block, self._across)
            here = slice(block, block + self._across)
            largest = self._kit.block_maxima(self._bits[box] & 0x7FFF, self._width)
            self._cast_box(box, largest)
            self._scales[here] = self._kit.look_up(self._tables.scale, largest)
            self._largest[here] = largest
        self._kept[...] = self._bits
        self._sound = True  # codes and scales are those of the kept bits; false after a cast that was cut short

    def _cast_box(self, box: Any, largest: Any) -> None:
        """Casts all elements of blocks beside each other, some rows at a time so that they stay in a cache."""
        matrix, rows, columns = box
        factor = self._kit.look_up(self._tables.factor, largest)
        factor = self._kit.repeat(factor, self._width, columns.stop - columns.start)
        strip = max(1, STRIP // len(factor))
        for row in range(rows.start, rows.stop, strip):
            here = matrix, slice(row, min(row + strip, rows.stop)), columns
            self._codes[here] = self._kit.codes(self._bits[here], factor, self._rule.divides)

    def _blocks_of(self, where: Any) -> Any:
        """Numbers of the blocks of elements."""
        row, column = where // self._columns, where % self._columns
        band = row // self._rows * self._bands + row % self._rows // self._height
        return band * self._across + column // self._width

    def _largest_now(self, block: Any, old: Any, new: Any) -> Any:
        """Largest magnitudes of all blocks, after elements of them changed. A block is read again only if one of its
        largest elements did."""
        largest = self._largest + 0
        self._kit.raise_at(largest, block, new & 0x7FFF)
        for number in self._kit.unique(block[(old & 0x7FFF) >= self._largest[block]]).tolist():
            largest[number] = (self._bits[self._box(number)] & 0x7FFF).max()
        return largest

    def update(self) -> Recast:
        """Casts what changed anew, or everything after an update that was cut short."""
        kit, bits, kept, codes = self._kit, self._bits.reshape(-1), self._kept.reshape(-1), self._codes.reshape(-1)
        changed = bits != kept
        count = int(changed.sum())
        if count == 0 and self._sound:
            return Recast(0, 0)
        if count * FEW > len(bits) or not self._sound:
            self._cast_all()
            return Recast(count, len(self._largest))
        where = kit.nonzero(changed)
        new, block = bits[where], self._blocks_of(where)
        largest = self._largest_now(block, kept[where], new)
        scales = kit.look_up(self._tables.scale, largest)
        other = kit.differ(scales, self._scales)
        alone = ~other[block]
        factor = kit.look_up(self._tables.factor, largest[block[alone]])
        self._sound = False
        codes[where[alone]] = kit.codes(new[alone], factor, self._rule.divides)
        whole = kit.nonzero(other).tolist()
        for number in whole:
            self._cast_box(self._box(number), largest[number : number + 1])
        self._scales[...] = scales
        self._largest[...] = largest
        kept[where] = new
        self._sound = True
        return Recast(count, len(whole))
