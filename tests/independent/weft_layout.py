"""Layout and grid: docs/WIRE_FORMAT.md, "Words and integers", "Layout", "Grid"."""
import collections
import struct


class Refused(Exception):
    """What a reader must refuse, with the status that the law names."""

    def __init__(self, status, why):
        super().__init__(f"{status}: {why}")
        self.status = status


def corrupt(why):
    raise Refused("corrupt", why)


# bits of an element, bytes of a coded word, bits of the exponent (0: integer order)
Dtype = collections.namedtuple("Dtype", "number name bits width exponent")
DTYPES = {
    number: Dtype(number, *rest)
    for number, rest in enumerate(
        [
            ("BOOL", 8, 1, 0), ("U8", 8, 1, 0), ("I8", 8, 1, 0), ("F8_E4M3", 8, 1, 4), ("F8_E5M2", 8, 1, 5),
            ("F8_E8M0", 8, 1, 0), ("F4", 4, 1, 0), ("F6_E2M3", 6, 1, 0), ("F6_E3M2", 6, 1, 0), ("I16", 16, 2, 0),
            ("U16", 16, 2, 0), ("F16", 16, 2, 5), ("BF16", 16, 2, 8), ("I32", 32, 4, 0), ("U32", 32, 4, 0),
            ("F32", 32, 4, 8), ("I64", 64, 8, 0), ("U64", 64, 8, 0), ("F64", 64, 8, 11), ("C64", 64, 4, 8),
            ("F8_E4M3FNUZ", 8, 1, 4), ("F8_E5M2FNUZ", 8, 1, 5),
        ],
        1,
    )
}

# words: coded elements; at: byte of the first in the dense bytes of the layout
Tensor = collections.namedtuple("Tensor", "name dtype sizes words at")
# parts: (tensor, first word in it, words), in order of position
Unit = collections.namedtuple("Unit", "dtype count parts")


class Layout:
    def __init__(self, data):
        self.tensors = list(tensors_read(data))
        self.units = list(units_cut(self.tensors))
        self.bytes = sum(t.words * t.dtype.width for t in self.tensors)
        self.largest_frame = 16 + (max((u.count * u.dtype.width for u in self.units), default=0) + 3) // 4 * 4
        if len(self.units) > 1 << 24:
            raise Refused("layout", "too many units")

    def place(self, unit, position):
        """Tensor, index in it and byte in the dense bytes of a position, counted from the begin of a unit."""
        while position >= self.units[unit].count:
            position -= self.units[unit].count
            unit += 1
        for tensor, first, words in self.units[unit].parts:
            if position < words:
                of = self.tensors[tensor]
                return tensor, first + position, of.at + (first + position) * of.dtype.width
            position -= words
        raise AssertionError("position beyond its unit")


def tensors_read(data):
    if len(data) < 16:
        corrupt("ends in the middle")
    magic, epoch, count = struct.unpack_from("<IIQ", data)
    if magic != 0x594C4657:
        corrupt("wrong magic")
    if epoch != 1:
        raise Refused("protocol", "epoch")
    if count * 13 > len(data) - 16:
        corrupt("more tensors than the bytes could hold")
    used, at, names = 16, 0, set()
    for _ in range(count):
        tensor, used = tensor_read(data, used, at)
        if tensor.name in names:
            raise Refused("layout", "a name used twice")
        names.add(tensor.name)
        at += tensor.words * tensor.dtype.width
        if at >= 1 << 64:
            raise Refused("layout", "all bytes overflow")
        yield tensor
    if used != len(data):
        corrupt("bytes after the last tensor")


def tensor_read(data, used, at):
    if len(data) - used < 12:
        corrupt("ends in the middle")
    number, rank, length = struct.unpack_from("<III", data, used)
    used += 12
    if rank > 16 or not 1 <= length <= 511:
        corrupt("rank or name length")
    if len(data) - used < 8 * rank + length:
        corrupt("ends in the middle")
    sizes = struct.unpack_from(f"<{rank}Q", data, used)
    used += 8 * rank
    name = bytes(data[used : used + length])
    if 0 in name:
        corrupt("zero byte in a name")
    if number not in DTYPES:
        raise Refused("layout", "unknown dtype")
    bits = DTYPES[number].bits
    for size in sizes:
        bits *= size
    if bits >= 1 << 64:
        raise Refused("layout", "sizes overflow")
    if bits % 8:
        raise Refused("layout", "elements that do not fill whole bytes")
    return Tensor(name, DTYPES[number], sizes, bits // 8 // DTYPES[number].width, at), used + length


def tile_words(width):
    words = 1 << 18
    while words * width > 1 << 20:
        words //= 2
    return words


def units_cut(tensors):
    for dtype, parts in parts_cut(tensors):
        yield Unit(dtype, sum(words for _, _, words in parts), parts)


def parts_cut(tensors):
    pack, held = None, []  # dtype and parts of the open pack

    def closed():
        nonlocal pack, held
        if pack:
            yield pack, held
        pack, held = None, []

    for number, tensor in enumerate(tensors):
        words, room = tensor.words, tile_words(tensor.dtype.width)
        if words == 0:
            continue
        if words > room:
            yield from closed()
            for first in range(0, words, room):
                yield tensor.dtype, [(number, first, min(room, words - first))]
            continue
        if pack != tensor.dtype or sum(part[2] for part in held) + words > room:
            yield from closed()
            pack = tensor.dtype
        held.append((number, 0, words))
    yield from closed()
