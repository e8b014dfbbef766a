#!/usr/bin/env bash
# A standard output that cannot be written is an error of the verbs that work for it, and told; those that serve others
# say so once, serve on and end as if it could.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 2
site "$work/site.ini" a

told() # told NAME: the reason, once, and no interrupt
{
    [ "$(grep -c 'standard output cannot be written' "$work/$1.err")" = 1 ] || fail "$1 did not say once what went wrong"
    said "$1" interrupted && fail "$1 was not interrupted"
}

# shellcheck disable=SC2016
full=(bash -c 'exec "$@" >/dev/full' full)
start trainer "${full[@]}" "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
    --versions "$work"/m/v{1,2}.safetensors
start a "${full[@]}" "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 2 --save "$work/a"
finish a 0
finish trainer 0
told a
told trainer
same "$work/a" "$work/m/v2.safetensors"

run demo 0 "${full[@]}" "$weft" demo --peers 1 --params 100K --updates 3
told demo

run digest 1 "${full[@]}" "$weft" digest "$work/m/v0.safetensors"
told digest
run diff 1 "${full[@]}" "$weft" diff "$work"/m/v{0,1}.safetensors -o "$work/u.weft"
told diff
echo "what cannot be written is told as that"
