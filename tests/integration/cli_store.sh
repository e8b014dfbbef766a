#!/usr/bin/env bash
# A store by the command: checkpoints in turn become versions, each comes out again byte for byte, and damage is named.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
models "$work/n" 2 # each has a header of its own
mkdir "$work/m"
python3 "$support/shard_models.py" make "$work/s" || fail "no model"
mv "$work/s/model.safetensors" "$work/m/v0.safetensors"
for v in 1 2 3 4 5; do # all have one header, so their updates lead back
    python3 "$support/shard_models.py" step "$work/m/v$((v - 1)).safetensors" "$work/m/v$v.safetensors" $v || fail "no v$v"
done
store=$work/store

for v in 0 1 2 3 4 5; do
    run put 0 "$weft" put "$store" "$work/m/v$v.safetensors" --version $((120 + 2 * v)) --json
    json put "lines[0]['version'] == $((120 + 2 * v)) and len(lines[0]['run']) == 16"
done
run log 0 "$weft" log "$store" --json
json log "[o['version'] for o in lines] == [120, 122, 124, 126, 128, 130] and all(o['reachable'] and not o['damaged'] for o in lines)"
json log "[o['base'] for o in lines] == [None, 120, 122, 124, 126, 128] and len({o['run'] for o in lines}) == 1"
json log "lines[0]['anchor_bytes'] > 0 and all(0 < o['update_bytes'] for o in lines[1:])" # 128 is an anchor too
json log "lines[4]['anchor_bytes'] > 0 and all(o['anchor_bytes'] is None for o in lines[1:4])"
got() # got VERSION MODEL
{
    rm -rf "$work/out"
    run get 0 "$weft" get "$store" --version "$1" -o "$work/out" --json
    same "$work/out" "$2"
}
for v in 0 1 2 3 4 5; do got $((120 + 2 * v)) "$work/m/v$v.safetensors"; done
json get "lines[0]['version'] == 130 and lines[0]['damaged'] == 0"
run_name=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readline())["run"])' "$work/log.out")
got "$run_name/124" "$work/m/v2.safetensors"
digest=$(python3 -c 'import json, sys; print(json.loads(open(sys.argv[1]).readlines()[2])["digest"])' "$work/log.out")
run digest 0 "$weft" digest "$work/m/v2.safetensors"
says digest "^$digest  "
run text 0 "$weft" log "$store"
says text "^$run_name/122 +[0-9a-f]{16}  .* from 120, "
says text '^6 versions, '
run fsck 0 "$weft" fsck "$store"
says fsck '^6 versions, 0 faults$'

echo "the number after the last one comes by itself, and a folder of shards is a model like any other"
python3 "$support/shards.py" "$work/m/v1.safetensors" "$work/many" 3 || fail "no shards"
run next 0 "$weft" put "$work/other" "$work/many"
says next '^[0-9a-f]{16}/1: anchor, '
run next 0 "$weft" put "$work/other" "$work/many"
says next '^[0-9a-f]{16}/2: '
run folder 0 "$weft" get "$work/other" --version 2 -o "$work/folder"
for v in 0 1 2; do
    run header 0 "$weft" put "$work/headers" "$work/n/v$v.safetensors"
    run header 0 "$weft" get "$work/headers" --version $((v + 1)) -o "$work/header"
    same "$work/header" "$work/n/v$v.safetensors"
done
for file in "$work"/many/*; do same "$file" "$work/folder/${file##*/}"; done

echo "damage: named, gone round where an anchor lies behind, and told where nothing leads there any more"
damage() # damage FILE: one bit in the middle
{
    python3 - "$1" <<'PYTHON'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 4
open(sys.argv[1], "wb").write(data)
PYTHON
}
cp -r "$store" "$work/before"
damage "$store/$run_name/$(printf %020d 122)/source-0-of-1.weft"
run fsck 3 "$weft" fsck "$store" --json
json fsck "lines[0]['file'].endswith('/source-0-of-1.weft') and lines[0]['version'] == 122 and lines[-1]['faults'] >= 1"
for v in 1 2 3 4 5; do got $((120 + 2 * v)) "$work/m/v$v.safetensors"; done # 122 by the way back from 128
got 120 "$work/m/v0.safetensors"
rm -rf "$store" && mv "$work/before" "$store"
damage "$store/$run_name/$(printf %020d 130)/source-0-of-1.weft"
run fsck 3 "$weft" fsck "$store"
says fsck "^$run_name/130: the version is lost"
run lost 3 "$weft" get "$store" --version 130 -o "$work/never"
absent "$work/never"
got 128 "$work/m/v4.safetensors"
run after 0 "$weft" put "$store" "$work/m/v3.safetensors"
says after 'version 130 cannot be had .*, so version 131 is written as an anchor'
says after "^$run_name/131: anchor, "
run after 0 "$weft" put "$store" "$work/m/v4.safetensors"
says after "^$run_name/132: .* changed"
got 131 "$work/m/v3.safetensors"
got 132 "$work/m/v4.safetensors"

