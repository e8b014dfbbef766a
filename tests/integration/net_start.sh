#!/usr/bin/env bash
# Links that are not up when an end starts are waited for, with the true reason, and used when they come; what stays away
# ends with exit code 1, and a signal ends the wait in order.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer a
fabric tcp
models "$work/m" 1
net_site "$work/site.ini" a </dev/null

trainer=(trainer --model "$work/m/v0.safetensors" --versions "$work/m/v1.safetensors")
rollout=(rollout --peer a --model "$work/m/v0.safetensors" --until 1 --save "$work/a.safetensors")

both() # both ARGUMENT...: the ends hold version 1; the trainer was started
{
    rm -f "$work/a.safetensors"
    finish a 0
    finish trainer 0
    same "$work/a.safetensors" "$work/m/v1.safetensors"
}

# The trainer's own address, whose interface has no carrier: the address is there, the cable is not.
net_cut trainer
net_start trainer "${trainer[@]}"
await said trainer 'waiting at most .*connect_deadline.*interface eth0, which has 10\.77\.0\.1, has no carrier'
said trainer 'belongs to no port' && fail "the host's own address was called foreign"
net_start a "${rollout[@]}"
sleep 1
net_mend trainer
both

# An interface that is down, at either end: named by its name, and by its IP.
ip -n trainer link set eth0 down
ip -n a link set eth0 down
net_start trainer "${trainer[@]}" --set trainer.address=eth0
net_start a "${rollout[@]}" --set peer.a.address=eth0
await said trainer 'waiting .*\[trainer\] address = eth0.*is an interface that is down'
await said a 'waiting .*eth0.*is an interface that is down'
ip -n trainer link set eth0 up
ip -n a link set eth0 up
both

# An interface, and the address that is listened on, that are not there yet.
net_start trainer "${trainer[@]}" --set trainer.address=weft7
await said trainer 'waiting .*weft7.*neither an IP nor an interface'
ip -n trainer address del 10.77.0.1/24 dev eth0
ip -n trainer link set eth0 down && ip -n trainer link set eth0 name weft7 && ip -n trainer link set weft7 up
await said trainer 'waiting .*weft7.*without an IP|waiting .*weft7.*link-local'
ip -n trainer address add 10.77.0.1/24 dev weft7
# The rollout's wire is out, and with it its route: no provider named.
ip -n a link set eth0 down
net_start a "${rollout[@]}" --set peer.a.provider=auto
await said a 'waiting .*no route to 10\.77\.0\.1'
ip -n a link set eth0 up
both

# It stays away: exit code 1, told once, with the reason.
net_cut a
net_start a "${rollout[@]}" --set session.connect_deadline=2s --set peer.a.address=10.77.0.11 --json
finish a 1
json a "[o['error']['status'] for o in lines] == ['unreachable']"
says a 'not there within 2000 ms .connect_deadline.*has no carrier'
[ "$(grep -c 'waiting at most' "$work/a.err")" = 1 ] || fail "the wait was not told once"
net_mend a

# A signal while links are waited for.
for signal in INT TERM; do
    net_start trainer "${trainer[@]}" --set trainer.address=nosuch0 --json
    await said trainer 'waiting .*nosuch0'
    interrupt trainer "$signal"
    finish trainer 1
    says trainer '^weft: interrupted$'
    json trainer "[o['error']['text'] for o in lines] == ['interrupted']"
done
echo "links that come late are waited for"
