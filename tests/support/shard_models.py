"""Models for `weft shard`, and a judge of its slices that knows nothing of weft.

shard_models.py make FOLDER [HEADS] [FILES]     a model with grouped key heads, an odd vocabulary, experts and scalars
shard_models.py step MODEL NEXT SEED            the next version of a model file: one bit of a few bytes in each tensor
shard_models.py judge MODEL FOLDER KIND RANKS [HEADS]   every slice file has the bytes that the kind says"""
import json
import os
import random
import subprocess
import sys

HIDDEN, HEAD, WORDS, EXPERTS = 24, 4, 101, 8
WIDTH = {"BF16": 2, "F32": 4, "F8_E4M3": 1, "I64": 8}


def tensors(heads):
    of = [("model.embed_tokens.weight", "BF16", [WORDS, HIDDEN]), ("lm_head.weight", "BF16", [WORDS, HIDDEN]),
          ("model.norm.weight", "F32", [HIDDEN]), ("model.scale", "F32", []), ("model.steps, [all]", "I64", []),
          ("model.none", "BF16", [0, 8])]
    for layer in range(2):
        at = f"model.layers.{layer}."
        of += [(at + "self_attn.q_proj.weight", "BF16", [8 * HEAD, HIDDEN]),
               (at + "self_attn.q_proj.bias", "F32", [8 * HEAD]),
               (at + "self_attn.k_proj.weight", "BF16", [heads * HEAD, HIDDEN]),
               (at + "self_attn.v_proj.weight", "F8_E4M3", [heads * HEAD, HIDDEN]),
               (at + "self_attn.o_proj.weight", "BF16", [HIDDEN, 8 * HEAD]),
               (at + "input_layernorm.weight", "BF16", [HIDDEN]),
               (at + "conv.weight", "F32", [5, 3, 7])]
        for expert in range(EXPERTS):
            of += [(at + f"mlp.experts.{expert}.gate_proj.weight", "BF16", [16, HIDDEN]),
                   (at + f"mlp.experts.{expert}.down_proj.weight", "BF16", [HIDDEN, 16])]
    return of


def count(shape):
    product = 1
    for size in shape:
        product *= size
    return product


def make(folder, heads, files):
    os.makedirs(folder)
    table, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, dtype, shape in tensors(heads):
        end = offset + count(shape) * WIDTH[dtype]
        table[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(table).encode()
    path = os.path.join(folder, "model.safetensors")
    with open(path, "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + random.Random(7).randbytes(offset))
    if files > 1:
        subprocess.run([sys.executable, os.path.join(os.path.dirname(__file__), "shards.py"), path, folder + ".many",
                        str(files)], check=True)
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump({"num_key_value_heads": heads}, file)


def step(model, following, seed):
    with open(model, "rb") as file:
        data = bytearray(file.read())
    begin, rolls = 8 + int.from_bytes(data[:8], "little"), random.Random(seed)
    for tensor in json.loads(data[8:begin]).values():
        if "data_offsets" not in tensor:
            continue
        first, end = tensor["data_offsets"]
        for _ in range((end - first + 39) // 40):
            data[begin + rolls.randrange(first, end)] ^= 1 << rolls.randrange(8)
    with open(following, "wb") as file:
        file.write(data)


def read(path):
    with open(path, "rb") as file:
        data = file.read()
    length = int.from_bytes(data[:8], "little")
    table = json.loads(data[8:8 + length])
    table.pop("__metadata__", None)
    return {name: (of["dtype"], of["shape"], data[8 + length:][slice(*of["data_offsets"])])
            for name, of in table.items()}


def cut(tensor, dimension, first, end):
    dtype, shape, data = tensor
    inner = count(shape[dimension + 1:]) * WIDTH[dtype]
    step, outer = shape[dimension] * inner, count(shape[:dimension])
    new = shape[:dimension] + [end - first] + shape[dimension + 1:]
    return dtype, new, b"".join(data[o * step + first * inner:o * step + end * inner] for o in range(outer))


def tp(name, tensor, rank, ranks, heads):
    size = tensor[1][0] if tensor[1] else 0
    if any(part in name for part in (".q_proj.", ".gate_proj.", ".up_proj.")):
        return cut(tensor, 0, size * rank // ranks, size * (rank + 1) // ranks)
    if any(part in name for part in (".k_proj.", ".v_proj.")):
        parts = min(ranks, heads)
        rank = rank * parts // ranks
        return cut(tensor, 0, size * rank // parts, size * (rank + 1) // parts)
    if name.endswith((".o_proj.weight", ".down_proj.weight")):
        size = tensor[1][1]
        return cut(tensor, 1, size * rank // ranks, size * (rank + 1) // ranks)
    if name.endswith(("embed_tokens.weight", "lm_head.weight")):
        each = 128 // ranks
        return cut(tensor, 0, min(each * rank, size), min(each * (rank + 1), size))
    return tensor


def fsdp(name, tensor, rank, ranks, heads):
    if not tensor[1]:
        return tensor if rank == 0 else None
    size = tensor[1][0]
    each = -(-size // ranks)
    return cut(tensor, 0, min(each * rank, size), min(each * (rank + 1), size))


def experts(name, tensor, rank, ranks, heads):
    if ".experts." not in name:
        return tensor
    return tensor if int(name.split(".experts.")[1].split(".")[0]) * ranks // EXPERTS == rank else None


def judge(model, folder, kind, ranks, heads):
    whole = read(model)
    for rank in range(ranks):
        found = read(os.path.join(folder, f"rank-{rank}-of-{ranks}.safetensors"))
        for name, tensor in whole.items():
            wanted = globals()[kind](name, tensor, rank, ranks, heads)
            if wanted and count(wanted[1]) == 0 and kind != "experts" and wanted is not tensor:
                wanted = None
            got = found.pop(name, None)
            if got != wanted:
                sys.exit(f"rank {rank}: {name} is {got and got[:2]}, wanted {wanted and wanted[:2]}")
        if found:
            sys.exit(f"rank {rank}: {sorted(found)} too much")


if sys.argv[1] == "make":
    make(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 2, int(sys.argv[4]) if len(sys.argv) > 4 else 1)
elif sys.argv[1] == "step":
    step(sys.argv[2], sys.argv[3], int(sys.argv[4]))
else:
    judge(sys.argv[2], sys.argv[3], sys.argv[4], int(sys.argv[5]), int(sys.argv[6]) if len(sys.argv) > 6 else 2)
