#!/usr/bin/env bash
# The fabric as a site names it: auto says what it took, IPv6 alone works, a range of ports is kept to, and what does
# not fit together is told once with the mend.
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$(dirname "$0")/../support/cli.sh"
fabric tcp
models "$work/m" 1
site "$work/site.ini" a
trainer=("$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors")
rollout=("$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" --until 1)

# pair NAME OPTIONS...: both ends with these options hold version 1
pair()
{
    local name=$1
    shift
    start "t_$name" "${trainer[@]}" "$@"
    start "r_$name" "${rollout[@]}" --save "$work/$name.safetensors" "$@"
    finish "r_$name" 0
    finish "t_$name" 0
    same "$work/$name.safetensors" "$work/m/v1.safetensors"
}

pair auto --set peer.a.provider=auto --log info
says r_auto 'provider auto: not efa: .*; not verbs: .*; taken tcp \(.* 127\.0\.0\.1\)'

port=$((20000 + $$ % 20000))
pair ports --set "provider.tcp.ports=$port-$((port + 15))"
run refused 2 "${rollout[@]}" --set provider.shm.ports=7000-7001
says refused 'only tcp and tcp-rxm'

# A question that all peers ask of a host is asked once, whatever their address stands for.
printf '[peers]\nprovider = tcp\naddress = near1\n[peer.a]\n[peer.b]\n[peer.c*]\n' >"$work/near.ini"
run near 0 "$weft" check "$work/near.ini" --json
json near "[f['peers'] for f in lines[0]['fabrics'] if f['named'] == 'near1'] == [['a', 'b', 'c*']]"
json near "[f['missing'] for f in lines[0]['fabrics'] if f['named'] == 'near1'] == ['nothing']"
run near_text 0 "$weft" check "$work/near.ini"
says near_text '^  provider tcp on near1 \(.*\) for a, b, c\*: '

# A range of which nothing is free is told at open, by either end.
start holder python3 -c 'import signal, socket
held = socket.create_server(("127.0.0.1", 0))
print(held.getsockname()[1], flush=True)
signal.pause()'
await test -s "$work/holder.out"
held=$(cat "$work/holder.out")
for end in trainer rollout; do
    declare -n command=$end
    run "range_$end" 1 "${command[@]}" --set "provider.tcp.ports=$held-$held" --set session.connect_deadline=10s
    says "range_$end" "every port of $held-$held on 127\.0\.0\.1 is taken; widen \[provider.tcp\] ports"
    [ "$(grep -c 'every port' "$work/range_$end.err")" = 1 ] || fail "range_$end: not told once"
done
interrupt holder TERM
wait "${started[holder]}"
unset 'started[holder]'

# Two trainers on one port.
start first "${trainer[@]}"
await grep -q "listening on" "$work/first.err"
run second 1 "${trainer[@]}"
says second 'another trainer or relay runs there, or choose another port'
interrupt first
wait "${started[first]}"
unset 'started[first]'

# Ends that name different providers: the trainer says which, and what to write.
start other "${trainer[@]}" --set trainer.join_deadline=20s
run mixed 1 "${rollout[@]}" --set peer.a.provider=tcp-rxm --set session.connect_deadline=10s
says mixed 'a comes by provider tcp-rxm, the trainer.s site file names tcp for it; write the same at both ends'
interrupt other
wait "${started[other]}"
unset 'started[other]'

if python3 -c "import socket; s = socket.socket(socket.AF_INET6); s.bind(('::1', 0))" 2>"$work/no_v6"; then
    listen=$(sed -nE 's/^listen *= *127\.0\.0\.1:([0-9]+)$/[::1]:\1/p' "$work/site.ini")
    [ -n "$listen" ] || fail "the site names no port"
    pair v6 --set "trainer.listen=$listen" --set peer.a.address=::1
    start v4 "${trainer[@]}" --set trainer.join_deadline=20s --set trainer.address=::1
    run families 1 "${rollout[@]}" --set peer.a.address=127.0.0.1 --set session.connect_deadline=10s
    says families 'one family'
    interrupt v4
    wait "${started[v4]}"
    unset 'started[v4]'
else
    echo "without IPv6: not tried"
fi
echo "the fabric is what the site names"
