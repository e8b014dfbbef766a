#!/usr/bin/env python3
"""Writes src/weft_fabric/_declarations.py: what cffi is to know of include/weft.h, from that header alone.

python3 declare.py            writes the file
python3 declare.py --check    ends with 1 if the file is not that of the header
"""

import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
HEADER = HERE.parent / "include" / "weft.h"
TARGET = HERE / "src" / "weft_fabric" / "_declarations.py"

PREAMBLE = '''"""Declarations of weft.h for cffi. Change the header, and run `python3 declare.py`."""

VERSION = "{version}"

DECLARATIONS = """\\
{text}"""
'''


def constants(text):
    """#define lines with a number, as numbers: cffi takes no expressions."""
    for name, value in re.findall(r"^#define (WEFT_\w+)\s+(.+)$", text, re.M):
        value = re.sub(r"(?<=\d)[uUlL]+\b", "", value)
        if re.fullmatch(r"[\d\s()<|+*-]+", value):
            yield name, eval(value)  # digits and operators alone


def declarations(header):
    """The header without comments, lines of the preprocessor, attributes and C++."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    numbers = [f"#define {name} {value}" for name, value in constants(text)]
    text = re.sub(r'#ifdef __cplusplus\n(extern "C" \{|\})\n#endif\n', "", text)
    text = re.sub(r"^#.*$", "", text, flags=re.M).replace("WEFT_API ", "")
    lines = [re.sub(r"\s+", " ", line).strip() for line in re.split(r"(?<=[;{},])\s*\n|\n(?=\})", text)]
    return "\n".join(numbers + [line for line in lines if line]) + "\n"


def version(header):
    parts = [re.search(rf"#define WEFT_VERSION_{part} (\d+)", header).group(1) for part in ("MAJOR", "MINOR", "PATCH")]
    return ".".join(parts)


def module(header):
    return PREAMBLE.format(version=version(header), text=declarations(header))


def main():
    text = module(HEADER.read_text(encoding="utf-8"))
    if sys.argv[1:] == ["--check"]:
        return 0 if TARGET.exists() and TARGET.read_text(encoding="utf-8") == text else 1
    TARGET.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
