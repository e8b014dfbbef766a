"""From a layer's model format to its kernel format: where an engine's packing moves each element. No torch.

A packing is a list of digits: the number of an element in the model format, written in mixed radix, and for each digit
the stride that it has in kernel memory. So a packed expert is a few rows, whatever its size. A digit that counts down in
kernel memory, such as the halves of w13 that a backend swaps, has a negative stride.
"""

from __future__ import annotations

from math import prod
from typing import Any, Callable, Iterable, Iterator, Mapping, NamedTuple

from ._boxes import Copy


class Digit(NamedTuple):
    extent: int
    unit: int  # what the digit counts, in elements of the model format
    target: int  # its stride in kernel memory, in elements; negative: the last comes first


def begin_of(digits: Iterable[Digit]) -> int:
    """Where element 0 lies in kernel memory."""
    return sum((1 - digit.extent) * digit.target for digit in digits if digit.target < 0)


class Move(NamedTuple):
    """A parameter that the engine packs: the layer that has it, and what loaders fill instead."""

    layer: Any
    name: str  # in the layer
    model: Any  # the parameter in the model format: on the device meta, or weft's own where `kept`
    digits: tuple[Digit, ...]  # the smallest unit first
    kept: bool = False  # no element is moved: versions write `model`, and the engine's is computed from that
    padding: Any = None  # a mask of an expert's elements: those that processing sets to zero, whatever loaders fill


Index = Callable[[int], int]  # the element that lies at a place of kernel memory, -1 for padding


def _run(index: Index, count: int) -> int:
    """How many places go on as the first two do. Few are asked: where one digit ends, the next counts one. Padding goes
    on as any."""
    first, last, end = index(0), 1, 2
    step = index(1) - first

    def goes_on(place: int) -> bool:
        return index(place) in (-1, first + place * step)

    while end < count and goes_on(end):
        last, end = end, 2 * end
    end = min(end, count)
    while end - last > 1:
        middle = (last + end) // 2
        last, end = (middle, end) if goes_on(middle) else (last, middle)
    return end


def _steps(index: Index, count: int) -> Iterator[tuple[int, int]]:
    """An index as pairs (length, step), the innermost first; it ends early where none do."""
    place = 1
    while place < count:
        size = _run(lambda at, unit=place: index(at * unit), count // place)  # type: ignore[misc]
        if count // place % size:
            return
        yield size, index(place) - index(0)
        place *= size


def digits_of(index: Index, count: int) -> tuple[Digit, ...] | None:
    """The digits of a packing of `count` elements. None: none are. Few places are asked, so whoever has all proves
    what is found."""
    digits, place = [], 1
    for size, step in _steps(index, count):
        digits.append(Digit(size, abs(step), place if step > 0 else -place))
        place *= size
    digits.sort(key=lambda digit: digit.unit)
    units = [prod(digit.extent for digit in digits[:at]) for at in range(len(digits))]
    if place != count or units != [digit.unit for digit in digits]:
        return None
    if index(0) != sum((digit.extent - 1) * digit.unit for digit in digits if digit.target < 0):
        return None
    return tuple(digits)


def _cut(copy: Copy, dim: int, count: int) -> tuple[Copy, Copy]:
    """A copy as two, by the first `count` elements of a dimension."""
    sizes = [[*copy.sizes], [*copy.sizes]]
    sizes[0][dim], sizes[1][dim] = count, copy.sizes[dim] - count
    after = copy._replace(
        first=copy.first + count * copy.source[dim], data=copy.data + count * copy.target[dim] * copy.item
    )
    return copy._replace(sizes=tuple(sizes[0])), after._replace(sizes=tuple(sizes[1]))


def _parted(
    dim: tuple[int, int, int], digits: tuple[Digit, ...], reach: list[int]
) -> tuple[list[tuple[int, int, int]], int]:
    """A dimension as dimensions that stay within one digit each, and 0; else how many of its elements to cut off.

    reach   how far each digit has come, which goes on
    """
    parts: list[tuple[int, int, int]] = []
    (extent, source, target), inner = dim, 1
    while True:
        at = max(number for number, digit in enumerate(digits) if digit.unit <= target)
        digit = digits[at]
        step, rest = divmod(target, digit.unit)
        if rest:
            return parts, inner * (extent // 2)
        room = (digit.extent - reach[at] + step - 1) // step
        count = min(extent, room)
        if digit.target < 0 and count > 1:
            return parts, inner * (count // 2)  # no copy goes backwards
        if count < extent and (reach[at] or digit.extent % step or extent % count):
            return parts, inner * (count if extent % count or reach[at] else extent // 2)
        parts.append((count, source, step * digit.target))
        reach[at] += (count - 1) * step
        if count == extent:
            return parts, 0
        extent, source, target, inner = extent // count, source * count, target * count, inner * count


def through(copy: Copy, digits: tuple[Digit, ...], data: int) -> Iterator[Copy]:
    """A copy into the model format, whose `data` counts from there, as copies into kernel memory at `data`."""
    first = copy.data // copy.item
    begin = [first // digit.unit % digit.extent for digit in digits]
    reach, dims = list(begin), []
    for number, dim in enumerate(zip(copy.sizes, copy.source, copy.target)):
        if dim[0] == 1:
            continue
        parts, cut = _parted(dim, digits, reach)
        if cut:
            for part in _cut(copy, number, min(max(cut, 1), dim[0] - 1)):
                yield from through(part, digits, data)
            return
        dims += parts
    sizes, source, target = zip(*reversed(dims)) if dims else ((), (), ())
    place = begin_of(digits) + sum(at * digit.target for at, digit in zip(begin, digits))
    yield copy._replace(sizes=sizes, source=source, target=target, data=data + place * copy.item)


def moved(copies: Iterable[Copy], moves: Mapping[str, Move]) -> Iterator[Copy]:
    """Copies of loaders, those into the model format of a packed parameter as what they are in kernel memory."""
    for copy in copies:
        move = moves.get(copy.parameter)
        if move is None or move.kept or 0 in copy.sizes:
            yield copy
        else:
            yield from through(copy, move.digits, getattr(move.layer, move.name).data_ptr())
