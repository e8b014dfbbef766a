"""Made safetensors files, good and damaged, read by the format's own reader and by this library:
safetensors_files.py TABLE FOLDER [FILES [SEED]], with tests/differential/table.c as TABLE.

What the format's reader takes must be taken, with the same tensors and bytes, and be written again byte for byte; what
it refuses must be refused. The exceptions are named below: BEYOND for what no layout has, HARMLESS for what is taken
although the other does not, because it means what it says."""
import json
import os
import random
import re
import struct
import subprocess
import sys
from collections import Counter

import safetensors

table, folder = sys.argv[1:3]
files = int(sys.argv[3]) if len(sys.argv) > 3 else 600
dice = random.Random(int(sys.argv[4]) if len(sys.argv) > 4 else 18)

# words of this library's refusal: it has no such layout
BEYOND = ("no name", "is longer than 511", "zero byte in its name", "at most 16 are supported", "NUL byte in object key",
          "too big integer")
# a zero with a sign, and what nobody reads nested deeper than 128
HARMLESS = re.compile(rb"[\[,:]\s*-0\s*[,\]}]|\[{128}")


def framed(text, data, length=None):
    return struct.pack("<Q", len(text) if length is None else length) + text + data


def reference(raw):
    """{name: (dtype, sizes, bytes)}, or the words of the refusal."""
    try:
        return {n: (t["dtype"], list(t["shape"]), bytes(t["data"])) for n, t in safetensors.deserialize(raw)}
    except safetensors.SafetensorError as error:
        return str(error)


def known_dtypes():
    """All that this version of the package reads, by its own words, with the bits of an element."""
    words = reference(framed(b'{"a":["?",[],[0,0]]}', b""))
    names = re.findall("`([A-Z0-9_]+)`", words.split("expected", 1)[1])
    bits = {}
    for name in names:
        for size in (4, 6, 8, 16, 32, 64, 128):
            if isinstance(reference(framed(b'{"a":["%s",[8],[0,%d]]}' % (name.encode(), size), bytes(size))), dict):
                bits[name] = size
    assert len(names) >= 20 and len(bits) == len(names), words
    return bits


BITS = known_dtypes()


# ---- good files


def name_made():
    letters = "abcdefghijklmnop.0123456789_" + "é中\U0001f600\"\\/\t\u007f\u0085 "
    return "".join(dice.choice(letters) for _ in range(dice.randint(1, 24)))


def shape_made(bits):
    sizes = [dice.choice((0, 1, 1, 2, 3, 5, 8, 33)) for _ in range(dice.choice((0, 1, 1, 2, 2, 3, 4)))]
    count = 1
    for size in sizes:
        count *= size
    return (sizes, count) if count * bits % 8 == 0 else (sizes + [8], count * 8)


