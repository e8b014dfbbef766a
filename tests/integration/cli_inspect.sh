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

# ---- names: always there unless not wanted, merged too; UTF-8 as it is where the locale writes it, without what steers
python3 - "$work" <<'PYTHON' || fail "no models"
import json, struct, sys
names = ["model.layers.0.größe.weight", "重み😀", "a\x1b[2Jb\u009b2J\u202eevil", "model.layers.1.größe.weight"]
table = {name: {"dtype": "BF16", "shape": [4000], "data_offsets": [8000 * i, 8000 * i + 8000]} for i, name in enumerate(names)}
header = json.dumps(table).encode()
for step in range(3):
    data = bytearray(8000 * len(names))
    data[16] = step
    with open(f"{sys.argv[1]}/n{step}.st", "wb") as file:
        file.write(struct.pack("<Q", len(header)) + header + data)
PYTHON
run n01 0 "$WEFT_BIN" diff "$work/n0.st" "$work/n1.st" -o "$work/n01.weft" --level fast
run n12 0 "$WEFT_BIN" diff "$work/n1.st" "$work/n2.st" -o "$work/n12.weft" --level fast
run n01_never 0 "$WEFT_BIN" diff "$work/n0.st" "$work/n1.st" -o "$work/n01_never.weft" --level fast --names never
run n12_never 0 "$WEFT_BIN" diff "$work/n1.st" "$work/n2.st" -o "$work/n12_never.weft" --level fast --names=never
run sometimes 2 "$WEFT_BIN" diff "$work/n0.st" "$work/n1.st" -o "$work/no.weft" --names sometimes
says sometimes "^weft: .*--names 'sometimes': always or never$"
run merged 0 "$WEFT_BIN" merge "$work/n01.weft" "$work/n12.weft" -o "$work/n02.weft"
run merged_never 0 "$WEFT_BIN" merge "$work/n01_never.weft" "$work/n12_never.weft" -o "$work/n02_never.weft"
for update in n01 n02; do
    run named 0 "$WEFT_BIN" inspect "$work/$update.weft" --json
    json named "lines[0]['named'] and [t['name'] for t in lines[0]['tensors']][:2] == ['model.layers.0.größe.weight', '重み😀']"
    run nameless 0 "$WEFT_BIN" inspect "$work/${update}_never.weft" --json
    json nameless "not lines[0]['named'] and [t['name'] for t in lines[0]['tensors']] == ['#0', '#1', '#2', '#3']"
    run utf8 0 env LC_ALL=C.UTF-8 "$WEFT_BIN" inspect "$work/$update.weft"
    run ascii 0 env LC_ALL=C "$WEFT_BIN" inspect "$work/$update.weft"
    grep -q '^model.layers.1.größe.weight  *BF16' "$work/utf8.out" || fail "UTF-8 is not shown in its locale"
    grep -q '^重み😀  *BF16' "$work/utf8.out" || fail "UTF-8 is not shown in its locale"
    grep -q '^a?\[2Jb??2J???evil  *BF16' "$work/utf8.out" || fail "what steers the terminal is not cleaned"
    grep -q '^model.layers.1.gr??\(??\)e.weight  *BF16' "$work/ascii.out" || fail "another locale gets UTF-8"
    ! grep -q $'\033\|\302\233\|\342\200\256' "$work/utf8.out" "$work/ascii.out" || fail "the name steers the terminal"
done
echo "inspect: ok"
