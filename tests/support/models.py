"""Writes versions of a small model as safetensors files: models.py DIR COUNT [SEED [ROWS]].

Many dtypes, a scalar, an empty tensor, one of several tiles; the header changes with the version. Changes are bit flips
anywhere, so that NaN payloads, -0 and subnormals come about."""
import json
import os
import random
import sys

directory, count = sys.argv[1], int(sys.argv[2])
seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
rows = int(sys.argv[4]) if len(sys.argv) > 4 else 700
dice = random.Random(seed)

tensors = [
    ("model.embed.weight", "BF16", [rows, 512], 2),
    ("model.layers.0.q.weight", "F16", [64, 65], 2),
    ("model.layers.0.norm.weight", "F32", [257], 4),
    ("model.layers.0.scale", "F32", [], 4),
    ("model.layers.0.none", "BF16", [0, 8], 2),
    ("model.layers.0.wide", "F64", [33], 8),
    ("model.layers.0.fp8", "F8_E4M3", [31, 7], 1),
    ("model.layers.0.steps", "I64", [3], 8),
    ("model.layers.0.table", "U8", [1000], 1),
    ("model.layers.0.mask", "BOOL", [9], 1),
]
# widest first, so that every tensor is aligned to its element
tensors.sort(key=lambda t: -t[3])


def elements(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def header(version):
    table, offset = {"__metadata__": {"format": "pt", "version": "v" * (version + 1)}}, 0
    for name, dtype, shape, width in tensors:
        end = offset + elements(shape) * width
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(table, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


data = bytearray(dice.randbytes(sum(elements(shape) * width for _, _, shape, width in tensors)))
for version in range(count + 1):
    path = os.path.join(directory, f"v{version}.safetensors")
    with open(path, "wb") as file:
        file.write(header(version))
        file.write(data)
    for _ in range(len(data) // 150):
        data[dice.randrange(len(data))] ^= 1 << dice.randrange(8)
