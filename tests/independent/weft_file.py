"""Update files: docs/WIRE_FORMAT.md, "Update files". The layout's hash of 128 bits is taken from the caller."""
import struct

import weft_decode
import weft_digest
import weft_frame
from weft_layout import DTYPES, Layout, Refused, corrupt, tile_words
from weft_names import serialised
from weft_parameters import Parameters
from weft_planes import unpacked, zstd_measure
from xxh3 import xxh3

HEADER, TAIL, TRAILER = 128, 24, 128


def must(condition, status, why):
    if not condition:
        raise Refused(status, why)


def u64s(*numbers):
    return struct.pack(f"<{len(numbers)}Q", *numbers)


class File:
    """An update file whose sections were proved; its frames are proved when they are applied."""

    def __init__(self, data):
        must(data[:4] == b"WFUP", "file", "another mark")
        must(len(data) >= HEADER + TAIL + TRAILER, "corrupt", "too short")
        head = self.header_read(data)
        self.trailer_read(data[-TRAILER:])
        tail = data[-TRAILER - TAIL : -TRAILER]
        self.base_root, shape_bytes, packed_bytes, check = struct.unpack("<QIIQ", tail)
        shape_bytes, whole = shape_bytes & 0x7FFFFFFF, shape_bytes >> 31
        sizes = head, self.frame_bytes, shape_bytes, packed_bytes, 8 * self.frame_count, TAIL, TRAILER
        must(sum(sizes) == len(data) and self.frame_bytes % 4 == 0 and shape_bytes <= 1 << 26, "corrupt", "sections")
        sections, at = [], 0
        for size in sizes:
            sections.append(data[at : at + size])
            at += size
        front, self.frames, self.shape, self.packed, checks, _, end = sections
        hashes = [xxh3(section) for section in (front, self.shape, self.packed, checks, tail[:16], end)]
        must(xxh3(u64s(*hashes)) == check, "check", "the tail's")
        self.checks = struct.unpack(f"<{self.frame_count}Q", checks)
        must(not any(front[HEADER + 2 * self.word_count :]), "corrupt", "zeros that are none")
        must(self.target == self.trailer_target[:2], "protocol", "other run or number in the trailer")
        must(len(self.packed) <= self.attachment_bytes, "corrupt", "attachment")
        must(bool(self.packed) == bool(self.attachment_bytes), "corrupt", "attachment")
        self.whole = whole

    def header_read(self, data):
        """Bytes up to the frames."""
        must(struct.unpack_from("<H", data, 4) == (1,), "protocol", "protocol")
        must(struct.unpack_from("<HHHHIQ", data, 8) == (0, 0, 1, 0, 1, 0), "protocol", "a reserved field")
        must(data[28:44] == data[44:60], "protocol", "view hash")
        self.layout_hash = data[28:44]
        base, target = struct.unpack_from("<QQQ", data, 60), struct.unpack_from("<QQQ", data, 84)
        must(base[2] == target[2] == 0, "protocol", "roots in the header")
        kind, level, self.word_count, self.attachment_bytes, self.attachment_hash = struct.unpack_from(
            "<BBHQQ", data, 108)
        must(kind == 0 and level <= 3, "protocol", "kind or level")
        must(self.attachment_bytes <= 1 << 28, "protocol", "attachment bytes")
        must(self.attachment_bytes or not self.attachment_hash, "check", "attachment hash without attachment")
        must(HEADER + 2 * self.word_count <= len(data), "corrupt", "too short")
        self.parameters = Parameters(data[HEADER : HEADER + 2 * self.word_count])
        self.target = target[:2]
        return weft_frame.padded(HEADER + 2 * self.word_count)

    def trailer_read(self, data):
        must(data[:4] == b"WFTR", "corrupt", "trailer")
        must(struct.unpack_from("<H", data, 4) == (1,), "protocol", "protocol")
        self.trailer_target = struct.unpack_from("<QQQ", data, 8)
        buckets, self.frame_count, self.frame_bytes = struct.unpack_from("<QQQ", data, 32)
        must(buckets == 0, "corrupt", "buckets")
        must(data[63] == 0, "protocol", "signature kind")
        must(not any(data[64:]), "corrupt", "signature")

    def tensors(self):
        """(dtype, coded elements) of each tensor: what a reader without the model knows."""
        if not self.whole:
            return grid_read(self.shape)
        return [(t.dtype, t.words) for t in self.layout().tensors]

    def layout(self):
        told = self.shape
        if told[:4] == b"\x28\xb5\x2f\xfd":
            _, size = zstd_measure(told)
            must(size is not None and len(told) < size <= 1 << 28, "corrupt", "a layout that is none")
            told = unpacked(told, size)
        return Layout(serialised(told))

    def attachment(self):
        data = self.packed
        if len(data) != self.attachment_bytes:
            data = unpacked(data, self.attachment_bytes)
        must(not data or (xxh3(data) or 1) == self.attachment_hash, "check", "the attachment's hash")
        return data

    def apply(self, layout, layout_hash, image):
        """Moves the dense bytes of the base to the target's, of which it returns the root."""
        must(layout_hash == self.layout_hash, "layout", "weights of another layout")
        must(self.tensors() == [(t.dtype, t.words) for t in layout.tensors], "corrupt", "a grid of another layout")
        must(weft_digest.root(weft_digest.of_image(layout, image)) == self.base_root, "base", "root")
        at = unit = 0
        for check in self.checks:
            header = weft_frame.header_read(self.frames[at:])
            must(xxh3(self.frames[at : at + 16 + header.payload]) == check, "check", "a frame's")
            must(header.unit >= unit, "corrupt", "a unit that is not after the one before")
            taken, _, _ = weft_decode.apply(layout, image, self.frames[at:], self.parameters)
            must(self.in_a_run(layout, header), "corrupt", "units that leave their run")
            at, unit = at + taken, header.unit + header.units
        must(at == len(self.frames), "corrupt", "more or fewer frames than the trailer says")
        root = weft_digest.root(weft_digest.of_image(layout, image))
        must(root == self.trailer_target[2], "target", "root")
        return root

    def in_a_run(self, layout, header):
        place = 0  # in its stretch
        while place < header.unit and layout.units[header.unit - place - 1].dtype == layout.units[header.unit].dtype:
            place += 1
        return place >> self.parameters.run_shift == place + header.units - 1 >> self.parameters.run_shift


