#!/usr/bin/env bash
# Views as real processes: four tensor-parallel ranks take their slices of one trainer, two from slice files, one from
# nothing, one from nothing behind a relay that takes another view, and a fifth rollout takes the whole model.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
sharded_models
run begin 0 "$weft" shard "$work/m" --tp 4 -o "$work/begin"
run wanted 0 "$weft" shard "$last" --tp 4 --key-heads 2 -o "$work/wanted"
share() # share RANK: its share file
{
    echo "$work/begin/rank-$1-of-4.json"
}
site "$work/site.ini" p0 p1 p2 p3 whole
cat "$work/begin/cuts.ini" >>"$work/site.ini"
sed -i "s/^\[peer\.p0\]/[peer.p0]\nrelay = 127.0.0.1:$(free_port)/; s/^\[peer\.p3\]/[peer.p3]\nvia = p0/" "$work/site.ini"

mkdir "$work/got"
taken() # taken RANK ARGUMENTS...: starts the rollout of a rank
{
    local rank=$1
    shift
    start "p$rank" "$weft" rollout "$work/site.ini" --peer "p$rank" --view "$(share "$rank")" "$@" \
        --save "$work/got/rank-$rank-of-4.safetensors" --json
}
taken 0 --model "$work/begin/rank-0-of-4.safetensors" # a relay, which ends after those behind it
taken 1 --empty --until 4
taken 2 --model "$work/begin/rank-2-of-4.safetensors" --until 4
taken 3 --empty --until 4
start whole "$weft" rollout "$work/site.ini" --peer whole --model "$v0" --until 4 --save "$work/whole.safetensors"
start trainer "$weft" trainer "$work/site.ini" --model "$v0" --json --versions "$work"/v{1,2,3,4}.safetensors
for name in p1 p2 p3 whole trainer; do
    finish "$name" 0
done
stop p0
for rank in 0 1 2 3; do
    same "$work/got/rank-$rank-of-4.safetensors" "$work/wanted/rank-$rank-of-4.safetensors"
done
same "$work/whole.safetensors" "$last"
json p0 "all(o['kind'] == 'update' for o in lines) and lines[-1]['target'] == 4"
json p3 "lines[0]['kind'] == 'snapshot' and lines[-1]['elements'] < lines[-1]['dense_bytes']"
json trainer "{p['name']: p['digest'] for p in lines[-1]['peers']}['whole'] == [o for o in lines if 'target' in o][-1]['digest']"
json trainer "len({p['digest'] for p in lines[-1]['peers']}) == 5"
cp "$work"/begin/*.json "$work/begin/model.header" "$work/got/"
run join 0 "$weft" shard "$work/got" --join -o "$work/joined.safetensors"
same "$work/joined.safetensors" "$last"

echo "what is wrong is refused, and says what would be right"
mkdir -p "$work/in"
start trainer2 "$weft" trainer "$work/site.ini" --model "$v0" --follow "$work/in"
await said trainer2 'peers may join'
refused() # refused TEXT ARGUMENTS...
{
    local text=$1
    shift
    run refused 2 "$weft" rollout "$work/site.ini" --peer p1 "$@" --until 1 --save "$work/never"
    says refused "$text"
    absent "$work/never"
}
refused 'rank-0-of-4.safetensors: tensor 0 is .* its share says .* of another shape' --view "$(share 3)" \
    --model "$work/begin/rank-0-of-4.safetensors"
refused 'cannot be opened' --view "$work/gone.json" --empty
printf '{"form": "weft share 1", "rules": [{"tensors": "lm_head.weight", "dimension": 0, "part": 1, "parts": 8, "pad": 64}]}' \
    >"$work/eighth.json"
refused 'a part of key' --view "$work/eighth.json" --empty
sed '/^\[cut/,$d' "$work/site.ini" >"$work/bare.ini"
run bare 2 "$weft" rollout "$work/bare.ini" --peer p1 --view "$(share 1)" --empty
says bare 'a part of key'
stop trainer2
