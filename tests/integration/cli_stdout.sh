#!/usr/bin/env bash
# A standard output that cannot be written ends the long verbs, and that, not an interrupt, is what they say, once.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
weft=$WEFT_BIN
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
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/m"
start a "${full[@]}" "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 9
finish a 1
told a
# without --until it ends in order, which the unwritten lines alone make a failure
start a "${full[@]}" "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors"
finish a 1
told a
interrupt trainer
finish trainer 0

start trainer "${full[@]}" "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
    --versions "$work"/m/v{1,2}.safetensors
start a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 9
finish trainer 1
finish a 1
told trainer

run demo 1 "${full[@]}" "$weft" demo --peers 1 --params 100K --updates 2000
told demo
echo "what cannot be written is told as that"
