#!/usr/bin/env python3
"""Turns the kernels of a PTX image into C++ over ptx_machine.h: every thread of PTX is a lane of tests/emulation.

    ptx_compile.py IMAGE LIST FOLDER [KERNEL...]

LIST is backends/kernels/list.h. FOLDER gets NAME.cpp for each kernel, or for those that are named, and table.cpp. A file
that would stay as it is is not written. Exit: 0, 1 (a word of PTX that is not known, a kernel that is missing)."""
import os
import sys

from ptx_text import Image, Unknown, kernel_names
from ptx_words import KINDS, Words

NOISE = "0xa5a5a5a5a5a5a5a5" # of registers that nothing was put into


def declarations(kernel):
    for kind, prefix, count in kernel.registers:
        names = ", ".join(f"{prefix}{i} = ({KINDS[kind]}){NOISE}" for i in range(count))
        yield f"    [[maybe_unused]] {KINDS[kind]} {names};"


def blocks(kernel):
    """Basic blocks: (labels, instructions)."""
    labels, code = [], []
    for one in kernel.body:
        if isinstance(one, str):
            if code:
                yield labels, code
                labels, code = [], []
            labels.append(one)
            continue
        code.append(one)
        if one.leaves:
            yield labels, code
            labels, code = [], []
    if labels or code:
        yield labels, code


def statements(kernel):
    """C++ lines, and the size of each basic block."""
    words, lines, sizes = Words(kernel), [], []
    for labels, code in blocks(kernel):
        lines += [f"{words.label(name)}:;" for name in labels]
        lines.append(f"    ran[{len(sizes)}]++;")
        sizes.append(len(code))
        for one in code:
            text = words.statement(one)
            lines.append(f"    if ({one.guard}) {{ {text} }}" if one.guard else f"    {text}")
    return lines, sizes


def source(kernel, image):
    if kernel.local_arrays:
        raise Unknown(f"{kernel.name}: arrays in local memory: {kernel.local_arrays}")
    lines, sizes = statements(kernel)
    shared = f"weft_engine::shared({{KERNEL, 0, \"shared\"}}, {kernel.shared_bytes})" if kernel.shared_bytes else "nullptr"
    return "\n".join([
        f"// Made of {image} by tests/isa/ptx_compile.py.",
        '#include "tests/isa/ptx_machine.h"',
        "using namespace weft_ptx;",
        f'static const char KERNEL[] = "{kernel.name}";',
        f"static const uint32_t sizes[] = {{{', '.join(map(str, sizes))}}};",
        "[[maybe_unused]] static void wrong(const char *what, uint64_t value, int line) { fail(KERNEL, what, value, line); }",
        "[[maybe_unused]] static inline void whole(uint64_t mask, uint64_t clamp, int line)",
        "{",
        "    if ((uint32_t)mask != ~0u || clamp != 31)",
        "        wrong(\"lanes left out\", mask, line);",
        "}",
        f"extern weft_ptx::kernel weft_ptx_{kernel.name};",
        "static void run(uint64_t argument)",
        "{",
        "    const weft_engine::self self = weft_engine::current();",
        "    const global_space memory = {KERNEL, self.block};",
        f"    const shared_space shared = {{KERNEL, (unsigned char *){shared}, {kernel.shared_bytes}}};",
        "    uint32_t ran[sizeof sizes / sizeof sizes[0]] = {0};",
        "    (void)memory, (void)shared;",
        *declarations(kernel), *lines,
        "Lend:;",
        f"    weft_ptx_{kernel.name}.end(self, ran);",
        "}",
        f"weft_ptx::kernel weft_ptx_{kernel.name}(KERNEL, run, sizes, sizeof sizes / sizeof sizes[0]);\n"])


def table(names, image):
    return "\n".join([f"// Made of {image} by tests/isa/ptx_compile.py.", '#include "tests/isa/ptx_machine.h"',
                      *(f"extern weft_ptx::kernel weft_ptx_{name};" for name in names),
                      f'const char *const weft_ptx::image = "{image}";',
                      "weft_ptx::kernel *weft_ptx::kernels[] = {",
                      *(f"    &weft_ptx_{name}," for name in names), "};\n"])


def write(path, text):
    if os.path.isfile(path):
        with open(path, encoding="ascii") as file:
            if file.read() == text:
                return
    with open(path, "w", encoding="ascii") as file:
        file.write(text)


def main():
    path, listed, folder, *chosen = sys.argv[1:]
    names, image = kernel_names(listed), os.path.basename(path)
    os.makedirs(folder, exist_ok=True)
    try:
        kernels = Image(path).kernels
        for name in chosen or names:
            write(os.path.join(folder, f"{name}.cpp"), source(kernels[name], image))
    except (Unknown, KeyError) as said:
        sys.exit(f"{image}: {said}")
    write(os.path.join(folder, "table.cpp"), table(names, image))


if __name__ == "__main__":
    main()
