#!/usr/bin/env python3
"""Reads every image of a build and holds it to what weft promises of its kernels: all of them there, nothing spilled,
shared memory within bounds, the wave size that the code was written for, weights read by wide streaming loads, payloads
that cross the bus by wide stores, and barriers after which a block reads what its other waves wrote.

    check_images.py FOLDER LIST [--streaming KERNEL...] [--copying KERNEL...] [--table]

LIST is backends/kernels/list.h. AMD images are ELF with metadata and are disassembled; of NVIDIA's machine code the notes
beside it are read (stack, registers, shared memory), of PTX the text: no array in local memory, and no access that has to
find out which kind of memory it goes to. Exit: 0, 1, 77 (no image or no disassembler)."""
import argparse
import glob
import os
import re
import struct
import sys

import gcn_image
import ptx_text

SHARED_MOST = 32 * 1024 # two blocks fit a compute unit of AMD, and NVIDIA's 48 KiB are not passed
VECTOR_MOST = 128       # registers of a lane: four waves fit a SIMD of CDNA, two blocks an SM
BLOCK = 256
REACHES = ("ld", "st", "atom", "red") # instructions of PTX that reach memory, and the kinds of it that they may name
SPACES = {"global", "shared", "param"}
STREAM = re.compile(r"global_load_(dwordx4|b128) .*(\bnt\b|glc slc|slc dlc|\bslc\b|th:TH_LOAD_NT)")
COPY = re.compile(r"global_store_(dwordx4|b128) ")
BARRIERS = ("s_barrier", "s_barrier_wait")
INVALIDATES = ("buffer_gl0_inv", "global_inv")
FORBIDDEN = ("flat_", "scratch_", "buffer_load", "buffer_store", "v_accvgpr", "s_swappc", "s_setpc", "s_getpc")


class Findings:
    def __init__(self):
        self.wrong, self.rows = [], []

    def hold(self, where, holds, said):
        if not holds:
            self.wrong.append(f"{where}: {said}")


def stale_barriers(code):
    """Barriers after which memory is read from a cache that may not have what other waves wrote: from gfx10 on a block's
    waves lie in two compute units, each with a cache of its own."""
    waits, stale = None, []
    for one in code:
        if one.name in INVALIDATES:
            waits = None
        elif waits and one.name.startswith(("global_load", "s_cbranch", "s_branch", "s_barrier", "s_endpgm")):
            stale.append(waits.text)
            waits = None
        if one.name in BARRIERS:
            waits = one
    return stale


def inspect_amd(path, kernels, streaming, copying, findings):
    image = gcn_image.Image(path)
    image.disassemble()
    name = image.device
    lanes = 64 if name.startswith("gfx9") else 32
    findings.hold(name, image.bytes[8] == 3, f"code object {image.bytes[8] + 2}, not 5")
    findings.hold(name, image.metadata["amdhsa.target"] == f"amdgcn-amd-amdhsa--{name}", image.metadata["amdhsa.target"])
    findings.hold(name, set(image.kernels) == set(kernels), f"kernels {sorted(image.kernels)}, not {sorted(kernels)}")
    for kernel in image.kernels.values():
        where, has = f"{name} {kernel.name}", kernel.resources
        spilled = has["vgpr_spill_count"] + has["sgpr_spill_count"]
        findings.hold(where, spilled == 0, f"{spilled} registers spilled")
        scratch = has["private_segment_fixed_size"]
        findings.hold(where, scratch == 0 and not has["uses_dynamic_stack"], f"{scratch} bytes of scratch memory")
        findings.hold(where, has["wavefront_size"] == lanes, f"waves of {has['wavefront_size']}")
        findings.hold(where, has["max_flat_workgroup_size"] == BLOCK, f"blocks of {has['max_flat_workgroup_size']}")
        findings.hold(where, has["vgpr_count"] + has.get("agpr_count", 0) <= VECTOR_MOST, f"{has['vgpr_count']} registers")
        shared = has["group_segment_fixed_size"]
        findings.hold(where, shared <= SHARED_MOST, f"{shared} bytes of shared memory")
        code = image.code_of(kernel)
        bad = [one.text for one in code if one.name.startswith(FORBIDDEN)]
        findings.hold(where, not bad, f"{len(bad)} instructions like {bad[:1]}")
        wide = sum(bool(STREAM.search(one.text)) for one in code)
        findings.hold(where, wide > 0 or kernel.name not in streaming, "no wide streaming load")
        findings.hold(where, kernel.name not in copying or any(COPY.search(one.text) for one in code), "no wide store")
        stale = stale_barriers(code) if lanes == 32 else []
        findings.hold(where, not stale, f"{len(stale)} barriers after which a cache is not emptied")
        findings.rows.append((name, kernel.name, has["vgpr_count"], has["sgpr_count"], shared, scratch, wide, len(code)))


