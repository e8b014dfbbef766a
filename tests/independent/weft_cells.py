"""The cells of an update file: docs/WIRE_FORMAT.md, "Update files", Cells."""
import struct

from weft_layout import corrupt
from weft_names import Reader


def cells_read(data):
    """Keys with cells, sums, frames and bytes; and the cells: key, tensor, row, rows, column, columns."""
    reader, keys, cells = Reader(data), [], []
    if data[:1] != b"\x01":
        corrupt("form")
    reader.at = 1
    for _ in range(reader.number()):
        key = (keys[-1][0] if keys else 0) + reader.number()
        count = reader.number()
        base, target = struct.unpack_from("<QQ", data, reader.at)
        reader.at += 16
        if not count or (keys and key == keys[-1][0]):
            corrupt("keys")
        keys.append((key, count, base, target, reader.number(), reader.number()))
    for key in keys:
        tensor = 0
        for _ in range(key[1]):
            tensor += reader.number()
            cells.append((key[0], tensor, *(reader.number() for _ in range(4))))
    if reader.at != len(data):
        corrupt("length")
    return keys, cells
