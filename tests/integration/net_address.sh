#!/usr/bin/env bash
# A fabric address that is none of the host's, or an interface that is not there, is told by name.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer a
fabric tcp
models "$work/m" 1
net_site "$work/site.ini" a </dev/null
mkdir "$work/in"

rollout() # rollout NAME CODE ADDRESS
{
    run "$1" "$2" nsenter --net=/run/netns/a "$weft" rollout "$work/site.ini" --peer a --model "$work/m/v0.safetensors" \
        --json --set peer.a.address="$3" --until 1 --set session.connect_deadline="${4:-60s}"
}

trainer_at() # trainer_at NAME CODE ADDRESS
{
    run "$1" "$2" nsenter --net=/run/netns/trainer "$weft" trainer "$work/site.ini" --model "$work/m/v0.safetensors" \
        --versions "$work/m/v1.safetensors" --json --set trainer.address="$3" --set trainer.join_deadline=1s \
        --set session.connect_deadline=1s
}

trainer_at foreign_trainer 1 10.77.0.99
says foreign_trainer '10\.77\.0\.99.*not on this host'
trainer_at absent_trainer 1 eth7
says absent_trainer 'eth7.*neither an IP nor an interface'

# An interface that is down, one without an IP, and one that has a link-local address alone.
ip -n trainer link add weft0 type veth peer name weft1
trainer_at down 1 weft0
says down 'weft0. is an interface that is down'
net_in trainer bash -c 'echo 1 >/proc/sys/net/ipv6/conf/weft1/disable_ipv6' 2>"$work/sysctl.err"
ip -n trainer link set weft0 up && ip -n trainer link set weft1 up
if net_in trainer grep -q 1 /proc/sys/net/ipv6/conf/weft1/disable_ipv6 2>"$work/sysctl.err"; then
    trainer_at bare 1 weft1
    says bare 'weft1. is an interface without an IP'
    await net_in trainer grep -q ' weft0$' /proc/net/if_inet6
    trainer_at local 1 weft0
    says local 'weft0. is an interface with a link-local address only'
fi

net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in"
rollout foreign 1 10.77.0.99 1s
says foreign '10\.77\.0\.99.*not on this host.*eth0'
rollout nowhere 1 eth7 1s
says nowhere 'eth7'
# A text that can never be an address is reported at once.
rollout never 2 'no interface'
says never 'no interface'
trainer_at never_trainer 2 much_too_long_for_one
says never_trainer 'much_too_long_for_one'
rollout loopback 2 127.0.0.1
says loopback 'peer\.a\] address = 127\.0\.0\.1 is not reached from 10\.77\.0\.1'
stop trainer

net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --set trainer.address=127.0.0.1
rollout turned 1 10.77.0.11
says turned 'is not reached from .trainer. address = 127\.0\.0\.1'
stop trainer
echo "wrong addresses are told"
