#!/usr/bin/env bash
# A relay that is stopped still lets itself be dialed, since its kernel answers: those behind it notice by its silence,
# and are at the next of their list at once, not after another heartbeat at its open port.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
heartbeat=${WEFT_TEST_HEARTBEAT:-10}
fabric tcp
models "$work/m" 2
site "$work/site.ini" a b c d
printf 'via = a, b\n' >>"$work/site.ini"
sed -i "s/^heartbeat = .*/heartbeat = ${heartbeat}s/; s/^\[peer\.a\]/[peer.a]\nrelay = 127.0.0.1:$(free_port)/; \
    s/^\[peer\.b\]/[peer.b]\nrelay = 127.0.0.1:$(free_port)/; s/^\[peer\.c\]/[peer.c]\nvia = a/" "$work/site.ini"

mkdir "$work/in"
for name in a b c d; do
    start $name "$weft" rollout "$work/site.ini" --peer $name --model "$work/m/v0.safetensors" --until 2 \
        --save "$work/$name.safetensors" --json
done
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --json
for name in c d; do
    await said $name 'joined relay a '
done
await said b 'joined the trainer '
appear 1
for name in a b c d; do
    await said $name '"target":1,'
done

interrupt a STOP
begun=$(date +%s%N)
await said d 'joined relay b '
d_ms=$((($(date +%s%N) - begun) / 1000000))
await said c 'joined the trainer '
c_ms=$((($(date +%s%N) - begun) / 1000000))
echo "heartbeat ${heartbeat}000 ms: d was at relay b after $d_ms ms, c at the trainer after $c_ms ms"
# a second heartbeat at the open port makes it twice as long: half of one is left to a busy machine
[ "$d_ms" -lt $((heartbeat * 1500)) ] || fail "d took $d_ms ms"
[ "$c_ms" -lt $((heartbeat * 1500)) ] || fail "c took $c_ms ms"

appear 2
for name in b c d; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v2.safetensors"
done
interrupt a KILL
finish a 137
stop trainer
