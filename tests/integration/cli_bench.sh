#!/usr/bin/env bash
# weft bench codec: on made-up weights and on given ones, every method decoded back; what it counts sums up.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
export TMPDIR=$work
models "$work/m" 2

run made 0 "$WEFT_BIN" bench codec --params 300K --density 0,1.17 --runs 2 --threads 1,2 --json
json made "len(lines) == 2 and lines[0]['changed'] == 0 and 2000 < lines[1]['changed'] < 5000"
json made "[l['level'] for l in lines[1]['levels']] == ['tight', 'fast', 'pairs', 'full']"
json made "all(sum(l['plane_bits'].values()) == 8 * l['bytes'] for l in lines[1]['levels'][:2])"
json made "lines[1]['floor']['bits_per_change'] < lines[1]['levels'][0]['bits_per_change']"
json made "lines[1]['levels'][0]['bytes'] < lines[1]['levels'][1]['bytes'] < lines[1]['levels'][2]['bytes']"
json made "all(m['skipped'] or m['bytes'] > lines[1]['levels'][0]['bytes'] for m in lines[1]['methods'])"
json made "sum(not m['skipped'] for m in lines[1]['methods']) >= 4"
json made "{s['threads'] for s in lines[1]['stages']} == {1, 2} and all(s['ms'] > 0 for s in lines[1]['stages'])"
json made "len(lines[1]['yardsticks']) == 14"

# Weights of several dtypes, in files.
run given 0 "$WEFT_BIN" bench codec "$work/m/v0.safetensors" "$work/m/v1.safetensors" --runs 1
says given "v0.safetensors to v1.safetensors"
says given "diff \+ encode tight"
says given "weights of 16 bits"
run floor 0 "$WEFT_BIN" bench codec "$work/m/v0.safetensors" "$work/m/v1.safetensors" --runs 1 --threads 1 --json
python3 "$support/entropy.py" "$work/m/v0.safetensors" "$work/m/v1.safetensors" >"$work/entropy.out" || fail "no entropies"
python3 - "$work/floor.out" "$work/entropy.out" <<'PYTHON' || fail "the floor is another"
import json, sys
said, found = (json.load(open(path)) for path in sys.argv[1:])
sys.exit(any(abs(found[k] - said["floor"][k]) > 1e-6 for k in found if k != "changed") or found["changed"] != said["changed"])
PYTHON
WEFT_KERNELS=portable run forced 0 "$WEFT_BIN" bench codec --params 100K --density 3 --runs 1 --threads 1 --json
json forced "{s['kernels'] for s in lines[0]['stages']} == {'portable'}"
[ -z "$(find "$work" -maxdepth 1 -name 'weft-bench-*')" ] || fail "folders are left behind"

# ---- wrong use
run nothing 2 "$WEFT_BIN" bench
run other 2 "$WEFT_BIN" bench fabrik
says other "it has codec"
run one 2 "$WEFT_BIN" bench codec "$work/m/v0.safetensors"
says one "two models"
run absent 2 "$WEFT_BIN" bench codec "$work/no" "$work/m/v0.safetensors" --json
json absent "'error' in lines[0]"
run both 2 "$WEFT_BIN" bench codec "$work/m/v0.safetensors" "$work/m/v1.safetensors" --density 1
for list in "" , 1, 1,x 101 -1 1,,2 1,2,3,4,5,6,7,8,9; do
    run density 2 "$WEFT_BIN" bench codec --density "$list"
done
for list in 0 65 1.5 1,2,3,4,5 two; do
    run threads 2 "$WEFT_BIN" bench codec --threads "$list"
done
run runs 2 "$WEFT_BIN" bench codec --runs 0
run many 2 "$WEFT_BIN" bench codec --runs 100
