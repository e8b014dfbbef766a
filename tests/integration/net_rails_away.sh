#!/usr/bin/env bash
# The first of a trainer's two addresses is an interface that is down when the trainer opens, with a named provider and
# with auto: a peer comes by the second, uses the first too once that is up, and one that comes when the first is down
# again comes by the second.
# shellcheck source=tests/net/net.sh
. "$(dirname "$0")/../net/net.sh"
# shellcheck source=tests/support/cli.sh disable=SC2154
. "$support_folder/cli.sh"
net_open
net_peer a
net_rail a 1
net_rail a 2
fabric tcp
models "$work/m" 4 1
net_site "$work/site.ini" a <<'SITE'
level = pairs
address = eth1, eth2
SITE
mkdir "$work/in"
# a rail is asked for again after a quarter of io_deadline
rails=(--set trainer.address=eth1,eth2 --set session.io_deadline=12s)

first() # first up|down: the interface of the trainer's first address
{
    ip -n trainer link set eth1 "$1"
}

round() # round PROVIDER
{
    local more=("${rails[@]}" --set "peers.provider=$1")
    rm -f "$work"/in/*
    first down
    net_start trainer trainer --model "$work/m/v0.safetensors" --follow "$work/in" --json "${more[@]}"
    net_start a rollout --peer a --until 2 --model "$work/m/v0.safetensors" --save "$work/a.safetensors" --json "${more[@]}"
    await said trainer 'joined: a'
    await said trainer 'address eth1 is away.*is an interface that is down'
    appear 1
    await said a '"target":1'
    first up
    await said trainer 'address eth1 is back'
    await said trainer 'rail 0 by eth1 carries again'
    appear 2
    finish a 0
    same "$work/a.safetensors" "$work/m/v2.safetensors"
    await said trainer 'goodbye: a'
    first down
    net_start a rollout --peer a --until 3 --model "$work/m/v2.safetensors" --save "$work/a.safetensors" --json "${more[@]}"
    appear 3
    finish a 0
    same "$work/a.safetensors" "$work/m/v3.safetensors"
    stop trainer
    said trainer 'lost: a' && fail "$1: the peer was lost though an address was left"
    return 0
}

round tcp
round auto
echo "a peer comes by the second address while the first is away"