def grid_read(data):
    tensors, at = [], 0

    def number():
        nonlocal at
        value = shift = 0
        while True:
            if at == len(data) or shift > 63:
                corrupt("grid: a number")
            byte, at = data[at], at + 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                break
        if value >> 64 or (byte == 0 and shift > 7):
            corrupt("grid: a number")
        return value

    while at < len(data):
        first = number()
        if first == 0:
            distance, count = number(), number()
            if not 1 <= distance <= len(tensors) or len(tensors) + count > 1 << 20:
                corrupt("grid: a copy")
            for _ in range(count):
                tensors.append(tensors[-distance])
        elif first in DTYPES and len(tensors) < 1 << 20:
            tensors.append((DTYPES[first], number()))
        else:
            corrupt("grid: a dtype")
    for dtype, count in tensors:
        elements, rest = divmod(8 * count * dtype.width, dtype.bits)
        if rest or elements * dtype.bits >= 1 << 64:
            corrupt("grid: coded elements that no tensor of the dtype has")
    if sum(8 * count * dtype.width for dtype, count in tensors) >= 1 << 64 or sum(
            -(-count // tile_words(dtype.width)) for dtype, count in tensors if count > tile_words(dtype.width)
    ) > 1 << 24:
        corrupt("grid: more than a layout has")
    return tensors