def cubin_notes(data):
    """(symbol number, attribute, value) of all notes of NVIDIA's ELF, and the names of symbols and section sizes."""
    at, = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    rows = [struct.unpack_from("<IIQQQQIIQQ", data, at + size * i) for i in range(count)]
    text = lambda start: data[start:data.index(b"\0", start)].decode()
    sections = {text(rows[names][4] + row[0]): row for row in rows}
    table, strings = sections[".symtab"], sections[".strtab"]
    symbols = [text(strings[4] + struct.unpack_from("<I", data, start)[0]) for start in range(table[4], table[4] + table[5], 24)]
    row, notes = sections[".nv.info"], []
    at = row[4]
    while at < row[4] + row[5]:
        form, attribute, value = struct.unpack_from("<BBH", data, at)
        at += 4
        if form == 4: # a value of so many bytes follows
            if value == 8:
                notes.append((*struct.unpack_from("<II", data, at), attribute))
            at += value
    return notes, symbols, {name: row[5] for name, row in sections.items()}


REGISTERS, FRAME = 0x2f, 0x11


def inspect_cubin(path, kernels, findings):
    with open(path, "rb") as file:
        notes, symbols, sizes = cubin_notes(file.read())
    name = os.path.basename(path).split(".")[0]
    found = {section[6:] for section in sizes if section.startswith(".text.")}
    findings.hold(name, found == set(kernels), f"kernels {sorted(found)}, not {sorted(kernels)}")
    for kernel in sorted(found):
        said = {attribute: value for number, value, attribute in notes if symbols[number] == kernel}
        where = f"{name} {kernel}"
        findings.hold(where, REGISTERS in said and FRAME in said, "no notes on registers and stack")
        registers, frame = said.get(REGISTERS, 0), said.get(FRAME, 0)
        shared = sizes.get(f".nv.shared.{kernel}", 0)
        findings.hold(where, frame == 0, f"{frame} bytes of stack")
        findings.hold(where, registers <= VECTOR_MOST, f"{registers} registers")
        findings.hold(where, shared <= SHARED_MOST, f"{shared} bytes of shared memory")
        findings.rows.append((name, kernel, registers, "", shared, frame))


def inspect_ptx(path, kernels, streaming, copying, findings):
    image = ptx_text.Image(path)
    name = os.path.basename(path).split(".")[0]
    findings.hold(name, name != "ptx75" or image.version == "7.5", f"PTX of version {image.version}")
    found = {f"weft_kernel_{kernel}": code for kernel, code in image.kernels.items()}
    findings.hold(name, set(found) == set(kernels), f"kernels {sorted(found)}, not {sorted(kernels)}")
    for kernel, code in found.items():
        where = f"{name} {kernel}"
        findings.hold(where, not code.local_arrays, f"arrays in local memory: {code.local_arrays}")
        findings.hold(where, code.shared_bytes <= SHARED_MOST, f"{code.shared_bytes} bytes of shared memory")
        reaches = [one for one in code.instructions() if one.words[0] in REACHES]
        generic = [one.text for one in reaches if not SPACES.intersection(one.words)]
        findings.hold(where, not generic, f"{len(generic)} generic accesses like {generic[:1]}")
        wide = sum(one.words[:4] == ["ld", "global", "cs", "v4"] for one in reaches)
        findings.hold(where, wide > 0 or kernel not in streaming, "no wide streaming load")
        quads = sum(one.words[:3] == ["ld", "global", "v4"] for one in reaches)
        findings.hold(where, quads > 0 or kernel not in copying, "quads are copied in parts")
        unsure = [one.text for one in reaches if "nc" in one.words]
        findings.hold(where, not unsure, f"{len(unsure)} loads that need not see what the kernel wrote, like {unsure[:1]}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("list")
    parser.add_argument("--streaming", nargs="*", default=[])
    parser.add_argument("--copying", nargs="*", default=[])
    parser.add_argument("--table", action="store_true")
    args = parser.parse_args()
    with open(args.list, encoding="ascii") as file:
        kernels = [f"weft_kernel_{name}" for name in re.findall(r"^    ROW\((\w+)\)", file.read(), re.M)]
    streaming = [f"weft_kernel_{name}" for name in args.streaming]
    copying = [f"weft_kernel_{name}" for name in args.copying]
    paths = sorted(glob.glob(os.path.join(args.folder, "*")))
    if any(path.endswith(".hsaco") for path in paths) and not gcn_image.objdump():
        print("skipped: no llvm-objdump of LLVM 19 or later (Debian: llvm-22)")
        return 77
    findings, count = Findings(), 0
    for path in paths:
        count += path.endswith((".hsaco", ".cubin", ".ptx"))
        if path.endswith(".hsaco"):
            inspect_amd(path, kernels, streaming, copying, findings)
        elif path.endswith(".cubin"):
            inspect_cubin(path, kernels, findings)
        elif path.endswith(".ptx"):
            inspect_ptx(path, kernels, streaming, copying, findings)
    if args.table:
        print("device  kernel  vector-registers  scalar-registers  shared-bytes  scratch-bytes  wide-streaming-loads  instructions")
        for row in findings.rows:
            print(*row)
    print(f"{count} images, {len(findings.rows)} kernels of machine code, {len(findings.wrong)} wrong")
    for said in findings.wrong:
        print(f"  {said}")
    return 77 if count == 0 else int(bool(findings.wrong))


if __name__ == "__main__":
    sys.exit(main())
