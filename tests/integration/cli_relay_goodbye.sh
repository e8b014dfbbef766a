#!/usr/bin/env bash
# The trainer's goodbye goes through relays: rollouts without --until behind one, and behind two, end in order and save.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 2
site "$work/site.ini" a b c
sed -i "s/^\[peer\.a\]/[peer.a]\nrelay = 127.0.0.1:$(free_port)/; s/^\[peer\.b\]/[peer.b]\nvia = a\nrelay = 127.0.0.1:$(free_port)/; \
    s/^\[peer\.c\]/[peer.c]\nvia = b/" "$work/site.ini"

for name in a b c; do
    start $name "$weft" rollout "$work/site.ini" --peer $name --model "$work/m/v0.safetensors" \
        --save "$work/$name.safetensors" --json
done
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
    --versions "$work/m/v1.safetensors" "$work/m/v2.safetensors" --json
finish trainer 0
says trainer 'joined: c .*behind relay b'
for name in a b c; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v2.safetensors"
    ! grep -q 'is away' "$work/$name.err" || fail "$name took the goodbye for a loss"
done
