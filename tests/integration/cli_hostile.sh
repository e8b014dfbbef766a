#!/usr/bin/env bash
# Strangers at a trainer's port, over TCP: a recorded HELLO that is said again and again knocks out nobody, who only says
# PING gives its name up to the rollout that wants it, nobody makes the trainer dial another host, and those who say
# nothing keep out nobody.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 3
site "$work/site.ini" a b c
sed -i 's/^heartbeat = .*/heartbeat = 5s/; s/^\[session\]/[session]\nio_deadline = 2s/' "$work/site.ini"
listen=$(free_port)
sed "s/127.0.0.1:$port/127.0.0.1:$listen/" "$work/site.ini" >"$work/listener.ini"
hostile() # hostile COMMAND WORDS...
{
    python3 "$support/hostile.py" "$@"
}

mkdir "$work/in"
start trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --follow "$work/in" --json
start listener python3 "$support/hostile.py" record "$listen" "$port" "$work/said"
await said trainer 'listening on'
start a "$weft" rollout "$work/listener.ini" --peer a --model "$work/m/v0.safetensors" --until 3 \
    --save "$work/a.safetensors" --json
await said trainer 'joined: a '
await test -s "$work/said"

publish() # publish N
{
    appear "$1"
    await said a "\"target\":$1,"
}
start replay python3 "$support/hostile.py" replay "$work/said" "$port" 4
sleep 1
publish 1
finish replay 0
says replay 'HELLO of a answers the greeting of another connection'
! grep -q WELCOME "$work/replay.out" || fail "a recorded HELLO joined"
! said trainer 'lost: a' || fail "a recorded HELLO knocked out the peer"

hostile dial "$work/said" "$port" b 198.51.100.9 >"$work/dial.out"
says dial '^REFUSE b wants its data at 198.51.100.9.*\[peer\.b\] address = 198.51.100.9'
hostile dial "$work/said" "$port" b 127.0.0.7 >"$work/near.out" # in the subnet of an own address
says near '^WELCOME'
await said trainer 'lost: b '

start ping python3 "$support/hostile.py" ping "$work/said" "$port" b 200
await said ping joined
start crowd python3 "$support/hostile.py" crowd "$port" 200 100
for name in b c; do
    start $name "$weft" rollout "$work/site.ini" --peer $name --model "$work/m/v0.safetensors" --until 3 \
        --save "$work/$name.safetensors" --json
done
await said trainer 'joined: c '
await said trainer 'lost: b at .*gives way to another of its name'
await said ping 'gave way'
publish 2
publish 3
for name in a b c; do
    finish $name 0
    same "$work/$name.safetensors" "$work/m/v3.safetensors"
done
for name in crowd listener; do
    kill "$(cat "$work/$name.pid")"
    finish $name 143
done
stop trainer
