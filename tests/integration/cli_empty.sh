#!/usr/bin/env bash
# A rollout that has nothing takes layout and weights from the trainer, before and in the middle of a run.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 3
site "$work/site.ini" early late
mkdir "$work/in"
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --json
start early "$weft" rollout "$work/site.ini" --peer early --empty --until 3 --save "$work/early.safetensors" --json
await said early '"target":0'
appear 1
appear 2
await said early '"target":2'
start late "$weft" rollout "$work/site.ini" --peer late --empty --until 3 --save "$work/late.safetensors" --json \
    --set commit.snapshot=staged
await said late '"target":2'
appear 3
finish early 0
finish late 0
stop trainer
json early "lines[0]['kind'] == 'snapshot' and lines[-1]['kind'] == 'update'"
json late "lines[0]['kind'] == 'snapshot' and lines[0]['target'] == 2 and lines[-1]['target'] == 3"
same "$work/early.safetensors" "$work/m/v3.safetensors"
same "$work/late.safetensors" "$work/m/v3.safetensors"

# A snapshot that breaks off is told once, and the rollout waits for the trainer.
site "$work/slow.ini" slow
printf 'rate_limit = 1Mbit/s\n' >>"$work/slow.ini"
start trainer "$weft" trainer "$work/slow.ini" --model "$work/m/v0.safetensors" --follow "$work/in"
start slow "$weft" rollout "$work/slow.ini" --peer slow --empty
await said slow 'offers a snapshot'
await said trainer 'joined: slow '
sleep 1 # it accepts at once; the whole of it takes six
interrupt trainer KILL
finish trainer 137
await said slow 'broke off'
stop slow
[ "$(grep -c 'the snapshot broke off' "$work/slow.err")" = 1 ] || fail "a snapshot that broke off was not told once"
echo "empty rollouts hold the trainer's bits and header"
