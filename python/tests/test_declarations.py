"""What cffi is told of weft.h is what weft.h says: as text, and as a C compiler lays it out."""

import os
import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import support
import weft_fabric as weft
from weft_fabric import _declarations, _library, _records

HEADER = support.ROOT / "include" / "weft.h"
STRUCTS = re.findall(r"^\} (weft_\w+);", re.sub(r"typedef enum[^;]*;", "", _declarations.DECLARATIONS), re.M)


def compiled():
    """The size of each struct, the place of each field and each number of an enum, by the C compiler."""
    ffi = _library.ffi
    lines = []
    for struct in STRUCTS:
        lines.append(f'printf("{struct} %zu\\n", sizeof({struct}));')
        for field, _ in ffi.typeof(struct).fields:
            lines.append(
                f'printf("{struct}.{field} %zu %zu\\n", offsetof({struct}, {field}), sizeof((({struct} *)0)->{field}));'
            )
    for name in numbers():
        lines.append(f'printf("{name} %lld\\n", (long long){name});')
    code = '#include "weft.h"\n#include <stdio.h>\nint main(void)\n{\n' + "\n".join(lines) + "\nreturn 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "layout.c"
        source.write_text(code)
        subprocess.run(
            [os.environ.get("WEFT_CC", "cc"), "-I", HEADER.parent, source, "-o", source.with_suffix("")], check=True
        )
        return subprocess.run([source.with_suffix("")], check=True, capture_output=True, text=True).stdout.split("\n")[
            :-1
        ]


def numbers():
    return re.findall(r"^(?:#define )?(WEFT_\w+)\b(?! *\()", _declarations.DECLARATIONS, re.M)


def as_cffi_has_it():
    ffi = _library.ffi
    for struct in STRUCTS:
        yield f"{struct} {ffi.sizeof(struct)}"
        for field, facts in ffi.typeof(struct).fields:
            yield f"{struct}.{field} {facts.offset} {ffi.sizeof(facts.type)}"
    for name in numbers():
        yield f"{name} {getattr(_library.lib, name)}"


class Declarations(unittest.TestCase):
    def test_the_file_is_that_of_the_header(self):
        check = [sys.executable, "-B", support.ROOT / "python" / "declare.py", "--check"]
        self.assertEqual(subprocess.run(check).returncode, 0, "run python3 python/declare.py")
        self.assertEqual(weft.__version__, _declarations.VERSION)

    def test_nothing_of_the_header_is_left_out(self):
        text = re.sub(r"/\*.*?\*/", "", HEADER.read_text(), flags=re.S)
        declared = set(re.findall(r"^WEFT_API [^;]*?\b(weft_\w+)\(", text, re.M))
        self.assertEqual(set(_library._functions()), declared)
        self.assertGreater(len(declared), 40)
        self.assertEqual(set(STRUCTS), set(re.findall(r"typedef struct (weft_\w+) \{", text)))
        self.assertEqual({n for n in re.findall(r"^\s+(WEFT_\w+) *=", text, re.M)} - set(numbers()), set())

    def test_structs_are_as_the_compiler_has_them(self):
        self.assertEqual(list(as_cffi_has_it()), compiled())

    def test_records_have_every_field(self):
        pairs = {
            "weft_version": _records.Version, "weft_update_info": _records.Update, "weft_staged_info": _records.Staged,
            "weft_rail_info": _records.Rail, "weft_peer_info": _records.Peer, "weft_stats_info": _records.Stats,
            "weft_event": _records.Event, "weft_apply_info": _records.Applied, "weft_update_header": _records.Header,
            "weft_store_entry": _records.Stored, "weft_store_info": _records.Moved, "weft_store_fault": _records.Fault,
            "weft_device_info": _records.Device, "weft_provider_info": _records.Provider,
        }  # fmt: skip
        for struct, record in pairs.items():
            fields = [name for name, _ in _library.ffi.typeof(struct).fields if name not in ("size", "rail_count")]
            if record is _records.Header:
                fields.append("classes")  # by weft_update_thresholds
            self.assertEqual(list(record._fields), fields, struct)


if __name__ == "__main__":
    support.main()
