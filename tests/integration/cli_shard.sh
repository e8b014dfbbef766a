#!/usr/bin/env bash
# weft shard: slices are what engines and trainers take, joining them gives the same bytes, and what is wrong is refused.
# shellcheck source=tests/support/cli.sh
source "$(dirname "$0")/../support/cli.sh"
tool=$support/shard_models.py
python3 "$tool" make "$work/m" 2 3 || fail "no model"
model=$work/m/model.safetensors

parted() # parted NAME KIND RANKS: parts the folder's model, judges every slice, and joins the slices again
{
    run "$1" 0 "$WEFT_BIN" shard "$work/m" "--$2" "$3" -o "$work/$1" --json
    json "$1" "lines[0]['ranks'] == $3 and len(lines[0]['shares']) == $3"
    python3 "$tool" judge "$model" "$work/$1" "$2" "$3" || fail "$1: slices"
    run "$1.join" 0 "$WEFT_BIN" shard "$work/$1" --join -o "$work/$1.safetensors"
    same "$work/$1.safetensors" "$model"
}
for ranks in 1 2 4 8; do parted "tp$ranks" tp "$ranks"; done
for ranks in 1 2 3 7; do parted "fsdp$ranks" fsdp "$ranks"; done
for ranks in 1 2 8; do parted "experts$ranks" experts "$ranks"; done

# ---- a model of several files comes again file by file
run many 0 "$WEFT_BIN" shard "$work/m.many" --tp 4 --key-heads 2 -o "$work/many/"
says many 'rank 3: [0-9]* tensors'
run many.join 0 "$WEFT_BIN" shard "$work/many" --join -o "$work/again"
diff -r "$work/again" "$work/m.many" || fail "the joined folder differs"

# ---- each share is whole keys of the cuts that come with it, and check says so with the bytes of each slice
for name in tp8 experts2; do
    printf '[peers]\nprovider = loop\n[peer.a]\n' | cat - "$work/$name/cuts.ini" >"$work/site.ini"
    ranks=${name##*[a-z]}
    for ((rank = 0; rank < ranks; rank++)); do
        run check 0 "$WEFT_BIN" check "$work/site.ini" --model "$model" --share "$work/$name/rank-$rank-of-$ranks.json" --json
        json check "lines[0]['shares'][0]['keys'] and lines[0]['shares'][0]['missing_cut'] is None"
        json check "lines[0]['shares'][0]['bytes'] == sum(s['bytes'] for s in lines[0]['shares'][0]['slices'])"
    done
done
printf '[peers]\nprovider = loop\n[peer.a]\n' >"$work/bare.ini"
run bare 0 "$WEFT_BIN" check "$work/bare.ini" --model "$model" --share "$work/tp8/rank-1-of-8.json"
says bare 'no view: the share has a part of key 0, and not all of '
says bare 'self_attn.k_proj.weight: rows 0\+4, columns 0\+24, 192 bytes, a replica'
run no_model 2 "$WEFT_BIN" check "$work/bare.ini" --share "$work/tp8/rank-1-of-8.json"
says no_model '\-\-share needs the model'

# ---- shapes and numbers that do not fit: nothing is written
refused() # refused TEXT ARGUMENTS...
{
    local text=$1
    shift
    run refused 2 "$WEFT_BIN" shard "$@"
    says refused "$text"
    absent "$work/never"
}
refused 'q_proj.weight: dimension 0 has 32, which 5 equal parts do not fit' "$work/m" --tp 5 --key-heads 5 -o "$work/never"
refused '3 ranks do not share 2 key heads evenly' "$work/m" --tp 3 -o "$work/never"
refused '3 equal groups do not fit the 8 experts' "$work/m" --experts 3 -o "$work/never"
refused '0 ranks: need 1 to 4096' "$work/m" --fsdp 0 -o "$work/never"
refused '5000 ranks' "$work/m" --fsdp 5000 -o "$work/never"
refused 'name one of' "$work/m" -o "$work/never"
refused 'name one of' "$work/m" --tp 2 --fsdp 2 -o "$work/never"
refused 'leave other options out' "$work/tp2" --join --tp 2 -o "$work/never"
refused 'cannot be opened' "$work/gone" --tp 2 -o "$work/never"
refused '-o FILE is missing' "$work/m" --tp 2
models "$work/plain" 0
refused 'no tensor has a name that --experts knows' "$work/plain/v0.safetensors" --experts 2 -o "$work/never"
run there 2 "$WEFT_BIN" shard "$work/m" --tp 2 -o "$work/tp2"
says there 'not there yet'

# ---- folders that are wrong: nothing is joined
broken() # broken TEXT COMMAND...: the command breaks a copy of tp4, which is then refused
{
    local text=$1
    shift
    rm -rf "$work/broken" && cp -r "$work/tp4" "$work/broken"
    (cd "$work/broken" && eval "$*") || fail "could not break: $*"
    run broken 2 "$WEFT_BIN" shard "$work/broken" --join -o "$work/never"
    says broken "$text"
    absent "$work/never"
}
broken 'rank-2-of-4.safetensors: cannot be opened' rm rank-2-of-4.safetensors
broken 'rank-2-of-4.json: cannot be opened' rm rank-2-of-4.json
broken 'model.header: cannot be opened' rm model.header
broken 'no rank-R-of-N.json' 'rm ./*.json'
broken 'shares of [48] ranks and of [48]' cp rank-0-of-4.json rank-0-of-8.json
broken 'rank-1-of-4.safetensors.* another shape or dtype' cp "$work/m/model.safetensors" rank-1-of-4.safetensors
broken 'rank-1-of-4.safetensors: .*' truncate -s 100 rank-1-of-4.safetensors
broken 'sources 0 and 1 both contribute' cp rank-0-of-4.json rank-1-of-4.json '&&' \
    cp rank-0-of-4.safetensors rank-1-of-4.safetensors
broken 'no source contributes what begins at model.embed_tokens.weight, 1 rows from 96 of 101' "python3 - <<'PYTHON'
import json
share = json.load(open('rank-3-of-4.json'))
for rule in share['rules']:
    rule['contributes'] = False
json.dump(share, open('rank-3-of-4.json', 'w'))
PYTHON"
broken 'its replica of model.norm.weight has other bits' "python3 - <<'PYTHON'
import json
path = 'rank-1-of-4.safetensors'
data = bytearray(open(path, 'rb').read())
length = int.from_bytes(data[:8], 'little')
data[8 + length + json.loads(data[8:8 + length])['model.norm.weight']['data_offsets'][0]] ^= 1
open(path, 'wb').write(data)
PYTHON"
broken 'no rule has' "sed -i 's/\"tensors\"/\"tensor\"/' rank-1-of-4.json"
broken 'no safetensors file|header' "printf x >model.header"
