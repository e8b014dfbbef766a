#!/usr/bin/env bash
# Several connections a peer over a real fabric, and what the trainer says of how it serves each.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp

run four 0 "$weft" demo --peers 2 --params 1.5M --updates 3 --json --set peers.streams=4
json four "lines[0]['identical'] is True and all(r['streams'] == 4 for r in lines[0]['rollouts'])"
json four "all(r['apply_bytes_s'] > 0 and r['bucket_cost_ms'] > 0 for r in lines[0]['rollouts'])"
# What these small updates take on the wire is nothing beside a busy machine's round trip: then there is no rate yet.
json four "all(r['rate_bytes_s'] is None or r['rate_bytes_s'] > 0 for r in lines[0]['rollouts'])"
json four "all(r['bucket_bound'] in ('model', 'floor', 'ceiling', 'window') or r['rate_bytes_s'] is None for r in lines[0]['rollouts'])"

models "$work/m" 2
site "$work/site.ini" a
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors" \
    "$work/m/v2.safetensors" --json --set peers.streams=3
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 2 \
    --save "$work/a.safetensors" --json --set peers.streams=8
finish a 0
finish trainer 0
cmp "$work/a.safetensors" "$work/m/v2.safetensors" || fail "the bits are not the trainer's"
grep -q '"streams":3' "$work/trainer.out" || fail "the fewer streams of both ends do not count"
