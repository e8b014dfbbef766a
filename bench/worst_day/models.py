"""Safetensors files for the scenarios: one tensor, and versions of it that differ in a share of its bytes."""
import json
import os
import random

BLOCK = 1 << 20


def header(dtype, elements, size):
    text = json.dumps({"w": {"dtype": dtype, "shape": [elements], "data_offsets": [0, size]}}).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def blocks(count, changed, seed=1):
    """Blocks of BLOCK bytes: each is one block with places of its own changed, so that any two differ equally."""
    dice = random.Random(seed)
    common = dice.randbytes(BLOCK)
    for _ in range(count):
        block = bytearray(common)
        for place in dice.sample(range(BLOCK), int(changed / 2 * BLOCK)):
            block[place] ^= 1 << dice.randrange(8)
        yield bytes(block)


def write(folder, mib=8, count=8, dtype="BF16", changed=0.01):
    """Writes v0.safetensors and so on, each a block repeated, and gives their paths."""
    paths = []
    for version, block in enumerate(blocks(count, changed)):
        paths.append(os.path.join(folder, f"v{version}.safetensors"))
        with open(paths[-1], "wb") as file:
            file.write(header(dtype, mib * BLOCK // (2 if dtype == "BF16" else 1), mib * BLOCK))
            for _ in range(mib):
                file.write(block)
    return paths


def sparse(path, elements):
    """The header of a BF16 model and a hole in place of its weights."""
    with open(path, "wb") as file:
        file.write(header("BF16", elements, 2 * elements))
        file.truncate(file.tell() + 2 * elements)
    return path
