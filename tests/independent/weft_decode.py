#!/usr/bin/env python3
"""A decoder of weft's frames that was written from docs/WIRE_FORMAT.md alone, in Python's standard library.

  weft_decode.py LAYOUT BASE FRAMES [TARGET]

LAYOUT is a layout in its serialised form, BASE the dense bytes of its tensors in layout order, FRAMES frames back to
back. Prints what each frame changes and the root of the result; writes the result to TARGET. Slow: it is for tests."""
import sys

import weft_digest
import weft_frame
from weft_layout import Layout, Refused


def apply(layout, image, data):
    """Applies the frame at the begin of `data` to an image (a bytearray). Bytes taken, unit, changes."""
    width = None

    def at(unit, position):
        return layout.place(unit, position)[2]

    number = int.from_bytes(data[:4], "little")
    if number < len(layout.units):
        width = layout.units[number].dtype.width

    def base(position):
        byte = at(number, position)
        return int.from_bytes(image[byte : byte + width], "little")

    taken, unit, changes = weft_frame.decode(layout, data, base)
    for position, bits in changes:
        byte = at(unit, position)
        image[byte : byte + width] = bits.to_bytes(width, "little")
    return taken, unit, changes


def apply_all(layout, image, data):
    """Applies frames back to back; yields (unit, changes) of each."""
    data = memoryview(data)
    while data:
        taken, unit, changes = apply(layout, image, data)
        yield unit, changes
        data = data[taken:]


def main(arguments):
    layout_path, base_path, frames_path, *target_path = arguments
    with open(layout_path, "rb") as file:
        layout = Layout(file.read())
    with open(base_path, "rb") as file:
        image = bytearray(file.read())
    with open(frames_path, "rb") as file:
        frames = file.read()
    if len(image) != layout.bytes:
        raise Refused("layout", f"{base_path} has {len(image)} bytes, the layout {layout.bytes}")
    for unit, changes in apply_all(layout, image, frames):
        print(f"unit {unit}: {len(changes)} changes")
    print(f"root {weft_digest.root(weft_digest.of_image(layout, image)):016x}")
    if target_path:
        with open(target_path[0], "wb") as file:
            file.write(image)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    try:
        main(sys.argv[1:])
    except Refused as refusal:
        sys.exit(f"refused, {refusal}")
