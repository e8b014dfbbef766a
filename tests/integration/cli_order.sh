#!/usr/bin/env bash
# The same tensors in other orders: shards as a hub has them, a trainer's own split, and one file. Every verb matches
# them by name, every output is byte-identical, and what cannot be matched is said.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 3
for v in 0 1 2 3; do
    python3 "$support/shards.py" "$work/m/v$v.safetensors" "$work/hub$v" 3 name
    python3 "$support/shards.py" "$work/m/v$v.safetensors" "$work/own$v" 4 reverse
done

alike() # alike A B: two folders of the same files
{
    diff -r "$1" "$2" || fail "$1 differs from $2"
}

# ---- updates as files
for level in full pairs fast tight; do
    run diff 0 "$weft" diff "$work/hub0" "$work/own1" -o "$work/one.weft" --level $level --threads 2
    run apply_hub 0 "$weft" apply "$work/hub0" "$work/one.weft" -o "$work/out.hub"
    run apply_own 0 "$weft" apply "$work/own0" "$work/one.weft" -o "$work/out.own"
    run apply_file 0 "$weft" apply "$work/m/v0.safetensors" "$work/one.weft" -o "$work/out.file"
    for out in hub own file; do
        alike "$work/out.$out" "$work/own1" # the header goes along
    done
    rm -r "$work"/out.*
done
run same_header 0 "$weft" diff "$work/hub1" "$work/hub1" -o "$work/nothing.weft"
run apply_base 0 "$weft" apply "$work/m/v1.safetensors" "$work/nothing.weft" -o "$work/kept.safetensors"
same "$work/kept.safetensors" "$work/m/v1.safetensors" # without a header the base's order stays
run inspect 0 "$weft" inspect "$work/one.weft" --model "$work/m/v0.safetensors" --json
json inspect "lines[0]['exact']"
run next 0 "$weft" diff "$work/hub1" "$work/hub2" -o "$work/next.weft"
run one 0 "$weft" diff "$work/hub0" "$work/hub1" -o "$work/one.weft"
run merge 0 "$weft" merge "$work/one.weft" "$work/next.weft" -o "$work/both.weft" --base "$work/own0"
run invert 0 "$weft" invert "$work/both.weft" -o "$work/back.weft" --base "$work/m/v0.safetensors"
run forth 0 "$weft" apply "$work/own0" "$work/both.weft" -o "$work/forth"
run back 0 "$weft" apply "$work/forth" "$work/back.weft" -o "$work/returned"
run forth_digest 0 "$weft" digest "$work/forth" --json
run hub_digest 0 "$weft" digest "$work/hub2" --json
json forth_digest "lines[0]['digest'] == '$(sed -E 's/.*"digest":"([0-9a-f]+)".*/\1/' "$work/hub_digest.out")'"

# ---- without names nothing can be matched
run unnamed 0 "$weft" diff "$work/hub0" "$work/hub1" -o "$work/unnamed.weft" --names never
run by_order 0 "$weft" apply "$work/hub0" "$work/unnamed.weft" -o "$work/by_order"
alike "$work/by_order" "$work/hub1"
run no_names 2 "$weft" apply "$work/own0" "$work/unnamed.weft" -o "$work/none" --json
json no_names "lines[0]['error']['status'] == 'layout' and 'cannot be matched without names' in lines[0]['error']['text']"
absent "$work/none"

# ---- other tensors are named
python3 - "$work/m/v1.safetensors" "$work/other.safetensors" <<'PYTHON'
import sys
data = open(sys.argv[1], "rb").read()
open(sys.argv[2], "wb").write(data.replace(b'"model.', b'"modem.'))
PYTHON
run other 2 "$weft" diff "$work/hub0" "$work/other.safetensors" -o "$work/none" --json
json other "lines[0]['error']['status'] == 'layout' and 'other.safetensors: ' in lines[0]['error']['text']"
json other "\"'modem.\" in lines[0]['error']['text'] and 'give both ends the same tensors' in lines[0]['error']['text']"

# ---- a store goes on in its first order, and gives each version back as it was put
run put0 0 "$weft" put "$work/store" "$work/hub0"
run put1 0 "$weft" put "$work/store" "$work/own1"
run put2 0 "$weft" put "$work/store" "$work/m/v2.safetensors"
run get1 0 "$weft" get "$work/store" --version 1 -o "$work/got1"
run get2 0 "$weft" get "$work/store" --version 2 -o "$work/got2"
run get3 0 "$weft" get "$work/store" --version 3 -o "$work/got3.safetensors"
alike "$work/got1" "$work/hub0"
alike "$work/got2" "$work/own1"
same "$work/got3.safetensors" "$work/m/v2.safetensors"
run fsck 0 "$weft" fsck "$work/store"
run stored 0 "$weft" rollout --store "$work/store" --model "$work/own0" --until 3 --save "$work/stored.safetensors"
same "$work/stored.safetensors" "$work/m/v2.safetensors"

# ---- sessions: a trainer of the hub's shards publishes its own splits, to engines of every order
site "$work/site.ini" a b c
start trainer "$weft" trainer "$work/site.ini" --model "$work/hub0" --versions "$work/own1" "$work/m/v2.safetensors" "$work/own3" --json
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/own0" --until 3 --save "$work/a" --json
start b "$weft" rollout "$work/site.ini" --peer b --model "$work/m/v0.safetensors" --until 3 --save "$work/b" --json
start c "$weft" rollout "$work/site.ini" --peer c --empty --until 3 --save "$work/c" --json
for name in a b c trainer; do
    finish "$name" 0
done
for name in a b c; do
    alike "$work/$name" "$work/own3"
done
json a "lines[0]['kind'] == 'update'" # it had the trainer's bits, by digest
last=$(python3 -c "import json, sys; print(json.loads(open(sys.argv[1]).readlines()[-1])['digest'])" "$work/a.out")
json trainer "all(p['digest'] == '$last' for p in lines[-1]['peers'])"

# An engine whose names have no prefix: both ends say so.
python3 - "$work/m/v0.safetensors" "$work/bare.safetensors" <<'PYTHON'
import json, sys
data = open(sys.argv[1], "rb").read()
size = int.from_bytes(data[:8], "little")
table = {name.removeprefix("model."): row for name, row in json.loads(data[8 : 8 + size]).items()}
text = json.dumps(table).encode()
open(sys.argv[2], "wb").write(len(text).to_bytes(8, "little") + text + data[8 + size :])
PYTHON
mkdir "$work/in"
start trainer "$weft" trainer "$work/site.ini" --model "$work/hub0" --follow "$work/in"
run bare 1 "$weft" rollout "$work/site.ini" --peer a --model "$work/bare.safetensors" --json
words="10 names of the trainer have 'model.' in front of those of a, as 'model.[a-z0-9.]*': give both ends the same names"
says bare "$words"
await said trainer "refused: a has another layout: $words"
stop trainer
echo "tensors of every order are matched by name"