echo "an update that is lost, or cut short, costs no version that a merge leads to"
for loss in lost cut; do
    for v in 0 1 2 3 4 5 0 1 2; do run put 0 "$weft" put "$work/$loss" "$work/m/v$v.safetensors"; done
    lost=$(echo "$work/$loss"/*/"$(printf %020d 4)/source-0-of-1.weft")
    if [ $loss = lost ]; then rm "$lost"; else truncate -s 100 "$lost"; fi
    for v in 8 9; do
        run get 0 "$weft" get "$work/$loss" --version $v -o "$work/$loss.$v"
        same "$work/$loss.$v" "$work/m/v$((v - 7)).safetensors"
    done
    run saved 0 "$weft" rollout --store "$work/$loss" --empty --until 9 --save "$work/$loss.saved"
    same "$work/$loss.saved" "$work/m/v2.safetensors"
    run fsck 3 "$weft" fsck "$work/$loss"
    run put 0 "$weft" put "$work/$loss" "$work/m/v3.safetensors"
    says put '/10: version 10: .* changed' # no anchor
done
says fsck '/00000000000000000004/source-0-of-1.weft: corrupt: '
run fsck 3 "$weft" fsck "$work/lost"
says fsck '/4: the version is lost: version 5 goes on from it, and no file of it is there'

echo "a run that a link stands for goes on, and is not begun anew where the link leads nowhere"
mv "$store/$run_name" "$work/elsewhere" && ln -s ../elsewhere "$store/$run_name"
run link 0 "$weft" put "$store" "$work/m/v5.safetensors"
says link "^$run_name/133: "
got 133 "$work/m/v5.safetensors"
got 120 "$work/m/v0.safetensors"
mv "$work/elsewhere" "$work/unmounted"
for verb in "log $store" "put $store $work/m/v5.safetensors"; do
    # shellcheck disable=SC2086
    run link 2 "$weft" $verb
    says link "$run_name: the link leads nowhere"
done
rm "$store/$run_name" && mv "$work/unmounted" "$store/$run_name"

echo "a rollout without a trainer: from the last version, from an older one, and following what comes"
rm -rf "$work/live"
run put 0 "$weft" put "$work/live" "$work/m/v0.safetensors" --version 10
run once 0 "$weft" rollout --store "$work/live" --empty --save "$work/once"
same "$work/once" "$work/m/v0.safetensors"
start follower "$weft" rollout --store "$work/live" --model "$work/m/v0.safetensors" --until 13 --save "$work/f.safetensors" --json
start late "$weft" rollout --store "$work/live" --model "$work/n/v0.safetensors" --until 13
start endless "$weft" rollout --store "$work/live" --empty --follow --save "$work/e.safetensors" --json
finish late 2
says late 'version 1.: [0-9]+ tensors differ: the model has .*: give both ends the same tensors'
for v in 1 2 3; do run put 0 "$weft" put "$work/live" "$work/m/v$v.safetensors"; done
finish follower 0
same "$work/f.safetensors" "$work/m/v3.safetensors"
json follower "lines[-1]['target'] == 13 and all(o['anchors'] == 0 for o in lines)"
await said endless '"target":13'
stop endless
same "$work/e.safetensors" "$work/m/v3.safetensors"
run back 0 "$weft" rollout --store "$work/live" --model "$work/m/v3.safetensors" --until 11 --save "$work/b.safetensors" --json
same "$work/b.safetensors" "$work/m/v1.safetensors"
json back "lines[0]['target'] == 11 and lines[0]['anchors'] == 0 and lines[0]['files'] == 2"

echo "old versions go, and so do unfinished files, but for those that somebody writes"
begun=$work/trimmed/$(basename "$(dirname "$(dirname "$(echo "$work"/live/*/*/anchor-0-of-1.weft)")")")/$(printf %020d 10)
leave() # leave NAME...: unfinished files of writers that were killed
{
    for name; do echo half >"$begun/weft-$name.tmp"; done
}
cp -r "$work/live" "$work/trimmed"
run put 0 "$weft" put "$work/trimmed" "$work/m/v4.safetensors" --version 64
leave 00000001 00000002
echo mine >"$begun/weft-1.tmp"
start writer python3 -c 'import fcntl, signal, sys
file = open(sys.argv[1], "w")
fcntl.flock(file, fcntl.LOCK_EX)
print("writes", flush=True)
signal.pause()' "$begun/weft-00000003.tmp"
await said writer writes
run put 0 "$weft" put "$work/trimmed" "$work/m/v5.safetensors"
[ "$(cd "$begun" && echo weft-*)" = "weft-00000003.tmp weft-1.tmp" ] || fail "a writer opened, and left $(ls "$begun")"
leave 00000004
run trim 0 "$weft" trim "$work/trimmed" --keep 1
says trim '^0 versions went \(0 B\), 6 stay ' # all files are young
[ "$(cd "$begun" && echo weft-*)" = "weft-00000003.tmp weft-1.tmp" ] || fail "trim left $(ls "$begun")"
run trim 0 "$weft" trim "$work/trimmed" --keep 1 --grace 0 --json
json trim "(lines[0]['removed'], lines[0]['versions']) == (4, 2) and lines[0]['removed_bytes'] > 0 and lines[0]['bytes'] > 0"
run log 0 "$weft" log "$work/trimmed" --json
json log "[o['version'] for o in lines] == [64, 65] and all(o['reachable'] for o in lines)"
run fsck 0 "$weft" fsck "$work/trimmed"
[ -f "$begun/weft-00000003.tmp" ] || fail "a file that somebody writes was removed"
kill "$(cat "$work/writer.pid")"
run late 2 "$weft" trim "$work/gone"
run late 2 "$weft" trim "$work/trimmed" --keep 0
says late 'keep 1 or more'
rm -r "$work/trimmed"

