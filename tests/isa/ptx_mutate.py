#!/usr/bin/env python3
"""Plants bugs in an image's PTX, one at a time, and sees each caught where the cases run on it: what a compiler, or words
of lanes.h, could get wrong.

    ptx_mutate.py IMAGE PROGRAM [WORD...]     those whose names hold one of the words

PROGRAM is isa_ptx, made of IMAGE; it takes the kernel with the bug in place of its own. Exit: 0, 1 (one survived, or is not to be found any more)."""
import os
import re
import resource
import subprocess
import sys
import tempfile
import time

import ptx_compile
from ptx_text import Image, Kernel, Unknown

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
CPU_MOST = 20 # s of a run, which takes one

# name: kernel, what is there (a pattern), which of its places, what is put there
BUGS = {
    "the first barrier of a prefix is left out": ("scan", r"bar\.sync\s+0;", 0, ""),
    "the second barrier of a prefix is left out": ("decode_lists", r"bar\.sync\s+0;", 1, ""),
    "a barrier after the clearing is left out": ("fast_frame", r"bar\.sync\s+0;", 1, ""),
    "a barrier after the table is left out": ("decode_classes", r"bar\.sync\s+0;", 0, ""),
    "a store goes to device memory, not the block's": ("scan", r"st\.shared\.", 0, "st.global."),
    "a load comes from the block's memory": ("apply", r"ld\.global\.b32", 2, "ld.shared.b32"),
    "a load that is generic": ("gather", r"ld\.global\.b32", 0, "ld.b32"),
    "a store that is generic": ("undo", r"st\.global\.", 0, "st."),
    "an atomic that is generic": ("digest", r"atom\.global\.|red\.global\.", 0, "atom."),
    "a wide load off its alignment": ("diff", r"(ld\.global\.cs\.v4\S+\s+\{[^}]*\}, \[%rd\d+)(\+\d+)?\]", 0, r"\1+8]"),
    "an element's load is too wide": ("decode_steps", r"ld\.global\.b16", 0, "ld.global.b64"),
    "lanes are left out of a shuffle": ("digest", r"(shfl\.sync\.idx\.b32[^;]*), -1;", 0, r"\1, 65535;"),
    "lanes are left out of a vote": ("fast_frame", r"(vote\.sync\.ballot\.b32[^;]*), -1;", 0, r"\1, 1;"),
    "a shuffle of halves of warps": ("digest", r"(shfl\.sync\.idx\.b32[^;]*), 31, -1;", 0, r"\1, 15, -1;"),
    "a word that one block stores for all": ("digest", r"atom\.global\.add\.u64\s+%\w+, (\[[^;]*);|red\.global\.add\.u64\s+(\[[^;]*);",
                                            0, r"st.global.b64 \1;"),
    "bits that are stored, not added to others": (
        "fast_frame", r"atom\.global\.or\.b32\s+%\w+, (\[[^;]*);", 0, r"st.global.b32 \1;"),
    "every block does the first one's part": ("load", r"mov\.[ub]32\s+(%r\d+), %ctaid\.x;", 0, r"mov.b32 \1, 0;"),
    "every block of undo does the first one's part": ("undo", r"mov\.[ub]32\s+(%r\d+), %ctaid\.x;", 0, r"mov.b32 \1, 0;"),
    "a shift that drops the sign": ("decode_steps", r"shr\.s32", 0, "shr.u32"),
    "a comparison with signs": ("decode_places", r"setp\.lt\.u32", 0, "setp.gt.u32"),
    "a thread too many": ("store", r"setp\.lt\.u32|setp\.ge\.u32", 0, "setp.le.u32"),
    "a sum without its carry": ("digest", r"add\.s64", 3, "sub.s64"),
    "a product's low half": ("digest", r"mul\.lo\.s64", 0, "mul.lo.s32"),
    "a shared array one word on": ("gather", r"(st\.shared\.b32\s+\[%\w+)(\+\d+)?\]", 0, r"\1+65536]"),
    "a magnitude's length one short": ("decode_magnitudes", r"(add\.s32\s+%r\d+, %r\d+), -1;", 0, r"\1, -2;"),
    "a class of the next exponent": ("class_rank", r"(ld\.shared\.b32\s+%r\d+, \[%rd\d+)\]", 0, r"\1+4]"),
    "a rank of the list before": ("list_make", r"popc\.b32", 0, "clz.b32"),
}


def kernel_texts(path):
    with open(path, encoding="ascii") as file:
        parts = re.split(r"\.visible \.entry weft_kernel_(\w+)\(", file.read())
    return dict(zip(parts[1::2], parts[2::2]))


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (CPU_MOST, CPU_MOST + 5))


def build(kernel, folder):
    """A library with this kernel, which the program takes in place of its own."""
    source, library = os.path.join(folder, "kernel.cpp"), os.path.join(folder, "kernel.so")
    ptx_compile.write(source, ptx_compile.source(kernel, "a planted bug"))
    subprocess.run([os.environ.get("CXX", "c++"), "-std=c++17", "-O1", "-fPIC", "-shared", "-Wl,-Bsymbolic", f"-I{ROOT}",
                    source, "-o", library], check=True)
    return library


def caught(program, kernel, folder):
    """How it was found, or None."""
    try:
        library = build(kernel, folder)
    except Unknown as said:
        return f"not translated: {str(said).rsplit(': ', maxsplit=1)[-1]}"
    done = subprocess.run([program, os.devnull, "full", library], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False, preexec_fn=limit)
    said = [line for line in done.stdout.splitlines() if "info:" not in line]
    return (said[-1] if said else f"ended by {done.returncode}") if done.returncode else None


def plant(program, texts, name, folder):
    of, pattern, which, new = BUGS[name]
    found = list(re.finditer(pattern, texts[of]))
    if len(found) <= which:
        return f"NOT FOUND in {of}: {len(found)} places, not {which + 1}"
    one = found[which]
    text = texts[of][:one.start()] + one.expand(new) + texts[of][one.end():]
    said = caught(program, Kernel(of, text), folder)
    return f"caught: {said}" if said else "SURVIVED"


def main():
    path, program, *words = sys.argv[1:]
    texts, wrong = kernel_texts(path), 0
    with tempfile.TemporaryDirectory() as folder:
        found = caught(program, Image(path).kernels["digest"], folder)
        if found:
            sys.exit(f"ptx_mutate.py: {found}, though nothing is planted")
        for name in BUGS:
            if words and not any(word in name for word in words):
                continue
            start = time.monotonic()
            said = plant(program, texts, name, folder)
            wrong += not said.startswith("caught")
            print(f"{name:48} {said} ({time.monotonic() - start:.0f} s)", flush=True)
    print(f"{wrong} not caught")
    return int(wrong != 0)


if __name__ == "__main__":
    sys.exit(main())
