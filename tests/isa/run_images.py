#!/usr/bin/env python3
"""Runs the machine code of AMD devices on recorded launches (record.h): it has to leave the memory that the emulation
left, which the tests of the emulation hold against the host's backend.

    run_images.py LAUNCHES IMAGE... [--seed N] [--budget FILE] [--full] [--case TEXT] [--counts]

--budget: kernels may take so many vector instructions of waves a tile of 8192 elements in a case (see budget.txt); --full:
in those of the long form too.
--case: only those whose names have the text, for a look at them.
--counts: all and vector instructions a tile, and all, by kernel and case.
Exit: 0, 1 (a difference, an unknown instruction, a budget that is passed), 77 (no disassembler)."""
import argparse
import random
import sys
import time

import budget
import gcn_image
from gcn_compile import Unknown
from gcn_memory import PAGE, ZEROS, Fault, Memory, Region
from gcn_run import Program, launch


class Launch:
    """One launch of a file. `known` are the pages of each region, by its number, as the launch before left them; regions
    are (address, bytes, pages before, pages that the kernel changed)."""

    def __init__(self, file, known):
        line = file.readline().decode().split()
        self.kernel = line[1] if line else None
        if not line:
            return
        self.blocks, self.argument, self.elements = (int(x) for x in line[2:5])
        self.case, rows = line[5], []
        for _ in range(int(line[6])):
            number, address, size, count = (int(x) for x in file.readline().decode().split()[1:])
            before = dict(known.get(number, {}))
            before.update(self.pages(file, size, count))
            rows.append((number, address, size, before))
        known.clear()
        self.regions = []
        for number, address, size, before in rows:
            after = self.pages(file, size, int(file.readline().decode().split()[1]))
            known[number] = {**before, **after}
            self.regions.append((address, size, before, after))

    @staticmethod
    def pages(file, size, count):
        found = {}
        for _ in range(count):
            index = int.from_bytes(file.read(4), "little")
            found[index] = file.read(min(PAGE, size - index * PAGE)).ljust(PAGE, b"\0")
        return found


def launches(path):
    known = {}
    with open(path, "rb") as file:
        while True:
            one = Launch(file, known)
            if not one.kernel:
                return
            yield one


def difference(one, regions):
    """Where memory is not what it should be, or None."""
    for (address, size, before, after), region in zip(one.regions, regions):
        for index in sorted(after.keys() | region.pages.keys()):
            wanted = after.get(index) or before.get(index, ZEROS)
            found = region.pages.get(index) or before.get(index, ZEROS)
            if found == wanted:
                continue
            at = next(i for i in range(PAGE) if found[i] != wanted[i])
            word = at // 4 * 4
            return (f"byte {index * PAGE + at} of {size} at {address:#x}: {found[word:word + 16].hex(' ', 4)}, "
                    f"should be {wanted[word:word + 16].hex(' ', 4)}")
    return None


class Run:
    """The launches on one image; counts[kernel, case] are blocks, elements, instructions of waves, vector ones of them."""

    def __init__(self, path, seed):
        self.image = gcn_image.Image(path)
        self.image.disassemble()
        self.programs, self.counts, self.wrong, self.rng = {}, {}, [], random.Random(seed)
        for name in self.image.kernels:
            try:
                self.programs[name] = Program(self.image, name)
            except Unknown as said:
                self.wrong.append(str(said))

    def take(self, one):
        program = self.programs.get(f"weft_kernel_{one.kernel}")
        if not program:
            self.wrong.append(f"{one.case}: no kernel {one.kernel} to run")
            return
        regions = [Region(address, size, before) for address, size, before, _ in one.regions]
        before = program.ran(), program.ran(("v_",))
        try:
            launch(program, Memory(regions), one.blocks, one.argument, self.rng)
            said = difference(one, regions)
        except Fault as fault:
            said = str(fault)
        if said:
            self.wrong.append(f"{one.case}: {one.kernel}, {one.blocks} blocks: {said}")
        count = self.counts.setdefault((one.kernel, one.case), [0, 0, 0, 0])
        count[0] += one.blocks
        count[1] += one.elements
        count[2] += program.ran() - before[0]
        count[3] += program.ran(("v_",)) - before[1]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("launches")
    parser.add_argument("images", nargs="+")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--budget")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--case", default="")
    parser.add_argument("--counts", action="store_true")
    args = parser.parse_args()
    if not gcn_image.objdump():
        print("skipped: no llvm-objdump of LLVM 19 or later (Debian: llvm-22)")
        return 77
    allowed, broken = budget.read(args.budget, args.full) if args.budget else {}, 0
    for path in args.images:
        start = time.monotonic()
        run = Run(path, args.seed)
        number = 0
        for one in launches(args.launches):
            if args.case in one.case:
                run.take(one)
                number += 1
        taken = {key: (elements, vector) for key, (_, elements, _, vector) in run.counts.items()}
        run.wrong += budget.passed(run.image.device, taken, allowed)
        broken |= bool(run.wrong) or number == 0
        ran = sum(count[2] for count in run.counts.values())
        print(f"{run.image.device}: {number} launches, {len(run.programs)} kernels, {ran} wave-instructions, "
              f"{len(run.wrong)} wrong, {time.monotonic() - start:.1f} s")
        for said in run.wrong[:20]:
            print(f"  {said}")
        if args.counts:
            for (kernel, case), (blocks, elements, ran, vector) in sorted(run.counts.items()):
                each = f"{ran * budget.TILE / elements:9.0f} {vector * budget.TILE / elements:9.0f}" if elements else f"{'':19}"
                print(f"  {run.image.device} {kernel:20} {case:24} {blocks:5} {each} {ran:9}")
    return int(broken)


if __name__ == "__main__":
    sys.exit(main())
