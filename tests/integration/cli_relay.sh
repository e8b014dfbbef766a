#!/usr/bin/env bash
# Relays as real processes over TCP: a chain of two relays and those behind them take one copy, bit for bit; when a relay
# is killed, those behind it go on at the trainer by themselves.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 4
site "$work/site.ini" a b c d
{
    printf 'via = b, a\n'
    printf '[peer.e]\nvia = a\nlast_resort = trainer\n[security]\nmode = open\n' # 127.1 below is no plain loopback
} >>"$work/site.ini"
sed -i "s/^\[peer\.a\]/[peer.a]\nrelay = 127.0.0.1:$(free_port)/; s/^\[peer\.b\]/[peer.b]\nvia = a\nrelay = 127.1:$(free_port)/; \
    s/^\[peer\.c\]/[peer.c]\nvia = a/" "$work/site.ini"

run check 0 "$weft" check "$work/site.ini"
says check 'tree: trainer'
says check '^    a, a relay on 127.0.0.1:[0-9]+ with 256MiB$'
says check '^      b, a relay on .* \(else the trainer\)$'
says check '^        d \(else a or the trainer\)$'
sed 's/^via = b, a/via = d/; s/^\[peer.d\]/[peer.d]\nrelay = 127.0.0.1:9/' "$work/site.ini" >"$work/ring.ini"
run ring 2 "$weft" check "$work/ring.ini"
says ring 'ring.ini:[0-9]+: \[peer.d\] via = d: .*closes a ring at d'

mkdir "$work/in"
for name in a b c d e; do
    until=4
    [ $name = a ] && until=1000
    start $name "$weft" rollout "$work/site.ini" --peer $name --model "$work/m/v0.safetensors" --until $until \
        --save "$work/$name.safetensors" --json
done
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --json
await said trainer 'joined: a '
for name in b c d e; do
    await said trainer "joined: $name "
done

heard() # heard PEER VERSION: the trainer knows that the peer holds it
{
    grep -q "^{\"name\":\"$1\".*\"held\":$2[,}]" "$work/trainer.out"
}
appear 1
for name in a b c d e; do
    await said $name '"target":1,'
done
appear 2
for name in a b c d e; do
    await said $name '"target":2,'
    await heard $name 2
done
interrupt a KILL # with everything behind it
appear 3
for name in b c d e; do
    await said $name '"target":3,'
done
says trainer 'lost: a at version 2'
for name in b c d e; do
    says trainer "lost: $name at version 2: (the relay that it is behind is lost|the connection was closed.*, behind relay)"
done
for name in b c e; do
    says $name 'the trainer is away: (relay a closed the connection|.* at relay a \(peer_lost\)|connection with .*); serving version 2, dialing again'
done
appear 4
for name in d c e b; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v4.safetensors"
done
stop trainer
says trainer 'joined: d .*behind relay (a|b)'
echo "a relay was killed and nobody else noticed for long"