def tensors_made():
    """[(name, dtype, sizes, begin, end)] in order of their data."""
    tensors, at, names = [], 0, set()
    for _ in range(dice.choice((0, 1, 1, 2, 3, 5, 8, 13))):
        name, dtype = name_made(), dice.choice(list(BITS))
        sizes, count = shape_made(BITS[dtype])
        if name not in names:
            names.add(name)
            tensors.append([name, dtype, sizes, at, at + count * BITS[dtype] // 8])
            at = tensors[-1][4]
    return tensors


def text_of(value):
    return json.dumps(value, ensure_ascii=dice.random() < 0.5)


def blanks():
    return "".join(dice.choice(" \t\r\n") for _ in range(dice.randint(0, 3))) if dice.random() < 0.2 else ""


def member(tensor):
    name, dtype, sizes, begin, end = tensor
    parts = [("dtype", dtype), ("shape", sizes), ("data_offsets", [begin, end])]
    if dice.random() < 0.1:
        parts.append((dice.choice(("more", "Dtype", "")), dice.choice((1, -2.5, None, [{"a": []}], "x"))))
    dice.shuffle(parts)
    shown = "[%s]" % ",".join(text_of(v) for v in (dtype, sizes, [begin, end])) if dice.random() < 0.05 else \
        "{%s}" % ",".join(f"{blanks()}{text_of(k)}{blanks()}:{blanks()}{text_of(v)}{blanks()}" for k, v in parts)
    return f"{blanks()}{text_of(name)}{blanks()}:{blanks()}{shown}{blanks()}"


def header_made(tensors):
    members = [member(t) for t in tensors]
    dice.shuffle(members)
    if dice.random() < 0.5:
        pairs = {name_made(): name_made() for _ in range(dice.randint(0, 4))}
        members.insert(dice.randint(0, len(members)), f'"__metadata__":{text_of(dice.choice((pairs, pairs, None)))}')
    text = f"{blanks()}{{{blanks()}{','.join(members)}{blanks()}}}".encode()
    return text + b" " * (-len(text) % 8 if dice.random() < 0.4 else dice.choice((0, 0, 1, 3, 7)))


def good():
    tensors = tensors_made()
    return header_made(tensors), dice.randbytes(tensors[-1][4] if tensors else 0)


# ---- damaged ones


def number_changed(text):
    spots = list(re.finditer(rb"\d+", text))
    if not spots:
        return text
    spot = dice.choice(spots)
    other = dice.choice((b"0", b"1", b"-1", b"-0", b"1.0", b"1e3", b"01", b"18446744073709551615", b"9223372036854775808",
                         b"%d" % (int(spot[0]) + 1), b"%d" % (int(spot[0]) * 2), b"null", b"[]", b'"1"'))
    return text[:spot.start()] + other + text[spot.end():]


def bytes_changed(text):
    text = bytearray(text)
    for _ in range(dice.randint(1, 3)):
        at = dice.randrange(len(text) + 1)
        text[at:at + dice.randint(0, 2)] = dice.choice(
            (b"", b"{", b"}", b"[", b"]", b",", b":", b'"', b"\\", b"\0", b"\xff", b"\xc2\x85", b"\\u0000", b"\\ud800",
             b" ", b"\x0c", b"1", b"-", b"e", b"null", bytes([dice.randrange(256)])))
    return bytes(text)


def tensor_changed():
    """A description that is well formed and wrong, or odd and yet right."""
    tensors = tensors_made() or [["a", "U8", [4], 0, 4]]
    end, kind, at = tensors[-1][4], dice.randrange(10), dice.randrange(len(tensors))
    tensor = tensors[at]
    if kind == 0:
        tensor[1] = dice.choice(list(BITS) + ["F8", "bf16", "", "F32 "])
    elif kind == 1:
        tensor[2] = tensor[2] + [dice.choice((0, 1, 2, 1 << 40, 1 << 62))]
    elif kind == 2:
        tensor[3] += dice.choice((-1, 1, 4))
    elif kind == 3:
        tensor[4] += dice.choice((-1, 1, 4))
    elif kind == 4:
        tensors.append(dice.choice(tensors))  # there twice
    elif kind == 5:
        tensors.append(tensor[:2] + [[0], end, end])  # the last of a name counts
    elif kind == 6:
        tensor[0] = dice.choice(("", "a" * 511, "a" * 512, "a\0b", "__metadata__", "\ufeff"))
    elif kind == 7:
        tensor[2] = [1] * dice.choice((13, 16, 17, 20)) + tensor[2]
    elif kind == 8:
        tensors.append(["behind", "F64", [0, 3], end + dice.choice((0, 0, 1)), end])
    else:
        tensor[3], tensor[4] = tensor[4], tensor[3]
    return header_made(tensors) if kind not in (4, 5) else ("{" + ",".join(map(member, tensors)) + "}").encode(), \
        dice.randbytes(end)


def deep():
    depth = dice.choice((10, 100, 200, 3000))
    return b'{"a":{"dtype":"U8","x":%s1%s,"shape":[1],"data_offsets":[0,1]}}' % (b"[" * depth, b"]" * depth), b"1"


def damaged():
    text, data = good()
    kind = dice.randrange(9)
    if kind < 2:
        return framed(number_changed(text), data)
    if kind < 4:
        return framed(bytes_changed(text), data)
    if kind < 6:
        return framed(*tensor_changed())
    raw = framed(text, data)
    if kind == 6:
        return raw[:dice.randrange(len(raw))] if dice.random() < 0.5 else raw + dice.randbytes(dice.randint(1, 9))
    if kind == 7:
        return framed(text, data, dice.choice((0, 1, 2, len(text) - 1, len(text) + 1, 100000001, 1 << 63, (1 << 64) - 8)))
    return framed(*deep()) if dice.random() < 0.2 else framed(dice.choice((b"\xef\xbb\xbf", b"\0", b"[", b" ")) + text, data)


# ---- judgement


def ours(line):
    kind, *words = line.split(" ")
    if kind == "refused":
        return line
    unhex = lambda word: b"" if word == "-" else bytes.fromhex(word)
    return {unhex(n).decode(): (dtype, [] if sizes == "-" else [int(s) for s in sizes.split(",")], unhex(data))
            for n, dtype, sizes, data in zip(*[iter(words)] * 4)}


def differs(raw, theirs, mine):
    if isinstance(theirs, dict) and isinstance(mine, dict):
        return theirs != mine and "other tensors"
    if isinstance(theirs, dict):
        return not any(words in mine for words in BEYOND) and mine
    return isinstance(mine, dict) and not HARMLESS.search(raw) and f"taken, but: {theirs}"


made = [framed(*good()) if number % 2 else damaged() for number in range(files)]
paths = [os.path.join(folder, f"{number}.safetensors") for number in range(files)]
for path, raw in zip(paths, made):
    with open(path, "wb") as file:
        file.write(raw)
said = subprocess.run([table], input="".join(path + "\n" for path in paths), stdout=subprocess.PIPE, encoding="utf-8",
                      errors="replace", check=True).stdout.split("\n")
counts, wrong = Counter(), 0
for path, raw, line in zip(paths, made, said):
    theirs, mine = reference(raw), ours(line)
    why = differs(raw, theirs, mine)
    if not why and isinstance(mine, dict):
        with open(path + ".saved", "rb") as saved:
            why = saved.read() != raw and "written with other bytes"
    counts[("taken" if isinstance(theirs, dict) else "refused") + " / " + ("taken" if isinstance(mine, dict) else "refused")] += 1
    if why:
        wrong += 1
        print(f"{path}: {why}\n  {raw[:300]!r}")
print(f"safetensors {safetensors.__version__} / weft, {len(BITS)} dtypes, {files} files:",
      ", ".join(f"{key}: {counts[key]}" for key in sorted(counts)))
if wrong or len(said) != files + 1 or counts["taken / taken"] < files // 3 or counts["refused / refused"] < files // 5:
    sys.exit(f"{wrong} of {files} files are read differently")
