#!/usr/bin/env bash
# Sources as real processes: three trainers that have rows of the model each, an engine of four tensor-parallel ranks,
# and a rollout of the whole model. One source dies, and starts again at the version that it had. Two ranks come through
# the whole model's rollout, which is a relay.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
sharded_models
run begin 0 "$weft" shard "$work/m" --tp 4 -o "$work/begin"
run rows 0 "$weft" shard "$work/m" --fsdp 3 -o "$work/rows"
run wanted 0 "$weft" shard "$last" --tp 4 --key-heads 2 -o "$work/wanted"
site "$work/site.ini" p0 p1 p2 p3 whole
cat "$work/begin/cuts.ini" >>"$work/site.ini"
for r in 0 1 2; do
    printf '[source.%s]\nlisten = 127.0.0.1:%s\nholding = %s/rows/rank-%s-of-3.json\n' $r "$(free_port)" "$work" $r \
        >>"$work/site.ini"
done
relay=$(free_ports 3)
sed -i -e "s/^\[peer.whole\]/&\nrelay = 127.0.0.1:$relay/" -e 's/^\[peer.p[23]\]/&\nvia = whole/' "$work/site.ini"
for model in '' "--model $v0"; do
    # shellcheck disable=SC2086
    run check 0 "$weft" check "$work/site.ini" $model
    says check '^tree: sources$'
    says check "whole, a relay on 127.0.0.1:$relay and the next ports, one for each source"
    says check '^      p2 \(else the sources\)$'
done
grep -q 'sources: 3, which have the model together' "$work/check.out" || fail "check says nothing of the sources"
run check 0 "$weft" check "$work/site.ini" --model "$v0" --json
python3 - "$work/check.out" <<'END' || fail "the sources' bytes are not the model's"
import json, sys
of = json.load(open(sys.argv[1]))
assert [s["source"] for s in of["sources"]] == [0, 1, 2]
assert sum(s["bytes"] for s in of["sources"]) == sum(k["bytes"] for k in of["cells"]["keys"]), of["sources"]
END
printf '{"form": "weft share 1", "rules": [{"tensors": "no.such"}]}' >"$work/rows/nothing.json"
for wrong in 'rank-0-of-3:sources 0 and 2 both' 'nothing:no source contributes' 'absent:No such file'; do
    sed "s#rows/rank-2-of-3#rows/${wrong%%:*}#" "$work/site.ini" >"$work/wrong.ini"
    run wrong 2 "$weft" check "$work/wrong.ini" --model "$v0"
    says wrong "${wrong#*:}"
done
mkdir "$work/got" "$work"/in{0,1,2}
source_of() # source_of R ARGUMENTS...: starts a source that publishes what is put into its folder
{
    local r=$1
    shift
    start "source$r" "$weft" trainer "$work/site.ini" --source "$r" --run 77 --follow "$work/in$r" --json "$@"
}
publish() # publish R V: gives a version to a source
{
    cp "$work/v$2.safetensors" "$work/in$1/.new" && mv "$work/in$1/.new" "$work/in$1/v$2.safetensors"
}
for r in 0 1 2; do
    source_of $r --model "$v0"
done
for rank in 0 1 2 3; do
    from=(--empty)
    [ $((rank % 2)) = 1 ] || from=(--model "$work/begin/rank-$rank-of-4.safetensors")
    start "p$rank" "$weft" rollout "$work/site.ini" --peer "p$rank" --view "$work/begin/rank-$rank-of-4.json" \
        "${from[@]}" --until 4 --save "$work/got/rank-$rank-of-4.safetensors" --json
done
start whole "$weft" rollout "$work/site.ini" --peer whole --empty --until 4 --save "$work/whole.safetensors" --json
holds() # holds NAME V: the rollout has committed version V
{
    grep -q "\"version\": *$2\b" "$work/$1.out"
}
for v in 1 2; do
    for r in 0 1 2; do
        publish $r $v
    done
    for name in p0 p1 p2 p3 whole; do
        await holds $name $v
    done
done
echo "a source dies: the others' version 3 waits for it"
interrupt source1 KILL
finish source1 137
publish 0 3
publish 2 3
await said whole 'source 1 is away'
holds whole 3 && fail "version 3 is held without its source"
rm "$work"/in1/*.safetensors # which would count as newer than the model
source_of 1 --model "$work/v2.safetensors" --first-version 2
publish 1 3
for r in 0 1 2; do
    publish $r 4
done
for name in p0 p1 p2 p3 whole; do
    finish $name 0
done
for r in 0 1 2; do
    said source$r 'joined: p3 .* behind relay whole' || fail "p3 did not come to source $r through the relay"
    says p3 "joined relay whole at .*; source $r has version"
    says whole "joined: p3 behind this relay for source $r, from"
done
for rank in 0 1 2 3; do
    same "$work/got/rank-$rank-of-4.safetensors" "$work/wanted/rank-$rank-of-4.safetensors"
done
for model in "$work/whole.safetensors" "$last"; do
    run digest 0 "$weft" digest "$model" --json
    python3 -c 'import json, sys; print(json.load(sys.stdin)["digest"])' <"$work/digest.out" >>"$work/digests"
done
[ "$(sort -u "$work/digests" | wc -l)" = 1 ] || fail "the whole model has other bits: $(cat "$work/digests")"
for r in 0 1 2; do
    stop source$r
done

echo "what is wrong is refused"
run none 2 "$weft" trainer "$work/site.ini" --model "$v0" --versions "$work/v1.safetensors"
says none 'say which one with --source'
run run 2 "$weft" trainer "$work/site.ini" --model "$v0" --versions "$work/v1.safetensors" --source 1
says run '\--source R goes with --run'
run many 2 "$weft" trainer "$work/site.ini" --model "$v0" --versions "$work/v1.safetensors" --source 3 --run 1
says many 'has 3 sections'
