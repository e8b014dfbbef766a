#!/usr/bin/env python3
"""Holds the independent decoder against the library.

  check.py golden FOLDER         every golden file: good ones give their elements, bad ones are refused
  check.py cases PROGRAM ARG..   every case that a program writes (cases.h)

Exits with 77 and says what is missing if something had to be left out."""
import os
import struct
import subprocess
import sys

import weft_decode
import weft_digest
import weft_file
from weft_cells import cells_read
from weft_layout import DTYPES, Layout, Refused
from weft_names import serialised
from weft_parameters import Parameters
from weft_planes import Missing

left_out = []


def must(condition, what):
    if not condition:
        sys.exit(f"check.py: {what}")


def read(folder, name):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


# ---- golden


def golden(folder):
    names = sorted(name for name in os.listdir(folder) if name.endswith(".bin"))
    frames = [name for name in names if not name.startswith(("layout_", "base_", "target_", "parameters_", "wire_", "cells"))]
    must(len(frames) > 10, f"{folder} lacks golden files")
    for name in frames:
        try:
            golden_frame(folder, name)
        except Missing as missing:
            left_out.append(f"{name}: {missing}")
    golden_dtypes(folder)
    must(serialised(read(folder, "layout_names_told.bin")) == read(folder, "layout_names.bin"), "another layout is told")
    golden_digests(folder)
    keys, cells = cells_read(read(folder, "cells.bin"))
    must(cells == [(0, 1, 0, 1, 0, 1), (1, 0, 0, 128, 0, 3), (2, 0, 128, 100, 0, 3)], f"other cells: {cells}")
    must([key[4:] for key in keys] == [(1, 24), (0, 0), (2, 328)], f"other frames of keys: {keys}")
    return len(frames)


def golden_frame(folder, name):
    family = "planes" if "planes_" in name else "frames"
    layout = Layout(read(folder, f"layout_{family}.bin"))
    target = read(folder, f"target_{family}.bin")
    image = bytearray(read(folder, f"base_{family}.bin"))
    data = read(folder, name)
    parameters = Parameters(read(folder, "parameters_frames.bin") if family == "frames" else b"")
    if name.startswith("bad_"):
        before = bytes(image)
        try:
            weft_decode.apply(layout, image, data, parameters)
        except Refused as refused:
            must(refused.status == ("base" if name.startswith("bad_base_") else "corrupt"), f"{name}: {refused}")
            must(image == before, f"{name}: refused, and yet something changed")
            return
        must(False, f"{name}: not refused")
    (unit, changes), = weft_decode.apply_all(layout, image, data, parameters)
    must(changes, f"{name}: changes nothing")
    for tensor, first, words in layout.units[unit].parts:
        width = layout.tensors[tensor].dtype.width
        at = layout.tensors[tensor].at + first * width
        must(image[at : at + words * width] == target[at : at + words * width], f"{name}: other elements")


def golden_dtypes(folder):
    """A tensor of each dtype, called as it is."""
    tensors = Layout(read(folder, "layout_dtypes.bin")).tensors
    must([t.dtype.number for t in tensors] == list(DTYPES), "layout_dtypes.bin: other dtypes")
    for tensor in tensors:
        must(tensor.name.decode() == tensor.dtype.name, f"layout_dtypes.bin: {tensor.name} is {tensor.dtype.name}")


def golden_digests(folder):
    makers = {
        "mix": weft_digest.mix64,
        "term": weft_digest.term,
        "tensor": lambda *words: weft_digest.tensor(words),
        "root": lambda *digests: weft_digest.root(digests),
    }
    for line in read(folder, "digest.txt").decode().splitlines():
        if line and not line.startswith("#"):
            given, result = line.split("=")
            kind, *numbers = given.split()
            must(makers[kind](*(int(n, 16) for n in numbers)) == int(result, 16), f"digest.txt: {line}")


# ---- cases


def cases(command):
    """Yields (kind, parts) of what a program writes."""
    with subprocess.Popen(command, stdout=subprocess.PIPE) as program:
        kind, parts = None, {}
        while head := program.stdout.read(16):
            name, length = struct.unpack("<8sQ", head)
            name, data = name.rstrip(b"\0").decode(), program.stdout.read(length)
            if name != "case":
                parts[name] = data
                continue
            if kind:
                yield kind, parts
            kind, parts = data.decode(), {}
        if kind:
            yield kind, parts
    must(program.returncode == 0, f"{command[0]} failed")


def fresh(parts):
    layout, image = Layout(parts["layout"]), bytearray(parts["base"])
    before = weft_digest.of_image(layout, image)
    moved = list(before)
    for unit, changes in weft_decode.apply_all(layout, image, parts["frames"], Parameters(parts["words"])):
        for position, bits in changes:
            tensor, index, at = layout.place(unit, position)
            old = int.from_bytes(parts["base"][at : at + layout.tensors[tensor].dtype.width], "little")
            moved[tensor] = moved[tensor] + weft_digest.term(index, bits) - weft_digest.term(index, old)
    must(image == parts["target"], "a fresh frame gives other elements")
    after = [digest & weft_digest.ALL for digest in moved]
    for name, digests in (("before", before), ("after", after)):
        wanted = struct.unpack(f"<{len(digests) + 1}Q", parts[name])
        must((*digests, weft_digest.root(digests)) == wanted, f"digests {name}")


def judged(parts):
    layout, image = Layout(parts["layout"]), bytearray(parts["base"])
    status, theirs, name = "ok", parts["status"].decode(), parts["frame"].hex()
    try:
        weft_decode.apply(layout, image, parts["frame"], Parameters(parts["words"]))
    except Refused as refused:
        status = refused.status
    # Of several rules that a frame breaks either end may name any.
    must(status == theirs or {status, theirs} == {"corrupt", "base"}, f"{name}: {status}, not {theirs}")
    must(image == parts.get("target", parts["base"]), f"{name}: other elements")


def outcome(act):
    try:
        act()
        return "ok"
    except Refused as refused:
        return str(refused)


def file(parts):
    """Mutated files break several rules more often than not: both ends refuse, or both apply."""
    image, name = bytearray(parts["base"]), parts["file"].hex()
    whole = weft_file.File

    def apply():
        whole(parts["file"]).apply(Layout(parts["layout"]), parts["hash"], image)

    checks = [("status", apply)]
    if "shape" in parts:
        checks.append(("shape", lambda: whole(parts["file"]).tensors()))
    for part, act in checks:
        mine, theirs = outcome(act), parts[part].decode()
        must((mine == "ok") == (theirs == "ok"), f"{name}: {part} {mine}, not {theirs}")
    must(parts["status"] != b"ok" or image == parts["target"], f"{name}: other elements")


def grid(parts):
    made = [(*unit.parts[0][:2], unit.count, unit.dtype.width) for unit in Layout(parts["layout"]).units]
    must(made == list(struct.iter_unpack("<QQII", parts["units"])), "another grid")


def all_cases(command):
    count = 0
    for kind, parts in cases(command):
        try:
            {"fresh": fresh, "judged": judged, "file": file, "grid": grid}[kind](parts)
        except Missing as missing:
            left_out.append(f"a case {kind}: {missing}")
        except Refused as refused:
            must(False, f"a case {kind}: refused, {refused}")
        count += 1
    must(count > 10, f"{command[0]} wrote {count} cases")
    return count


def main(what, *arguments):
    count = golden(*arguments) if what == "golden" else all_cases(arguments)
    print(f"{count} agree")
    if left_out:
        print(f"{len(left_out)} left out: {left_out[0]}")
        sys.exit(77)


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
