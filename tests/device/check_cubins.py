#!/usr/bin/env python3
"""Inspects images for NVIDIA devices by cuobjdump and nvdisasm: every kernel is in each, nothing lies on a stack or in
local memory, three blocks fit a multiprocessor, and kernels that read weights do so by 16 bytes.

check_cubins.py LIST CUBIN... [--table]     LIST is backends/kernels/list.h; --table prints one row a kernel"""

import re
import subprocess
import sys
from pathlib import Path

STREAMING = {"diff": 8, "digest": 2}  # kernels that read weights: so many wide loads at least
REGISTERS = 80  # a thread's: three blocks of 256 in 65536
SHARED = 48 << 10


def said(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def resources(cubin):
    """kernel: (registers, stack, shared, local)"""
    pattern = r"Function weft_kernel_(\w+):\s*REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)"
    return {m[1]: tuple(map(int, m.groups()[1:])) for m in re.finditer(pattern, said("cuobjdump", "--dump-resource-usage", cubin))}


def instructions(cubin):
    """kernel: its instructions"""
    code, kernel = {}, None
    for line in said("nvdisasm", "-c", cubin).splitlines():
        if section := re.match(r"\s*\.section\s+\.text\.weft_kernel_(\w+),", line):
            kernel = code.setdefault(section[1], [])
        elif (found := re.search(r"/\*[0-9a-f]{4,}\*/\s+(.*?);", line)) and kernel is not None:
            kernel.append(found[1])
    return code


def wide(code):
    return sum(bool(re.search(r"\bLDG\S*\.128\b", line)) for line in code)


def check(cubin, kernels):
    """What is wrong with an image."""
    uses, code = resources(cubin), instructions(cubin)
    for kernel in kernels:
        if kernel not in uses or not code.get(kernel):
            yield f"{kernel} is missing"
            continue
        registers, stack, shared, local = uses[kernel]
        spilled = sum(bool(re.search(r"\b(LDL|STL)\b", line)) for line in code[kernel])
        if stack or local or spilled:
            yield f"{kernel} keeps {stack} bytes on a stack and {local} in local memory, {spilled} accesses"
        if registers > REGISTERS or shared > SHARED:
            yield f"{kernel} takes {registers} registers and {shared} bytes of shared memory"
        if wide(code[kernel]) < STREAMING.get(kernel, 0):
            yield f"{kernel} has {wide(code[kernel])} wide loads, less than {STREAMING[kernel]}"


def table(cubins, kernels):
    names = [Path(cubin).stem for cubin in cubins]
    uses, code = {c: resources(c) for c in cubins}, {c: instructions(c) for c in cubins}
    print("| kernel | " + " | ".join(f"{name} registers, instructions" for name in names) + " | shared | wide loads |")
    print("|---" * (len(cubins) + 3) + "|")
    for kernel in kernels:
        cells = [f"{uses[c][kernel][0]}, {len(code[c][kernel])}" for c in cubins]
        print(f"| `{kernel}` | " + " | ".join(cells) + f" | {max(uses[c][kernel][2] for c in cubins)} | {wide(code[cubins[-1]][kernel])} |")


def main():
    words = [word for word in sys.argv[1:] if word != "--table"]
    kernels = re.findall(r"ROW\((\w+)\)", Path(words[0]).read_text().split("#define WEFT_KERNELS(ROW)", 1)[1])
    if "--table" in sys.argv:
        table(words[1:], kernels)
        return 0
    wrong = [f"{Path(cubin).name}: {what}" for cubin in words[1:] for what in check(cubin, kernels)]
    print("\n".join(wrong) or f"{len(words) - 1} images of {len(kernels)} kernels: nothing spilled, wide loads where weights are read")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
