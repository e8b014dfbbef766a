"""Frames: docs/WIRE_FORMAT.md, "Frames". A frame is decoded to (position, new bits) pairs against base bits."""
import collections
import struct

import weft_planes
import weft_tight
from weft_bits import Plane
from weft_layout import corrupt

FULL, PAIRS, FAST, TIGHT = range(4)
Header = collections.namedtuple("Header", "unit payload level changed units parameters")


def header_read(data):
    if len(data) < 16:
        corrupt("fewer bytes than a header")
    unit, size, counts, parameters = struct.unpack_from("<IIII", data)
    header = Header(unit, size & 0xFFFFFF, size >> 24 & 15, counts & 0xFFFFF, (counts >> 20) + 1, parameters)
    if size >> 28 or header.level > TIGHT or header.units > (64 if header.level in (FAST, TIGHT) else 1):
        corrupt("a reserved bit, level or number of units")
    if header.payload % 4 or header.payload > len(data) - 16:
        corrupt("payload length")
    return header


def padded(count):
    return (count + 3) // 4 * 4


def zeros(payload, used):
    """The padding after the `used` bytes of a payload."""
    if padded(used) != len(payload) or any(payload[used:]):
        corrupt("does not end, padded, at the payload's last byte")


def step(bits, dtype, steps):
    """The bits that lie so many steps away in the order of a dtype."""
    top, ones = 1 << (8 * dtype.width - 1), (1 << 8 * dtype.width) - 1

    def place(x):
        return x ^ (top - 1) if dtype.exponent and x & top else x

    return place((place(bits) + steps) & ones)


def rice(universe, count):
    k = 0
    while 320 * count << k < 77 * (2 * universe - count):
        k += 1
    return k


def decode(layout, data, base, parameters):
    """Bytes taken, first unit, and the changes of the frame at the begin of `data`, as (position, new bits);
    base(position) gives bits of its units. Raises Refused."""
    header = header_read(data)
    units = layout.units[header.unit : header.unit + header.units]
    if len(units) != header.units or any(unit.dtype != units[0].dtype for unit in units):
        corrupt("units that the layout lacks, or of several dtypes")
    n, dtype = sum(unit.count for unit in units), units[0].dtype
    if not 1 <= header.changed <= n:
        corrupt("m out of range")
    if header.units > 1 and (header.changed > 65536 or 16 + header.payload > layout.largest_frame):
        corrupt("too much for a frame of several units")
    if header.level != FULL and header.payload >= padded(n * dtype.width):
        corrupt("a payload that reaches the dense payload")
    payload = bytes(data[16 : 16 + header.payload])
    if header.level == FULL:
        news = full(header, payload, n, dtype, base)
    elif header.level == PAIRS:
        news = pairs(header, payload, n, dtype)
    else:
        changes = fast(header, payload, n, dtype) if header.level == FAST else tight(
            header, payload, n, dtype, base, parameters)
        news = [(p, step(base(p), dtype, -size if down else size)) for p, size, down in changes]
    return 16 + header.payload, header.unit, [(p, bits) for p, bits in news if bits != base(p)]


def words(data, width):
    return [int.from_bytes(data[i : i + width], "little") for i in range(0, len(data), width)]


def full(header, payload, n, dtype, base):
    w = dtype.width
    if header.changed != n or header.parameters > 3:
        corrupt("full: m or parameters")
    steps = header.parameters in (2, 3)
    if header.parameters in (1, 2):
        elements = weft_planes.elements(payload, n, dtype, steps)
    else:
        zeros(payload, n * w)
        elements = words(payload[: n * w], w)
    return [(p, step(base(p), dtype, word) if steps else word) for p, word in enumerate(elements)]


def pairs(header, payload, n, dtype):
    m, w = header.changed, dtype.width
    if header.parameters:
        corrupt("pairs: parameters")
    zeros(payload, m * (4 + w))
    positions = words(payload[: 4 * m], 4)
    if any(a >= b for a, b in zip(positions, positions[1:])) or positions[-1] >= n:
        corrupt("pairs: positions")
    return zip(positions, words(payload[4 * m : (4 + w) * m], w))


def magnitude_hold(magnitude, down, width):
    if magnitude + (not down) > 1 << (8 * width - 1):
        corrupt("a magnitude that no difference has")


def tight(header, payload, n, dtype, base, parameters):
    changes, end = weft_tight.read(header, payload, n, dtype, base, parameters)
    for _, magnitude, down in changes:
        magnitude_hold(magnitude, down, dtype.width)
    zeros(payload, end)
    return changes


def fast(header, payload, n, dtype):
    m, w = header.changed, dtype.width
    e, k, q = header.parameters & 0xFFFFF, header.parameters >> 20 & 31, header.parameters >> 25 & 63
    if header.parameters >> 31 or e > m or k > rice(n, m) or q > 8 * w - 1 or (q and not e):
        corrupt("fast: parameters")
    s = rice(m, e) if e else 0
    fields = Plane(payload, 0)
    changes = [(fields.number(1), fields.number(k)) for _ in range(m)]
    ranks = Plane(payload, fields.end())
    lows = [ranks.number(s) for _ in range(e)]
    unary = Plane(payload, ranks.end())
    positions = []
    for _, low in changes:
        positions.append((positions[-1] if positions else -1) + 1 + (unary.unary() << k | low))
        if positions[-1] >= n:
            corrupt("fast: a position")
    exceptions, rank = [], -1
    for low in lows:
        rank += 1 + (unary.unary() << s | low)
        if rank >= m:
            corrupt("fast: a rank")
        exceptions.append((rank, unary.unary()))
    last = Plane(payload, unary.end())
    magnitudes = [1] * m
    for rank, length in exceptions:
        if length + q > 8 * w:
            corrupt("fast: a magnitude")
        magnitudes[rank] = (1 << (length + q) | last.number(length + q)) - (1 << q) + 2
        magnitude_hold(magnitudes[rank], changes[rank][0], w)
    zeros(payload, last.end())
    return [(p, magnitude, down) for p, magnitude, (down, _) in zip(positions, magnitudes, changes)]
