"""What `weft bench codec` calls floor and entropy, computed again: entropy.py OLD NEW prints JSON; both are safetensors."""
import json
import struct
import sys
from collections import Counter
from math import log2

# dtype: bytes of a coded element, exponent bits, in order of sign and magnitude
KINDS = {"BOOL": (1, 0, 0), "U8": (1, 0, 0), "I8": (1, 0, 0), "F8_E4M3": (1, 4, 1), "F8_E5M2": (1, 5, 1), "F8_E4M3FNUZ": (1, 4, 1), "F8_E5M2FNUZ": (1, 5, 1),
         "I16": (2, 0, 0), "U16": (2, 0, 0), "F16": (2, 5, 1), "BF16": (2, 8, 1), "I32": (4, 0, 0), "U32": (4, 0, 0),
         "F32": (4, 8, 1), "I64": (8, 0, 0), "U64": (8, 0, 0), "F64": (8, 11, 1)}


def tensors(path):
    data = open(path, "rb").read()
    length = struct.unpack("<Q", data[:8])[0]
    for name, tensor in sorted(json.loads(data[8:8 + length]).items()):
        if name != "__metadata__":
            begin, end = tensor["data_offsets"]
            yield tensor["dtype"], data[8 + length + begin:8 + length + end]


def elements(data, width):
    return struct.unpack("<%d%s" % (len(data) // width, {1: "B", 2: "H", 4: "I", 8: "Q"}[width]), data)


def coin(marks, places):
    return sum(n * log2(places / n) for n in (marks, places - marks) if n)


every, changed, steps, down = Counter(), Counter(), Counter(), 0
for (dtype, old), (_, new) in zip(tensors(sys.argv[1]), tensors(sys.argv[2])):
    width, exponent_bits, is_float = KINDS[dtype]
    top = 1 << (8 * width - 1)
    shift = 8 * width - 1 - exponent_bits
    for a, b in zip(elements(old, width), elements(new, width)):
        cell = (width, exponent_bits, a >> shift & ((1 << exponent_bits) - 1))
        every[cell] += 1
        if a != b:
            changed[cell] += 1
            up = sum(s * (x ^ (top - 1) if is_float and x & top else x) for s, x in ((1, b), (-1, a))) % (2 * top)
            down += up >= top
            steps[cell, min(up, 2 * top - up)] += 1
count = sum(changed.values())
sizes = Counter()
for (cell, size), n in steps.items():
    sizes[size] += n
result = {
    "position": sum(coin(changed[cell], n) for cell, n in every.items()) / count,
    "direction": coin(down, count) / count,
    "magnitude": sum(n * log2(changed[cell] / n) for (cell, _), n in steps.items()) / count,
    "position_base_free": coin(count, sum(every.values())) / count,
    "magnitude_base_free": sum(n * log2(count / n) for n in sizes.values()) / count,
    "one_step": sizes[1] / count,
    "changed": count,
}
json.dump(result, sys.stdout)
