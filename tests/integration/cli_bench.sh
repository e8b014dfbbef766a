#!/usr/bin/env bash
# weft bench codec: on made-up weights and on given ones, each update decoded back.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
export TMPDIR=$work
models "$work/m" 2

run made 0 "$WEFT_BIN" bench codec --params 300K --density 0,1.17 --runs 2 --threads 1,2 --json
json made "len(lines) == 2 and lines[0]['changed'] == 0 and 2000 < lines[1]['changed'] < 5000"
json made "[l['level'] for l in lines[1]['levels']] == ['tight', 'fast', 'pairs', 'full']"
json made "lines[1]['levels'][0]['bytes'] < lines[1]['levels'][1]['bytes'] < lines[1]['levels'][2]['bytes']"
json made "all([s['threads'] for s in l['speeds']] == [1, 2] for l in lines[1]['levels']) and lines[1]['memcpy_gb_s'] > 0"
json made "all(s[k] > 0 for l in lines[1]['levels'] for s in l['speeds'] for k in s)"

# Weights of several dtypes, in files.
run given 0 "$WEFT_BIN" bench codec "$work/m/v0.safetensors" "$work/m/v1.safetensors" --runs 1
says given "v0.safetensors to v1.safetensors"
says given "of memcpy"

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
