#!/usr/bin/env bash
# A trainer with a store is killed, and comes back three versions earlier: its rollouts are led there without a snapshot,
# and each version of both runs comes out of the store byte for byte.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
mkdir "$work/m" "$work/in"
python3 "$support/shard_models.py" make "$work/s" || fail "no model"
mv "$work/s/model.safetensors" "$work/m/v0.safetensors"
for v in 1 2 3 4 5 6 7; do
    python3 "$support/shard_models.py" step "$work/m/v$((v - 1)).safetensors" "$work/m/v$v.safetensors" $v || fail "no v$v"
done
site "$work/site.ini" a b c
store=$work/store

trainer() # trainer NAME MODEL FIRST
{
    start "$1" "$weft" trainer "$work/site.ini" --set "trainer.store=$store" --model "$2" --first-version "$3" \
        --follow "$work/in" --json
}

for name in a b c; do
    start $name "$weft" rollout "$work/site.ini" --peer $name --model "$work/m/v0.safetensors" \
        --save "$work/$name.safetensors" --json
done
trainer first "$work/m/v0.safetensors" 0
for v in 1 2 3 4 5; do
    await said first "\"target\":$((v - 1))|is bound"
    appear $v
    await said first "\"target\":$v"
    for name in a b c; do await said $name "\"target\":$v"; done
done
written() # written VERSION
{
    "$weft" log "$store" --json | grep -q "\"version\":$1,"
}
await written 5
interrupt first KILL
finish first 137
rm "$work"/in/*

for name in a b c; do cp "$work/$name.out" "$work/$name.before"; done
trainer second "$work/m/v2.safetensors" 2
for name in a b c; do await said $name '"base":5,"target":2'; done
appear 6 v3
await said second '"target":3'
appear 7 v4
await said second '"target":4'
await written 4
stop second
for name in a b c; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v7.safetensors"
    tail -n +"$(($(wc -l <"$work/$name.before") + 1))" "$work/$name.out" >"$work/after.out"
    json after "[(o['kind'], o['base'], o['target']) for o in lines[:1]] == [('update', 5, 2)]"
    json after "all(o['kind'] == 'update' for o in lines)"
done
json second "all(p['snapshot_bytes'] == 0 for p in lines[-1]['peers'])"

run log 0 "$weft" log "$store" --json
json log "[o['version'] for o in lines] == [0, 1, 2, 3, 4, 5, 2, 3, 4]"
json log "[o['base'] for o in lines] == [None, 0, 1, 2, 3, 4, 2, 2, 3]"
json log "lines[6]['digest'] == lines[2]['digest'] and lines[6]['run'] > lines[5]['run']"
run fsck 0 "$weft" fsck "$store"
says fsck '^9 versions, 0 faults$'
run_name=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["run"])' "$work/log.out")
for v in 0 1 2 3 4 5; do
    run get 0 "$weft" get "$store" --version "$run_name/$v" -o "$work/out"
    same "$work/out" "$work/m/v$v.safetensors"
    rm "$work/out"
done
run get 0 "$weft" get "$store" --version 4 -o "$work/out"
same "$work/out" "$work/m/v7.safetensors"

echo "rollouts that take the store first need no snapshot, whatever they had"
rm "$work"/in/*
trainer third "$work/m/v7.safetensors" 4
await said third 'is bound'
start late "$weft" rollout "$work/site.ini" --peer a --store "$store" --model "$work/m/v0.safetensors" --until 5 \
    --save "$work/late.safetensors" --json
start empty "$weft" rollout "$work/site.ini" --peer b --store "$store" --empty --until 5 \
    --save "$work/empty.safetensors" --json
start none "$weft" rollout "$work/site.ini" --peer c --store "$work/absent" --empty
finish none 2
await said third 'joined: a .*holds the newest version'
await said third 'joined: b .*holds the newest version'
appear 6 v8
for name in late empty; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v6.safetensors"
    json $name "lines[0]['target'] == 4 and lines[0]['files'] > 0 and [o['kind'] for o in lines[1:]] == ['update']"
done
stop third
json third "all(p['snapshot_bytes'] == 0 for p in lines[-1]['peers'])"
run refused 2 "$weft" rollout "$work/site.ini" --peer a --store "$store" --empty --follow
says refused '--follow goes with --store alone'
