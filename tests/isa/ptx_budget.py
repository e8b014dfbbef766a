#!/usr/bin/env python3
"""Holds what an image's PTX took in the cases (ptx_launch.h) against its budget, and sees that every kernel ran.

    ptx_budget.py COUNTS NAME LIST BUDGET [--counts]

NAME is the image's. --counts: prints instructions a tile, and all, by kernel and
case. Exit: 0, 1."""
import argparse
import sys

import budget
from ptx_text import kernel_names


def read(path):
    """{(kernel, case): [elements, instructions]} and how many launches there were."""
    counts, launches = {}, 0
    with open(path, encoding="ascii") as file:
        for line in file:
            kernel, case, _, elements, instructions = line.split()
            count = counts.setdefault((kernel, case), [0, 0])
            count[0] += int(elements)
            count[1] += int(instructions)
            launches += 1
    return counts, launches


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("counts")
    parser.add_argument("name")
    parser.add_argument("list")
    parser.add_argument("budget")
    parser.add_argument("--counts", dest="print", action="store_true")
    args = parser.parse_args()
    counts, launches = read(args.counts)
    ran = {kernel for kernel, _ in counts}
    wrong = [f"kernel {name} never ran" for name in kernel_names(args.list) if name not in ran]
    wrong += budget.passed(args.name, counts, budget.read(args.budget, True))
    print(f"{args.name}: {launches} launches, {len(ran)} kernels, {sum(count[1] for count in counts.values())} "
          f"warp-instructions, {len(wrong)} wrong")
    for said in wrong:
        print(f"  {said}")
    if args.print:
        for (kernel, case), (elements, instructions) in sorted(counts.items()):
            each = f"{instructions * budget.TILE / elements:9.0f}" if elements else f"{'':9}"
            print(f"  {args.name} {kernel:20} {case:24} {each} {instructions:9}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
