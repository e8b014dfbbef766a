"""Level tight: docs/WIRE_FORMAT.md, "tight"."""
import collections

from weft_bits import Plane
from weft_layout import Refused, corrupt

List = collections.namedtuple("List", "l k inverted")


def other_base(why):
    raise Refused("base", f"tight: {why}")


def lists_read(header, payload, classes):
    """The lists of a frame: positions and exceptions as {class: List}, further as [List] or []."""
    masks = header.parameters & 0xFFFF, header.parameters >> 16
    if (masks[0] | masks[1]) >> classes or masks[1] & ~masks[0]:
        corrupt("tight: a class")
    positions, exceptions = [[c for c in range(16) if mask >> c & 1] for mask in masks]
    lists = [list_read(payload, i) for i in range(len(positions) + len(exceptions) + bool(exceptions))]
    groups = lists[: len(positions)], lists[len(positions) :][: len(exceptions)], lists[-1:] if exceptions else []
    if any(sum(each.l for each in group) > header.changed for group in groups):
        corrupt("tight: more than m ranks")
    return dict(zip(positions, groups[0])), dict(zip(exceptions, groups[1])), groups[2]


def list_read(payload, i):
    if len(payload) < 3 * i + 3:
        corrupt("tight: no room for the lists")
    word = int.from_bytes(payload[3 * i : 3 * i + 3], "little")
    read = List(word & 0x3FFFF, word >> 18 & 31, word >> 23)
    if read.l > 1 << 17 or read.k > 24 or (read.k and not read.l):
        corrupt("tight: a list")
    return read


class Members:
    """The members of a list, read from the planes of lows and of unary numbers."""

    def __init__(self, description, lows, unary, n):
        self.inverted, rank, self.ranks = description.inverted, -1, []
        gaps = [lows.number(description.k) for _ in range(description.l)]
        for low in gaps:
            rank += 1 + (unary.unary() << description.k | low)
            if rank >= n:
                corrupt("tight: a rank not below n")
            self.ranks.append(rank)

    def among(self, universe):
        """Those of a universe, in its order, that are members."""
        if self.ranks and self.ranks[-1] >= len(universe):
            other_base("a rank beyond its universe")
        named = set(self.ranks)
        return [element for rank, element in enumerate(universe) if (rank in named) != bool(self.inverted)]


def exponent(bits, dtype):
    return bits >> (8 * dtype.width - 1 - dtype.exponent) & ((1 << dtype.exponent) - 1) if dtype.exponent else 0


def magnitude_of(x, number, base, width, last):
    """A magnitude above 1 on a base of exponent x, from its unary number (None: not coded) and the last plane."""
    if number is None:
        return 2
    kappa = 0 if x > base else min(base - x, 56 if width == 8 else 8 * width - 2)
    if number < 8:
        v = number << kappa | last.number(kappa)
    else:
        bits = kappa + 4 + number - 8
        if bits > 8 * width + 8:
            corrupt("tight: a magnitude")
        v = (1 << bits | last.number(bits)) - (1 << (kappa + 4)) + (8 << kappa)
    return v + (3 if x > base else 2)


def by_class(exponents, thresholds):
    """The elements of each class, in order of position."""
    elements = collections.defaultdict(list)
    class_of = {x: sum(t <= x for t in thresholds) for x in set(exponents)}
    for position, x in enumerate(exponents):
        elements[class_of[x]].append(position)
    return elements


def read(header, payload, n, dtype, bits, parameters):
    """(position, magnitude, down) of each change, and where the planes end; bits(position) gives those of the base."""
    base, thresholds = parameters.of(dtype)
    positions, exceptions, further = lists_read(header, payload, len(thresholds) + 1)
    lists = [*positions.values(), *exceptions.values(), *further]

    directions = Plane(payload, 3 * len(lists))
    downs = [directions.number(1) for _ in range(header.changed)]
    lows = Plane(payload, directions.end())
    unary = Plane(payload, lows.begin + (sum(each.l * each.k for each in lists) + 7) // 8)
    members = iter([Members(each, lows, unary, n) for each in lists])
    lows.end()

    exponents = [exponent(bits(position), dtype) for position in range(n)]
    elements = by_class(exponents, thresholds)
    changed = {c: next(members).among(elements[c]) for c in positions}
    changes = sorted(position for some in changed.values() for position in some)
    if len(changes) != header.changed:
        other_base("sets that do not make m changes")
    exceptional = sorted(position for c in exceptions for position in next(members).among(changed[c]))
    large = [position for position in exceptional if exponents[position] > base]
    plain = set(large) - set(next(members).among(large) if further else [])

    numbers = [None if position in plain else unary.unary() for position in exceptional]
    last = Plane(payload, unary.end())
    magnitudes = dict.fromkeys(changes, 1)
    for position, number in zip(exceptional, numbers):
        magnitudes[position] = magnitude_of(exponents[position], number, base, dtype.width, last)
    return [(position, magnitudes[position], down) for position, down in zip(changes, downs)], last.end()
