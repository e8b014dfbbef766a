#!/usr/bin/env bash
# A store of three trainers that have rows of the model each: every version comes out whole, each rank of an engine with
# another cut takes its keys alone, and trainers that come back with an older version lead the ranks back by updates.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
weft=$WEFT_BIN store=$work/store
fabric tcp
sharded_models
run begin 0 "$weft" shard "$work/m" --tp 4 -o "$work/begin"
run rows 0 "$weft" shard "$work/m" --fsdp 3 -o "$work/rows"
for v in 2 4; do
    run wanted 0 "$weft" shard "$work/v$v.safetensors" --tp 4 --key-heads 2 -o "$work/wanted$v"
done
site "$work/site.ini" p0 p1 late
cat "$work/begin/cuts.ini" >>"$work/site.ini"
for r in 0 1 2; do
    printf '[source.%s]\nlisten = 127.0.0.1:%s\nholding = %s/rows/rank-%s-of-3.json\n' $r "$(free_port)" "$work" $r \
        >>"$work/site.ini"
done
mkdir "$work"/in{0,1,2}
sources() # sources LIFE RUN MODEL FIRST: starts all three
{
    for r in 0 1 2; do
        rm -f "$work/in$r"/*
        start "$1$r" "$weft" trainer "$work/site.ini" --set "trainer.store=$store" --source $r --run "$2" \
            --follow "$work/in$r" --model "$3" --first-version "$4" --json
    done
}
publish() # publish V [FILE OF THE VERSION]: gives a version to all
{
    for r in 0 1 2; do
        cp "$work/v$1.safetensors" "$work/in$r/.new" && mv "$work/in$r/.new" "$work/in$r/${2:-v$1}.safetensors"
    done
}
written() # written VERSION COUNT: the store has so many versions of that number
{
    [ "$("$weft" log "$store" --json | grep -c "\"version\":$1,")" = "$2" ]
}
since() # since NAME TEXT: the process wrote TEXT after its former life's lines
{
    tail -n +"$(($(wc -l <"$work/$1.before") + 1))" "$work/$1.out" | grep -Eq "$2"
}
sources first 77 "$v0" 0
for rank in 0 1; do
    start "p$rank" "$weft" rollout "$work/site.ini" --peer "p$rank" --view "$work/begin/rank-$rank-of-4.json" --empty \
        --save "$work/p$rank.safetensors" --json
done
for v in 1 2 3 4; do
    for rank in 0 1; do await said "p$rank" "\"version\":$((v - 1))\\b"; done
    publish $v
done
await written 4 1
for rank in 0 1; do await said "p$rank" '"version":4\b'; done

echo "the store first, and the trainers after"
start late "$weft" rollout "$work/site.ini" --peer late --view "$work/begin/rank-3-of-4.json" --empty --store "$store" \
    --save "$work/late.safetensors" --json
await said late "joined source 2"
stop late
same "$work/late.safetensors" "$work/wanted4/rank-3-of-4.safetensors"
json late "lines[0]['files'] > 0 and all(o.get('kind') != 'snapshot' for o in lines)"

echo "without a trainer"
run log 0 "$weft" log "$store" --json
json log "[o['version'] for o in lines] == [0, 1, 2, 3, 4] and all(o['reachable'] and not o['damaged'] for o in lines)"
run fsck 0 "$weft" fsck "$store"
for v in 3 1; do
    run get 0 "$weft" get "$store" --version $v -o "$work/got$v.safetensors"
    for model in "$work/got$v.safetensors" "$work/v$v.safetensors"; do
        run digest 0 "$weft" digest "$model" --json
        python3 -c 'import json, sys; print(json.load(sys.stdin)["digest"])' <"$work/digest.out" >>"$work/digests$v"
    done
    [ "$(sort -u "$work/digests$v" | wc -l)" = 1 ] || fail "version $v has other bits: $(cat "$work/digests$v")"
done
run view 0 "$weft" rollout --store "$store" --view "$work/begin/rank-2-of-4.json" --empty --until 4 \
    --save "$work/view.safetensors" --json
same "$work/view.safetensors" "$work/wanted4/rank-2-of-4.safetensors"
run back 0 "$weft" rollout --store "$store" --view "$work/begin/rank-2-of-4.json" --model "$work/view.safetensors" \
    --until 2 --save "$work/back.safetensors" --json
same "$work/back.safetensors" "$work/wanted2/rank-2-of-4.safetensors"
json back "lines[-1]['anchors'] == 0 and lines[-1]['files'] == 6"
run put 1 "$weft" put "$store" "$v0"
says put 'trainers of several sources write it'
printf '{"form": "weft share 1", "rules": [{"tensors": "*.o_proj.weight", "dimension": 0, "ranges": [[0, 1]]}]}' >"$work/odd.json"
run odd 2 "$weft" rollout --store "$store" --view "$work/odd.json" --empty
says odd 'would part them'

echo "the trainers come back with version 2"
for r in 0 1 2; do
    interrupt first$r KILL
    finish first$r 137
done
for rank in 0 1; do cp "$work/p$rank.out" "$work/p$rank.before"; done
sources second 78 "$work/v2.safetensors" 2
for rank in 0 1; do await since "p$rank" '"version":2\b'; done
publish 4 v3
await written 3 2
for rank in 0 1; do
    await since "p$rank" '"version":3\b'
    stop "p$rank"
    same "$work/p$rank.safetensors" "$work/wanted4/rank-$rank-of-4.safetensors"
    tail -n +"$(($(wc -l <"$work/p$rank.before") + 1))" "$work/p$rank.out" >"$work/after.out"
    json after "(lines[0]['kind'], lines[0]['target']) == ('update', 2) and all(o['kind'] == 'update' for o in lines)"
done
for r in 0 1 2; do
    stop second$r
done
run fsck 0 "$weft" fsck "$store"
