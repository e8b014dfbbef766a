"""Splits a safetensors file into a sharded model: shards.py FILE FOLDER FILES [ORDER].

Tensors keep their order; ORDER "name" sorts them by name instead, as many writers do, and "reverse" turns them round.
The index names them in reverse, so that nobody leans on its order."""
import json
import os
import sys

source, folder, files = sys.argv[1], sys.argv[2], int(sys.argv[3])
with open(source, "rb") as file:
    data = file.read()
length = int.from_bytes(data[:8], "little")
header, data = json.loads(data[8 : 8 + length]), data[8 + length :]
metadata = header.pop("__metadata__", None)
order = sys.argv[4] if len(sys.argv) > 4 else ""
names = sorted(header, key=None if order == "name" else lambda name: header[name]["data_offsets"])
names = names[::-1] if order == "reverse" else names
os.makedirs(folder)
where = {}
for number in range(files):
    part = names[number * len(names) // files : (number + 1) * len(names) // files]
    table, blob = {"__metadata__": metadata} if metadata else {}, b""
    shard = f"model-{number + 1:05}-of-{files:05}.safetensors"
    for name in part:
        begin, end = header[name]["data_offsets"]
        table[name] = dict(header[name], data_offsets=[len(blob), len(blob) + end - begin])
        blob += data[begin:end]
        where[name] = shard
    text = json.dumps(table).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(folder, shard), "wb") as file:
        file.write(len(text).to_bytes(8, "little") + text + blob)
with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
    json.dump({"metadata": {"total_size": len(data)}, "weight_map": dict(reversed(where.items()))}, file, indent=2)