echo "what is wrong is refused"
refused() # refused TEXT ARGUMENTS...
{
    local text=$1
    shift
    run refused 2 "$weft" "$@"
    says refused "$text"
}
refused 'needs --version N and -o MODEL' get "$store" -o "$work/never"
refused 'cannot be created in .*none: No such file' get "$store" --version 120 -o "$work/none/model"
refused 'no such version; weft log lists them' get "$store" --version 121 -o "$work/never"
refused 'no such version' get "$store" --version 0000000000000001/120 -o "$work/never"
refused 'need a number, or RUN/NUMBER' get "$store" --version v120 -o "$work/never"
refused 'the store ends at version 133; need a later number' put "$store" "$work/m/v0.safetensors" --version 130
refused 'updates of level fast, and tight ones beside them, none of pairs' put "$store" "$work/m/v0.safetensors" --level pairs
refused 'the store has no whole version up to 3$' rollout --store "$store" --empty --until 3
refused 'need a number' put "$store" "$work/m/v0.safetensors" --version 1x
refused 'v0.safetensors: [0-9]+ tensors differ: it has .*, the last version has not' put "$work/other" "$work/n/v0.safetensors"
refused 'leave --peer' rollout --store "$work/live" --peer a --empty
refused 'either --model FILE or --empty' rollout --store "$work/live"
refused 'gone' rollout --store "$work/gone" --empty
refused 'goes with --store alone' rollout "$work/site.ini" --peer a --empty --follow
mkdir -p "$work/empty/some"
refused 'empty: no version of a store is there' log "$work/empty"
refused 'empty: no store is there' fsck "$work/empty"
refused 'empty: no version of a store is there' trim "$work/empty"
refused 'empty: no store is there' copy "$work/empty" "$work/never"
rm -rf "$work/never"
refused 'gone' log "$work/gone"
refused 'gone' fsck "$work/gone"
absent "$work/never"
