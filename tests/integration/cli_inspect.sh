#!/usr/bin/env bash
# weft inspect: each dtype's classes are told once, in order of the dtypes' first tensors, whatever comes between.
# shellcheck source=tests/support/cli.sh disable=SC2154
source "$(dirname "$0")/../support/cli.sh"

python3 - "$work" <<'PYTHON' || fail "no models"
import json, random, struct, sys
dice, widths = random.Random(1), {"F32": 4, "BF16": 2, "F16": 2, "U8": 1}
order = ["BF16"] * 3 + ["F32"] * 2 + ["BF16"] + ["U8"] * 2 + ["F16"] * 3 + ["F32", "U8", "F16", "BF16"]
order = order[:6] * 20 + order * 20  # blocks; the first of each dtype: BF16, F32, U8, F16
table, at = {}, 0
for number, dtype in enumerate(order):
    bytes_ = 64 * widths[dtype]
    table[f"t{number:04}"] = {"dtype": dtype, "shape": [64], "data_offsets": [at, at + bytes_]}
    at += bytes_
header = json.dumps(table).encode()
header += b" " * (-len(header) % 8)
data = bytearray(dice.randbytes(at))
for step in range(2):
    with open(f"{sys.argv[1]}/v{step}.st", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
    for _ in range(at // 50):
        data[dice.randrange(at)] ^= 1
PYTHON
run diff 0 "$WEFT_BIN" diff "$work/v0.st" "$work/v1.st" -o "$work/u.weft"
run blocks 0 "$WEFT_BIN" inspect "$work/u.weft" --model "$work/v0.st" --json
json blocks "list(lines[0]['classes']) == ['BF16', 'F32', 'U8', 'F16'] and len(lines[0]['tensors']) == 420"
json blocks "sum(t['changed'] for t in lines[0]['tensors']) == lines[0]['changed'] > 0"
run lines 0 "$WEFT_BIN" inspect "$work/u.weft" --model "$work/v0.st"
sed -nE 's/^classes of ([A-Z0-9]+) begin .*/\1/p' "$work/lines.out" >"$work/told"
json blocks "[d for d, c in lines[0]['classes'].items() if c] == open('$work/told').read().split()"
echo "inspect: ok"
