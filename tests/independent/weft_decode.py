#!/usr/bin/env python3
"""A decoder of weft's frames that was written from docs/WIRE_FORMAT.md alone, in Python's standard library.

  weft_decode.py LAYOUT BASE FRAMES [PARAMETERS]

LAYOUT is a layout in its serialised form, BASE the dense bytes of its tensors in layout order, FRAMES frames back to
back, PARAMETERS the parameter words of their update. Prints what each frame changes and the root of the result. Slow: it is for
tests."""
import functools
import sys

import weft_digest
import weft_frame
from weft_layout import Layout, Refused
from weft_parameters import Parameters


def apply(layout, image, data, parameters):
    """Applies the frame at the begin of `data` to an image (a bytearray). Bytes taken, unit, changes."""
    number = int.from_bytes(data[:4], "little")

    @functools.cache
    def base(position):
        tensor, _, at = layout.place(number, position)
        return int.from_bytes(image[at : at + layout.tensors[tensor].dtype.width], "little")

    taken, unit, changes = weft_frame.decode(layout, data, base, parameters)
    for position, bits in changes:
        tensor, _, at = layout.place(unit, position)
        width = layout.tensors[tensor].dtype.width
        image[at : at + width] = bits.to_bytes(width, "little")
    return taken, unit, changes


def apply_all(layout, image, data, parameters=Parameters()):
    """Applies frames back to back; yields (unit, changes) of each."""
    data = memoryview(data)
    while data:
        taken, unit, changes = apply(layout, image, data, parameters)
        yield unit, changes
        data = data[taken:]


def read(path):
    with open(path, "rb") as file:
        return file.read()


def main(layout_path, base_path, frames_path, *parameters_path):
    layout, image = Layout(read(layout_path)), bytearray(read(base_path))
    parameters = Parameters(*(read(path) for path in parameters_path))
    if len(image) != layout.bytes:
        raise Refused("layout", f"{base_path} has {len(image)} bytes, the layout {layout.bytes}")
    for unit, changes in apply_all(layout, image, read(frames_path), parameters):
        print(f"unit {unit}: {len(changes)} changes")
    print(f"root {weft_digest.root(weft_digest.of_image(layout, image)):016x}")


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except Refused as refusal:
        sys.exit(f"refused, {refusal}")
